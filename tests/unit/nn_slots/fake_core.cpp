#include "tests/unit/nn_slots/fake_core.h"

#include <link.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <mutex>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>

#include "probe/core/capture.h"
#include "probe/core/gradients.h"
#include "probe/core/output_stats.h"
#include "probe/core/tensor_reader.h"
#include "probe/python/gradients.h"
#include "probe/torch/elf_object.h"
#include "probe/torch/memory_slots.h"
#include "probe/torch/nn_slots.h"

namespace tensortap::probe {
namespace {

struct State {
  std::mutex mutex;
  std::deque<std::string> texts;  // views of them stay good
  std::unordered_map<std::string, format::StrRef> by_text;
  std::vector<Event> events;
  std::vector<ToldTensor> tensors;
  std::unordered_map<const void*, std::size_t> blocks;
  MemoryTotals memory;
  double install_ms = 0;
};
State& state() {
  static auto* instance = new State;
  return *instance;
}
std::atomic<bool> g_capturing{false};
std::atomic<std::uint32_t> g_generation{0};

std::string text(format::StrRef ref) { return ref == format::kStrNone ? "" : state().texts.at(ref); }

void add(Event event) {
  event.thread = std::hash<std::thread::id>()(std::this_thread::get_id());
  state().events.push_back(std::move(event));
}

}  // namespace

bool capturing() noexcept { return g_capturing; }
std::uint32_t session_generation() noexcept { return g_generation; }
std::uint32_t evidence_generation() noexcept { return g_generation << 1 | 1; }

format::StrRef intern(std::string_view value) noexcept {
  if (value.empty()) return format::kStrNone;
  const std::lock_guard<std::mutex> guard(state().mutex);
  const auto [at, added] = state().by_text.emplace(value, static_cast<format::StrRef>(state().texts.size()));
  if (added) state().texts.emplace_back(value);
  return at->second;
}

void module_enter(const ModuleCall& call) noexcept {
  const std::lock_guard<std::mutex> guard(state().mutex);
  Event event;
  event.kind = Event::Kind::kModuleEnter;
  event.who = call.module;
  event.name = text(call.path);
  event.type = text(call.type);
  event.call_index = call.call_index;
  event.unseen_root = call.unseen_root;
  event.unseen_root_name = text(call.unseen_root_name);
  add(std::move(event));
}
void module_leave(const void* module, const ModuleResult&) noexcept {
  const std::lock_guard<std::mutex> guard(state().mutex);
  Event event;
  event.kind = Event::Kind::kModuleLeave;
  event.who = module;
  add(std::move(event));
}
bool inside_module() noexcept { return false; }
std::uint64_t next_module_number() noexcept { return 1; }
bool read_tensor(const void*, TensorFacts&) noexcept { return false; }
void note_module_tensor(std::uint64_t, std::string_view label, const void* impl, bool is_buffer,
                        FactBytes facts) noexcept {
  const std::lock_guard<std::mutex> guard(state().mutex);
  state().tensors.push_back({std::string(label), impl, is_buffer, facts.size != 0});
}
void note_gradient(std::string_view, std::string_view, const void*) noexcept {}
std::string_view interned_text(format::StrRef ref) noexcept {
  const std::lock_guard<std::mutex> guard(state().mutex);
  return ref == format::kStrNone ? std::string_view() : state().texts.at(ref);
}
bool stats_configured() noexcept { return false; }
bool stats_wanted(const char*) noexcept { return false; }
void note_stats(std::string_view, const void*) noexcept {}
void note_mask(std::string_view, const void*) noexcept {}
bool gradients_due(GradientMoment, std::uint64_t*) noexcept { return false; }
bool python_note_gradients(std::uint64_t) { return true; }

void phase_enter(format::StrRef name, format::StepCode step, const void* who) noexcept {
  const std::lock_guard<std::mutex> guard(state().mutex);
  Event event;
  event.kind = Event::Kind::kPhaseEnter;
  event.who = who;
  event.name = text(name);
  event.step = static_cast<int>(step);
  add(std::move(event));
}
void phase_leave(const void* who) noexcept {
  const std::lock_guard<std::mutex> guard(state().mutex);
  Event event;
  event.kind = Event::Kind::kPhaseLeave;
  event.who = who;
  add(std::move(event));
}
void note_zero_grad(const void* optimizer) noexcept {
  const std::lock_guard<std::mutex> guard(state().mutex);
  Event event;
  event.kind = Event::Kind::kZeroGrad;
  event.who = optimizer;
  add(std::move(event));
}

void note_alloc(const void* block, std::size_t bytes, std::uint8_t, std::int8_t) noexcept {
  if (bytes == 0) return;
  const std::lock_guard<std::mutex> guard(state().mutex);
  auto& memory = state().memory;
  ++memory.allocations;
  memory.bytes_allocated += bytes;
  memory.live_bytes += bytes;
  state().blocks[block] = bytes;
}
void note_free(const void* block, std::uint8_t, std::int8_t) noexcept {
  const std::lock_guard<std::mutex> guard(state().mutex);
  auto& memory = state().memory;
  const auto found = state().blocks.find(block);
  if (found == state().blocks.end()) {
    ++memory.unknown_frees;
    return;
  }
  ++memory.frees;
  memory.live_bytes -= found->second;
  state().blocks.erase(found);
}
void count(std::uint32_t, std::uint64_t) noexcept {}

namespace {

bool start() {
  {
    const std::lock_guard<std::mutex> guard(state().mutex);
    state().events.clear();
    state().tensors.clear();
    state().blocks.clear();
    state().memory = {};
    state().texts.clear();
    state().by_text.clear();
    ++g_generation;  // the references of the session before are worth nothing
  }
  g_capturing = true;
  const auto before = std::chrono::steady_clock::now();
  const bool ok = memory_slots_install() && nn_slots_install();
  state().install_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - before).count();
  return ok;
}

void stop() {
  g_capturing = false;
  nn_slots_remove();
  memory_slots_remove();
}

void repatch() {
  nn_slots_repatch();
  memory_slots_repatch();
}

std::vector<Event> take_events() {
  const std::lock_guard<std::mutex> guard(state().mutex);
  return std::exchange(state().events, {});
}

std::vector<ToldTensor> take_tensors() {
  const std::lock_guard<std::mutex> guard(state().mutex);
  return std::exchange(state().tensors, {});
}

MemoryTotals memory() {
  const std::lock_guard<std::mutex> guard(state().mutex);
  MemoryTotals totals = state().memory;
  totals.live_blocks = state().blocks.size();
  return totals;
}

struct Search {
  ElfObject own;
  std::size_t found = 0;
};

// Every word of other objects' data that leads into this library's code.
std::size_t patched() {
  Search search;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        ElfObject object;
        if (!describe(info, &object) || !object.contains(reinterpret_cast<std::uintptr_t>(&patched)))
          return 0;
        static_cast<Search*>(data)->own = object;
        return 1;
      },
      &search);
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        auto* into = static_cast<Search*>(data);
        ElfObject object;
        if (!describe(info, &object) || object.base == into->own.base) return 0;
        for (const auto& [first, count] :
             {std::pair(object.rela, object.rela_count), std::pair(object.plt, object.plt_count)}) {
          for (std::size_t i = 0; i < count; ++i) {
            if (ELF64_R_SYM(first[i].r_info) == 0) continue;
            const auto* slot = reinterpret_cast<const std::uintptr_t*>(object.base + first[i].r_offset);
            if (object.contains(reinterpret_cast<std::uintptr_t>(slot)) && into->own.contains(*slot))
              ++into->found;
          }
        }
        return 0;
      },
      &search);
  return search.found;
}

const SlotsUnderTest kTable{&start,       &stop,         &repatch, [](bool on) { g_capturing = on; },
                            &take_events, &take_tensors, &memory,  [] { return state().install_ms; },
                            &patched};

}  // namespace
}  // namespace tensortap::probe

#define EXPORTED __attribute__((visibility("default")))
using namespace tensortap::probe;

EXPORTED const SlotsUnderTest* tensortap_slots_under_test() { return &kTable; }
EXPORTED int tensortap_slots_start() { return kTable.start() ? 1 : 0; }
EXPORTED void tensortap_slots_stop() { kTable.stop(); }
EXPORTED int tensortap_slots_phases(const char* name) {
  int found = 0;
  const std::lock_guard<std::mutex> guard(state().mutex);
  for (const Event& event : state().events) {
    found += event.kind == Event::Kind::kPhaseEnter && event.name == name ? 1 : 0;
  }
  return found;
}
EXPORTED unsigned long tensortap_slots_live_bytes() { return kTable.memory().live_bytes; }
EXPORTED double tensortap_slots_install_ms() { return kTable.last_install_ms(); }
