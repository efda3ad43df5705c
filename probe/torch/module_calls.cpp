#include "probe/torch/module_calls.h"

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <new>

#include "probe/torch/module_tree.h"

namespace tensortap::probe {
namespace {

// One module's answer.  All zero at first, so that the table takes no room until it is used. Readers check
// `stamp` before and after; writers hold the lock. The same stamp always stands with the same fields. The
// call count belongs to the module and outlives stamps.
struct Entry {
  std::atomic<std::uintptr_t> module{0};
  std::atomic<std::uint64_t> stamp{0};  // version of the trees, generation of the session; 0: not valid
  std::atomic<std::uintptr_t> unseen_root{0};
  std::atomic<format::StrRef> path{0};
  std::atomic<format::StrRef> type{0};
  std::atomic<format::StrRef> root_name{0};
  std::atomic<std::uint32_t> calls{0};
  std::atomic<std::uint32_t> described{0};  // generation of the session that was told of it
  std::atomic<std::uint32_t> reported{0};   // likewise, of its parameters and buffers
  std::atomic<std::uint64_t> number{0};     // of the module object; 0: not given yet
  std::atomic<bool> alone{false};
};

constexpr std::size_t kEntries = 1 << 14;
constexpr std::size_t kProbes = 32;

struct State {
  std::mutex mutex;  // of `tree`, `lists` and of writing entries
  ModuleTree tree;
  TensorLists lists;
  std::uint32_t tree_version = 0;  // `version` at the last refresh
  bool (*is_seen)(const char*) = nullptr;
};

// Static storage, never destroyed: wrappers may run in static destructors of the job.
Entry g_entries[kEntries];
std::atomic<std::uint32_t> g_version{1};
std::atomic<State*> g_state{nullptr};

std::uint64_t stamp_now(std::uint32_t version) {
  return (static_cast<std::uint64_t>(version) << 32) | session_generation();
}

// Null when the table is full around the module's place.
Entry* entry_of(std::uintptr_t module) {
  const std::uint64_t hash = (module >> 4) * 0x9E3779B97F4A7C15ULL;
  for (std::size_t i = 0; i < kProbes; ++i) {
    Entry& entry = g_entries[((hash >> 40) + i) % kEntries];
    std::uintptr_t key = entry.module.load(std::memory_order_relaxed);
    if (key == module) return &entry;
    if (key == 0 && (entry.module.compare_exchange_strong(key, module) || key == module)) return &entry;
  }
  return nullptr;
}

bool read_entry(const Entry& entry, std::uint64_t stamp, ModuleCall* call) {
  if (entry.stamp.load(std::memory_order_acquire) != stamp) return false;
  call->path = entry.path.load(std::memory_order_relaxed);
  call->type = entry.type.load(std::memory_order_relaxed);
  call->unseen_root = reinterpret_cast<const void*>(entry.unseen_root.load(std::memory_order_relaxed));
  call->unseen_root_name = entry.root_name.load(std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_acquire);
  return entry.stamp.load(std::memory_order_relaxed) == stamp;
}

void write_entry(Entry* entry, std::uint64_t stamp, const ModuleCall& call, bool alone) {
  entry->stamp.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  entry->path.store(call.path, std::memory_order_relaxed);
  entry->type.store(call.type, std::memory_order_relaxed);
  entry->unseen_root.store(reinterpret_cast<std::uintptr_t>(call.unseen_root), std::memory_order_relaxed);
  entry->root_name.store(call.unseen_root_name, std::memory_order_relaxed);
  entry->alone.store(alone, std::memory_order_relaxed);
  entry->stamp.store(stamp, std::memory_order_release);
}

bool is_power_of_two(std::uint32_t value) { return (value & (value - 1)) == 0; }

void refresh(State* state) {
  const std::uint32_t version = g_version.load(std::memory_order_acquire);
  const bool changed = state->tree.refresh();
  // What changed without a constructor makes the cached answers old, too.
  if (changed && version == state->tree_version) {
    state->tree_version = g_version.fetch_add(1, std::memory_order_acq_rel) + 1;
  } else {
    state->tree_version = version;
  }
}

// Looks the module up in the trees, reading them again where they may have changed. Under the lock; may
// throw.
void resolve(State* state, std::uintptr_t module, Entry* entry, ModuleCall* call) {
  bool fresh = false;
  if (state->tree.find(module) == nullptr) {
    state->tree.add(module);  // a copy or a clone, or older than the capture
  } else {
    fresh = state->tree_version == g_version.load(std::memory_order_acquire);
  }
  if (!fresh) refresh(state);
  const ModuleTree::Node* node = state->tree.find(module);
  if (fresh && node != nullptr && node->root == module) {  // asked again because it stands alone
    refresh(state);
    node = state->tree.find(module);
  }
  if (node == nullptr) return;
  const bool alone = node->root == module;
  call->type = intern(node->type_name);
  call->path = node->path.empty() ? call->type : intern(node->path);
  const ModuleTree::Node* root = alone ? nullptr : state->tree.find(node->root);
  if (root != nullptr && (root->mangled_type == nullptr || !state->is_seen(root->mangled_type))) {
    call->unseen_root = reinterpret_cast<const void*>(node->root);
    call->unseen_root_name = intern(root->type_name);
  }
  if (entry != nullptr) write_entry(entry, stamp_now(state->tree_version), *call, alone);
}

// A child of fork finds the lock free and the tree whole.
void lock_for_fork() {
  if (State* state = g_state.load()) state->mutex.lock();
}
void unlock_after_fork() {
  if (State* state = g_state.load()) state->mutex.unlock();
}

}  // namespace

bool module_calls_start(bool (*is_seen)(const char* mangled_type)) noexcept {
  if (g_state.load() != nullptr) return true;
  try {
    auto* state = new State;
    state->is_seen = is_seen;
    g_state.store(state);
    pthread_atfork(&lock_for_fork, &unlock_after_fork, &unlock_after_fork);
    return true;
  } catch (...) {
    return false;
  }
}

void module_calls_invalidate() noexcept { g_version.fetch_add(1, std::memory_order_acq_rel); }

void module_constructed(const torch::nn::Module* module) noexcept {
  State* state = g_state.load(std::memory_order_acquire);
  if (state == nullptr) return;
  const auto address = reinterpret_cast<std::uintptr_t>(module);
  try {
    const std::lock_guard<std::mutex> guard(state->mutex);
    state->tree.add(address);
  } catch (...) {  // out of memory: the module stands alone in the trace
  }
  if (Entry* entry = entry_of(address)) {
    entry->calls.store(0, std::memory_order_relaxed);
    entry->described.store(0, std::memory_order_relaxed);
    entry->reported.store(0, std::memory_order_relaxed);
    entry->number.store(0, std::memory_order_relaxed);
  }
  module_calls_invalidate();
}

namespace {

std::uint64_t number_of(Entry* entry) {
  std::uint64_t number = entry->number.load(std::memory_order_relaxed);
  if (number != 0) return number;
  const std::uint64_t fresh = next_module_number();
  return entry->number.compare_exchange_strong(number, fresh) ? fresh : number;
}

// Under the lock; the tree must be fresh.
std::vector<TreeModule> read_tree(State* state, ModuleTree::Address root) {
  const std::vector<ModuleTree::Address> modules = state->tree.below(root);
  std::vector<std::vector<HeldTensor>> tensors = state->lists.read(modules);
  std::vector<TreeModule> found;
  for (std::size_t i = 0; i < modules.size(); ++i) {
    const ModuleTree::Node* node = state->tree.find(modules[i]);
    if (node->vtable == 0) continue;
    TreeModule module;
    module.module = reinterpret_cast<const void*>(modules[i]);
    module.path = node->path;
    module.type_name = node->type_name;
    module.tensors = std::move(tensors[i]);
    if (Entry* entry = entry_of(modules[i])) {
      module.number = number_of(entry);
      module.described = entry->described.load(std::memory_order_relaxed) == evidence_generation();
    }
    found.push_back(std::move(module));
  }
  return found;
}

}  // namespace

bool mark_reported(const torch::nn::Module* module) noexcept {
  Entry* entry = entry_of(reinterpret_cast<std::uintptr_t>(module));
  const std::uint32_t generation = evidence_generation();
  return entry == nullptr || entry->reported.exchange(generation, std::memory_order_relaxed) != generation;
}

std::vector<TreeModule> take_unreported_tree(const torch::nn::Module* module) {
  State* state = g_state.load(std::memory_order_acquire);
  if (state == nullptr) return {};
  const std::lock_guard<std::mutex> guard(state->mutex);
  const auto address = reinterpret_cast<std::uintptr_t>(module);
  const Entry* entry = entry_of(address);
  if (entry == nullptr || entry->reported.load(std::memory_order_relaxed) == evidence_generation()) return {};
  refresh(state);
  const ModuleTree::Node* node = state->tree.find(address);
  if (node == nullptr) return {};
  std::vector<TreeModule> all = read_tree(state, node->root);
  std::vector<TreeModule> fresh;
  for (TreeModule& one : all) {
    if (mark_reported(static_cast<const torch::nn::Module*>(one.module))) fresh.push_back(std::move(one));
  }
  return fresh;
}

std::vector<std::vector<TreeModule>> reported_trees() {
  std::vector<std::vector<TreeModule>> trees;
  State* state = g_state.load(std::memory_order_acquire);
  if (state == nullptr) return trees;
  const std::lock_guard<std::mutex> guard(state->mutex);
  refresh(state);
  for (const ModuleTree::Address root : state->tree.roots()) {
    Entry* entry = entry_of(root);
    if (entry != nullptr && entry->reported.load(std::memory_order_relaxed) == evidence_generation()) {
      trees.push_back(read_tree(state, root));
    }
  }
  return trees;
}

ModuleCall next_module_call(const torch::nn::Module* module, std::string_view static_type,
                            bool* undescribed) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(module);
  ModuleCall call;
  call.module = module;
  Entry* entry = entry_of(address);
  if (entry != nullptr) {
    const std::uint32_t generation = evidence_generation();
    call.number = number_of(entry);
    *undescribed = entry->described.exchange(generation, std::memory_order_relaxed) != generation;
  }
  call.call_index = entry == nullptr ? 0 : entry->calls.fetch_add(1, std::memory_order_relaxed);
  const bool again =
      entry == nullptr || (entry->alone.load(std::memory_order_relaxed) && is_power_of_two(call.call_index));
  if (!again && read_entry(*entry, stamp_now(g_version.load(std::memory_order_acquire)), &call)) return call;
  if (State* state = g_state.load(std::memory_order_acquire)) {
    try {
      const std::lock_guard<std::mutex> guard(state->mutex);
      resolve(state, address, entry, &call);
    } catch (...) {
      call.path = format::kStrNone;
    }
  }
  if (call.type == format::kStrNone) call.type = intern(static_type);
  if (call.path == format::kStrNone) call.path = call.type;
  return call;
}

}  // namespace tensortap::probe
