#include "probe/torch/slots.h"

#include <elf.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "probe/torch/elf_object.h"

namespace tensortap::probe {
namespace {

bool is_left_alone(const ElfObject& object) {
  if (object.contains(reinterpret_cast<std::uintptr_t>(&is_left_alone))) return true;
  const char* slash = std::strrchr(object.name, '/');
  const char* file = slash == nullptr ? object.name : slash + 1;
  for (const char* prefix : {"ld-linux", "ld.so", "ld-musl", "linux-vdso", "libtensortap"}) {
    if (std::strncmp(file, prefix, std::strlen(prefix)) == 0) return true;
  }
  return false;
}

std::atomic<std::uintptr_t>* as_atomic(std::uintptr_t* slot) {
  static_assert(sizeof(std::atomic<std::uintptr_t>) == sizeof(std::uintptr_t) &&
                std::atomic<std::uintptr_t>::is_always_lock_free);
  return reinterpret_cast<std::atomic<std::uintptr_t>*>(slot);
}

std::uintptr_t load(std::uintptr_t* slot) { return as_atomic(slot)->load(std::memory_order_acquire); }

enum class Protection { kReadOnly, kWritable, kUnknown };

// How the page is mapped now: the program headers only say how it will be once the loader is done with the
// object.
Protection protection_of(std::uintptr_t address) {
  std::FILE* maps = std::fopen("/proc/self/maps", "re");
  if (maps == nullptr) return Protection::kUnknown;
  Protection found = Protection::kUnknown;
  char line[512];
  bool line_start = true;
  while (found == Protection::kUnknown && std::fgets(line, sizeof line, maps) != nullptr) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    char mode[5] = "";
    if (line_start && std::sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s", &begin, &end, mode) == 3 &&
        address >= begin && address < end) {
      found = mode[1] == 'w' ? Protection::kWritable : Protection::kReadOnly;
    }
    line_start = std::strchr(line, '\n') != nullptr;
  }
  std::fclose(maps);
  return found;
}

// Makes the RELRO pages of some slots writable for its lifetime.
class WritablePages {
 public:
  WritablePages(std::uintptr_t begin, std::uintptr_t end)
      : begin_(begin & ~(page_size() - 1)), bytes_(end > begin ? end - begin_ : 0) {
    ok_ = bytes_ == 0 || mprotect(reinterpret_cast<void*>(begin_), bytes_, PROT_READ | PROT_WRITE) == 0;
  }
  ~WritablePages() {
    if (ok_ && bytes_ != 0) mprotect(reinterpret_cast<void*>(begin_), bytes_, PROT_READ);
  }
  WritablePages(const WritablePages&) = delete;
  WritablePages& operator=(const WritablePages&) = delete;
  bool ok() const { return ok_; }

 private:
  std::uintptr_t begin_;
  std::size_t bytes_;
  bool ok_ = false;
};

template <class Slots>
void relro_span(const ElfObject& object, const Slots& slots, std::uintptr_t* begin, std::uintptr_t* end) {
  *begin = *end = 0;
  for (const auto& slot : slots) {
    const auto address = reinterpret_cast<std::uintptr_t>(slot.address);
    if (!object.in_relro(address)) continue;
    if (*end == 0 || address < *begin) *begin = address;
    *end = std::max(*end, address + sizeof(void*));
  }
}

constexpr std::size_t kPrefixLength = 8;

}  // namespace

struct SlotPatcher::Pass {
  SlotPatcher* patcher = nullptr;
  bool force = false;
  bool started = false;
  bool unchanged = false;  // nothing was loaded or unloaded since the last complete pass
  bool some_unloaded = false;
  bool complete = true;  // false: an object must be looked at again
  bool failed = false;
  std::uint64_t loads = 0;
  std::uint64_t unloads = 0;
};

void SlotPatcher::add(std::string_view symbol, void* original, void* replacement) {
  targets_.push_back({std::string(symbol), reinterpret_cast<std::uintptr_t>(original),
                      reinterpret_cast<std::uintptr_t>(replacement)});
}

const SlotPatcher::Target* SlotPatcher::find(const char* name, std::uint32_t* index) const {
  for (const std::string& prefix : prefixes_) {
    if (std::strncmp(name, prefix.c_str(), prefix.size()) != 0) continue;
    const auto found = by_name_.find(std::string_view(name));
    if (found == by_name_.end()) return nullptr;
    *index = found->second;
    return &targets_[*index];
  }
  return nullptr;
}

#if defined(__x86_64__) && defined(__linux__)

// A program's copy of a library's vtable has no relocations of its own: the loader copied the library's
// entries.
void SlotPatcher::collect_copy(const ElfObject& object, std::uintptr_t begin, std::size_t bytes,
                               std::vector<Slot>* found) const {
  for (std::uintptr_t at = begin; at + sizeof(at) <= begin + bytes; at += sizeof(at)) {
    if (at % alignof(std::uintptr_t) != 0 || !object.contains_writable(at)) return;
    auto* slot = reinterpret_cast<std::uintptr_t*>(at);
    const auto target = by_original_.find(load(slot));
    if (target != by_original_.end()) found->push_back({slot, target->first, target->second});
  }
}

void SlotPatcher::collect(const ElfObject& object, std::vector<Slot>* found) const {
  std::uint64_t last_symbol = ~std::uint64_t{0};  // relocations of one symbol follow each other
  std::uint32_t index = 0;
  const Target* target = nullptr;
  const auto scan = [&](const ElfW(Rela) * first, const ElfW(Rela) * last, bool plt) {
    for (const ElfW(Rela)* entry = first; entry != last; ++entry) {
      const std::uint64_t type = ELF64_R_TYPE(entry->r_info);
      if (type == R_X86_64_COPY) {
        const auto& copied = object.symbols[ELF64_R_SYM(entry->r_info)];
        if (std::strncmp(object.strings + copied.st_name, "_ZTV", 4) == 0) {
          collect_copy(object, object.base + entry->r_offset, copied.st_size, found);
        }
        continue;
      }
      if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT && type != R_X86_64_64) continue;
      const std::uint64_t symbol = ELF64_R_SYM(entry->r_info);
      if (symbol != last_symbol) {
        last_symbol = symbol;
        target = symbol == 0 ? nullptr : find(object.strings + object.symbols[symbol].st_name, &index);
      }
      if (target == nullptr || (type == R_X86_64_64 && entry->r_addend != 0)) continue;
      const std::uintptr_t address = object.base + entry->r_offset;
      if (address % alignof(std::uintptr_t) != 0 || !object.contains_writable(address)) continue;
      auto* slot = reinterpret_cast<std::uintptr_t*>(address);
      const std::uintptr_t value = load(slot);
      // A lazily bound slot that was not called yet leads back into its own PLT. It will be bound to a
      // definition of this object, if there is one: ours, or that of a second copy of torch.
      const auto& definition = object.symbols[symbol];
      const bool other =
          definition.st_shndx != SHN_UNDEF && object.base + definition.st_value != target->original;
      const bool unbound = plt && !other && object.contains(value);
      if (value == target->original || unbound) found->push_back({slot, value, index});
    }
  };
  const std::size_t skip = std::min(object.relative_count, object.rela_count);
  scan(object.rela + skip, object.rela + object.rela_count, false);
  scan(object.plt, object.plt + object.plt_count, true);
}

// True when the object needs no further look.
bool SlotPatcher::patch_object(const ElfObject& object, Pass* pass) {
  std::vector<Slot> found;
  collect(object, &found);
  if (!found.empty()) {
    if (object.relro_end > object.relro_begin && protection_of(object.relro_begin) == Protection::kWritable) {
      return false;  // the loader is still writing there, and will protect the pages itself
    }
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    relro_span(object, found, &begin, &end);
    // Before the first store, so that no memory error comes between the stores and the record of them.
    objects_.reserve(objects_.size() + 1);
    const WritablePages pages(begin, end);
    if (!pages.ok()) {
      ++refused_;
      pass->failed = true;
      found.clear();
    }
    for (const Slot& slot : found) {
      as_atomic(slot.address)->store(targets_[slot.target].replacement, std::memory_order_release);
    }
  }
  objects_.push_back({object.base, object.dynamic, true, std::move(found)});
  return true;
}

// Looked through already, and not replaced since by another object at the same place: then the slots would be
// new.
bool SlotPatcher::is_known(const ElfObject& object, bool some_unloaded) {
  const auto found = std::find_if(objects_.begin(), objects_.end(), [&](const Object& known) {
    return known.base == object.base && known.dynamic == object.dynamic;
  });
  if (found == objects_.end()) return false;
  const bool intact = std::all_of(found->slots.begin(), found->slots.end(), [&](const Slot& slot) {
    return object.contains_writable(reinterpret_cast<std::uintptr_t>(slot.address)) &&
           load(slot.address) == targets_[slot.target].replacement;
  });
  if (intact && !(some_unloaded && found->slots.empty())) {
    found->seen = true;
    return true;
  }
  objects_.erase(found);
  return false;
}

int SlotPatcher::visit(dl_phdr_info* info, std::size_t size, void* data) {
  auto* pass = static_cast<Pass*>(data);
  SlotPatcher& self = *pass->patcher;
  if (!pass->started) {
    pass->started = true;
    if (size >= offsetof(dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs) {
      pass->loads = info->dlpi_adds;
      pass->unloads = info->dlpi_subs;
      pass->unchanged = !pass->force && pass->loads == self.loads_ && pass->unloads == self.unloads_;
      pass->some_unloaded = pass->unloads != self.unloads_;
    }
    if (pass->unchanged) return 1;
  }
  ElfObject object;
  if (!describe(info, &object) || is_left_alone(object)) return 0;
  try {
    if (!self.is_known(object, pass->some_unloaded) && !self.patch_object(object, pass))
      pass->complete = false;
  } catch (...) {  // out of memory, before anything was stored for this object
    pass->complete = false;
    pass->failed = true;
  }
  return 0;
}

bool SlotPatcher::run(bool force) noexcept {
  for (Object& object : objects_) object.seen = false;
  Pass pass;
  pass.patcher = this;
  pass.force = force;
  dl_iterate_phdr(&SlotPatcher::visit, &pass);
  if (pass.unchanged) return true;
  objects_.erase(
      std::remove_if(objects_.begin(), objects_.end(), [](const Object& object) { return !object.seen; }),
      objects_.end());
  if (pass.complete) {
    loads_ = pass.loads;
    unloads_ = pass.unloads;
  }
  return !pass.failed;
}

bool SlotPatcher::install() noexcept {
  const LoaderWalk walk;
  if (installed_) return true;
  try {
    by_name_.clear();
    by_original_.clear();
    prefixes_.clear();
    for (std::uint32_t i = 0; i < targets_.size(); ++i) {
      const std::string& symbol = targets_[i].symbol;
      by_name_.emplace(symbol, i);
      by_original_.emplace(targets_[i].original, i);
      const std::string prefix = symbol.substr(0, kPrefixLength);
      if (std::find(prefixes_.begin(), prefixes_.end(), prefix) == prefixes_.end())
        prefixes_.push_back(prefix);
    }
  } catch (...) {
    return false;
  }
  objects_.clear();
  refused_ = 0;
  run(true);
  installed_ = std::any_of(objects_.begin(), objects_.end(),
                           [](const Object& object) { return !object.slots.empty(); });
  return installed_;
}

bool SlotPatcher::repatch() noexcept {
  const LoaderWalk walk;
  return !installed_ || run(false);
}

int SlotPatcher::visit_restore(dl_phdr_info* info, std::size_t, void* data) {
  auto& self = *static_cast<SlotPatcher*>(data);
  ElfObject object;
  if (!describe(info, &object)) return 0;
  for (Object& known : self.objects_) {
    if (known.base != object.base || known.dynamic != object.dynamic || known.slots.empty()) continue;
    const auto is_ours = [&](const Slot& slot) {
      return object.contains_writable(reinterpret_cast<std::uintptr_t>(slot.address)) &&
             load(slot.address) == self.targets_[slot.target].replacement;
    };
    known.slots.erase(
        std::remove_if(known.slots.begin(), known.slots.end(), [&](const Slot& s) { return !is_ours(s); }),
        known.slots.end());
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    relro_span(object, known.slots, &begin, &end);
    const WritablePages pages(begin, end);
    if (!pages.ok()) continue;
    for (const Slot& slot : known.slots)
      as_atomic(slot.address)->store(slot.old_value, std::memory_order_release);
    known.slots.clear();
  }
  return 0;
}

bool SlotPatcher::restore() noexcept {
  const LoaderWalk walk;
  if (!installed_) return true;
  dl_iterate_phdr(&SlotPatcher::visit_restore, this);
  objects_.clear();
  installed_ = false;
  return true;
}

#else  // the relocation types are x86-64's

bool SlotPatcher::install() noexcept { return false; }
bool SlotPatcher::repatch() noexcept { return false; }
bool SlotPatcher::restore() noexcept { return true; }

#endif

std::size_t SlotPatcher::slots() const noexcept {
  const LoaderWalk walk;
  std::size_t count = 0;
  for (const Object& object : objects_) count += object.slots.size();
  return count;
}

std::size_t SlotPatcher::refused() const noexcept {
  const LoaderWalk walk;
  return refused_;
}

}  // namespace tensortap::probe
