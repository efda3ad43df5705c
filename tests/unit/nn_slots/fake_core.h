// A probe/core that keeps what the slots tell it, for nn_slots_test: no rings, no session. It lives in a
// shared library together with the slots (the patcher leaves the object it is in alone, and the test's own
// calls are what is to be seen), and is reached through one exported table.
//
//   const SlotsUnderTest& slots = slots_under_test();
//   slots.start();  …  slots.stop();
//   for (const Event& event : slots.take_events()) …
//
// Threads: any; one lock around everything.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tensortap::probe {

struct Event {
  enum class Kind { kModuleEnter, kModuleLeave, kPhaseEnter, kPhaseLeave, kZeroGrad };
  Kind kind = Kind::kModuleEnter;
  std::uint64_t thread = 0;   // hash of its id
  const void* who = nullptr;  // module, phase or optimizer
  std::string name;           // path, or name of the phase
  std::string type;
  std::uint32_t call_index = 0;
  const void* unseen_root = nullptr;
  std::string unseen_root_name;
  int step = 0;  // format::StepCode
};

// A parameter or buffer that was told.
struct ToldTensor {
  std::string label;
  const void* impl = nullptr;
  bool is_buffer = false;
  bool has_facts = false;  // of its module
};

struct MemoryTotals {
  std::uint64_t allocations = 0, frees = 0;
  std::uint64_t bytes_allocated = 0;
  std::uint64_t live_bytes = 0, live_blocks = 0;  // of blocks whose allocation was seen
  std::uint64_t unknown_frees = 0;
};

struct SlotsUnderTest {
  bool (*start)();  // clears, sets capturing, installs both kinds of slots
  void (*stop)();   // the other way round
  void (*repatch)();
  void (*set_capturing)(bool on);
  std::vector<Event> (*take_events)();
  std::vector<ToldTensor> (*take_tensors)();
  MemoryTotals (*memory)();
  double (*last_install_ms)();
  std::size_t (*patched)();  // relocation slots that point into the library now
};

}  // namespace tensortap::probe

extern "C" const tensortap::probe::SlotsUnderTest* tensortap_slots_under_test();

// For Python, by ctypes.
extern "C" int tensortap_slots_start();
extern "C" void tensortap_slots_stop();
// How many phases of this name began since the start.
extern "C" int tensortap_slots_phases(const char* name);
extern "C" unsigned long tensortap_slots_live_bytes();
extern "C" double tensortap_slots_install_ms();
