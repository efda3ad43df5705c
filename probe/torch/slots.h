// Puts our functions in the place of exported ones by rewriting the relocation slots of every loaded object:
// calls through the PLT or the GOT (R_X86_64_JUMP_SLOT, R_X86_64_GLOB_DAT) and vtables (R_X86_64_64). One
// mechanism for launch and attach: it works on a running job, and `restore` leaves the slots as they were
// found.
//
//   SlotPatcher patcher;
//   patcher.add("_ZN3c1025ProfiledCPUMemoryReporter6DeleteEPv", original, replacement);
//   if (!patcher.install()) …;   // an architecture or a loader that we don't know: nothing was touched
//   patcher.repatch();           // after a dlopen
//   patcher.restore();           // at stop
//
// What it leaves alone: a slot bound to another definition than `original` (somebody else interposes, or a
// second copy of torch is in the process), the dynamic loader, libtensortap, and the object this code is in:
// its own calls and function addresses always mean the original. An object that the loader is still
// relocating is left for a later `repatch`. A slot is only touched under the loader's lock, while its object
// is mapped.
//
// Threads: job threads may call through the slots at any time; a slot is always either the old or the new
// value. install, repatch and restore may be called from any thread; one at a time does the work, and none
// waits for more than two seconds. Ownership: the patcher copies names; replacements must stay mapped for as
// long as the process lives, because a thread may be inside one (so: never unload a backend). No torch
// headers. C++17.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

struct dl_phdr_info;

namespace tensortap::probe {

struct ElfObject;

class SlotPatcher {
 public:
  SlotPatcher() = default;
  SlotPatcher(const SlotPatcher&) = delete;
  SlotPatcher& operator=(const SlotPatcher&) = delete;

  // `symbol` is the mangled name, `original` the definition that callers reach now. Before install; may throw
  // std::bad_alloc.
  void add(std::string_view symbol, void* original, void* replacement);

  // Rewrites the slots of all loaded objects. False when nothing could be patched.
  bool install() noexcept;
  // Objects loaded since; returns at once when there are none. False when one of them could not be patched.
  bool repatch() noexcept;
  // Puts the old values back where a slot still holds ours.
  bool restore() noexcept;

  std::size_t slots() const noexcept;    // rewritten at this moment
  std::size_t refused() const noexcept;  // objects whose pages could not be made writable

 private:
  struct Target {
    std::string symbol;
    std::uintptr_t original;
    std::uintptr_t replacement;
  };
  struct Slot {
    std::uintptr_t* address;
    std::uintptr_t old_value;
    std::uint32_t target;
  };
  // An object that was looked through. Base and dynamic section tell it from others at the same time, not
  // from one loaded later at the same place: see is_known.
  struct Object {
    std::uintptr_t base;
    const void* dynamic;
    bool seen = false;  // still loaded, found by the pass in progress
    std::vector<Slot> slots;
  };
  struct Pass;

  const Target* find(const char* name, std::uint32_t* index) const;
  bool is_known(const ElfObject& object, bool some_unloaded);
  bool patch_object(const ElfObject& object, Pass* pass);
  void collect(const ElfObject& object, std::vector<Slot>* found) const;
  void collect_copy(const ElfObject& object, std::uintptr_t begin, std::size_t bytes,
                    std::vector<Slot>* found) const;
  bool run(bool force) noexcept;
  static int visit(dl_phdr_info* info, std::size_t size, void* data);
  static int visit_restore(dl_phdr_info* info, std::size_t size, void* data);

  std::vector<Target> targets_;
  std::unordered_map<std::string_view, std::uint32_t> by_name_;  // into targets_' texts: rebuilt by install
  std::unordered_map<std::uintptr_t, std::uint32_t> by_original_;
  std::vector<std::string> prefixes_;  // the first bytes of all names: a cheap filter
  std::vector<Object> objects_;
  std::uint64_t loads_ = 0;  // the loader's counters at the last complete pass
  std::uint64_t unloads_ = 0;
  std::size_t refused_ = 0;
  bool installed_ = false;
};

}  // namespace tensortap::probe
