// What the observers (torch callbacks, allocator slots, module hooks) call on the job's threads.
//
// Every function is noexcept, takes no lock, allocates nothing after a thread's first event, and returns at
// once when nothing is being captured. Pointers passed in are identities only: they are compared, never
// followed, never kept alive. Texts are interned once (`intern`) and travel as StrRefs.
//
//   if (capturing()) {
//     module_enter({.module = self, .path = path, .type = type, .call_index = n});
//     …
//     module_leave(self);
//   }
//
// C++17: included by files that include torch headers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "format/ring_record.h"

namespace tensortap::probe {

// Is a window open? Cheap; may change at any moment (the functions below check again).
bool capturing() noexcept;

// The reference of a text in the session's string table; the same text yields the same reference. kStrNone
// for "". Lock-free; a thousand distinct module paths are fine, per-call texts are not. Only while capturing.
format::StrRef intern(std::string_view text) noexcept;

// A count of the session's: how often forks, restarts of the capture made earlier StrRefs invalid. Caches of
// StrRefs are kept together with this number and thrown away when it changed.
std::uint32_t session_generation() noexcept;

// The same for what is written once in each capture: it changes once more when the window opens, since what
// was written before that is nowhere.
std::uint32_t evidence_generation() noexcept;

struct ModuleCall {
  const void* module = nullptr;            // identity of the module object
  format::StrRef path = format::kStrNone;  // the span's name: qualified path; for the root its type
  format::StrRef type = format::kStrNone;  // class name
  std::uint32_t call_index = 0;            // calls this module had before
  // C++ only: a root whose own forward can't be seen (a user's class). When the thread has no open module
  // call, the span of that root is opened for its first child and closed when the first child comes again, at
  // a backward pass, an optimizer or the step's end (span flag `inferred`).
  const void* unseen_root = nullptr;
  format::StrRef unseen_root_name = format::kStrNone;
  std::uint64_t number = 0;  // of the module object (next_module_number); 0: not known
  std::uint8_t modes = 0;    // kModeTrainingKnown, kModeTraining
  // Facts and arguments as format/module_nodes.h says; read during the call only.
  std::uint8_t tails = 0;  // format::SpanTails
  std::uint32_t tail_bytes = 0;
  const unsigned char* tail = nullptr;
};

// What a module call left behind: a node tree of its result, or that it raised.
struct ModuleResult {
  const unsigned char* output = nullptr;
  std::uint32_t output_bytes = 0;
  bool output_cut = false;
  bool failed = false;
};

// The text of a reference; "" when there is none. Valid as long as the capture.
std::string_view interned_text(format::StrRef ref) noexcept;

// A number for a module object, unique in this process.
std::uint64_t next_module_number() noexcept;

// The encoded facts of a module (format/module_nodes.h), at most kNodeBytes; read during the call only.
struct FactBytes {
  const unsigned char* at = nullptr;
  std::uint32_t size = 0;  // 0: none; a multiple of 8
};

// A parameter or buffer of module object `module`, by its full name; charged to the span that is open on this
// thread. `impl`: its TensorImpl, alive during the call. `facts`: of the module, with its first tensor, when
// no call has told them.
void note_module_tensor(std::uint64_t module, std::string_view label, const void* impl, bool is_buffer,
                        FactBytes facts = {}) noexcept;

// A module's forward begins and ends on this thread. Outermost calls get step=forward and drive the steps.
void module_enter(const ModuleCall& call) noexcept;
void module_leave(const void* module, const ModuleResult& result = {}) noexcept;
// Has this thread an open module call (of the kind that was entered, not an inferred one)?
bool inside_module() noexcept;

// Engine::execute (StepCode::kBackward) and optimizer steps (kOptimizer; `who` = identity of the optimizer).
void phase_enter(format::StrRef name, format::StepCode step, const void* who) noexcept;
void phase_leave(const void* who) noexcept;
// An optimizer's zero_grad begins: a step may begin here.
void note_zero_grad(const void* optimizer) noexcept;

// A storage block was allocated or freed (sizes in bytes; zero-byte blocks are ignored here).
// device_type, device_index: c10::DeviceType and index, -1 = none.
void note_alloc(const void* block, std::size_t bytes, std::uint8_t device_type,
                std::int8_t device_index) noexcept;
void note_free(const void* block, std::uint8_t device_type, std::int8_t device_index) noexcept;

// Counters of the session header (format/ring_layout.h), e.g. kPythonHooks.
void count(std::uint32_t counter, std::uint64_t add = 1) noexcept;

}  // namespace tensortap::probe
