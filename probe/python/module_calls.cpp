#include "probe/python/module_calls.h"

#include <cstdint>

#include "probe/core/capture.h"
#include "probe/core/node_writer.h"
#include "probe/core/output_stats.h"
#include "probe/python/call_nodes.h"
#include "probe/python/mask_stats.h"
#include "probe/python/module_facts.h"
#include "probe/python/module_table.h"
#include "probe/python/module_tensors.h"
#include "probe/python/output_stats.h"

namespace tensortap::probe {

namespace {

PyObject* wrapper_code = nullptr;

// The calls that are open on this thread, by the module's address, whether or not they are still captured. A
// signal handler can raise at any point of the wrapper, so the wrapper can't tell `failed` whether its call
// was entered and not yet left.
constexpr std::uint32_t kMaxOpen = 128;  // what nests deeper is believed to balance
struct OpenCalls {
  std::uint32_t depth;
  PyObject* outermost;  // of the current capture; an address only: looked up in the table before it is used
  PyObject* module[kMaxOpen];
};
thread_local OpenCalls open_calls;

void push_open(PyObject* module) {
  if (open_calls.depth < kMaxOpen) open_calls.module[open_calls.depth] = module;
  ++open_calls.depth;
}

// Ends the innermost open call of this module, and first those inside it whose end was missed: something was
// raised through them.
void close_call(PyObject* module, const ModuleResult& result) {
  if (open_calls.depth > kMaxOpen) {
    --open_calls.depth;
    module_leave(module, result);
    return;
  }
  std::uint32_t at = open_calls.depth;
  while (at > 0 && open_calls.module[at - 1] != module) --at;
  if (at == 0) return;
  ModuleResult raised;
  raised.failed = true;
  while (open_calls.depth > at) module_leave(open_calls.module[--open_calls.depth], raised);
  module_leave(open_calls.module[--open_calls.depth], result);
}

// A module that no walk finds (made inside a forward, or hidden in a list) must not cost a walk at each call:
// after a walk that didn't help, 1, 3, 7 … of the next unknown modules go without.
std::uint32_t fruitless = 0;
std::uint32_t skips_left = 0;
constexpr std::uint32_t kMaxSkips = 1023;

ModuleEntry* place_unknown(PyObject* module, bool inside) {
  if (!inside) {
    module_walk(module);
    return module_find(module);
  }
  if (skips_left > 0) {
    --skips_left;
    return module_add_unplaced(module);
  }
  PyObject* root = open_calls.outermost;
  if (root && module_find(root)) module_walk(root);
  ModuleEntry* entry = module_find(module);
  fruitless = entry ? 0 : (fruitless < kMaxSkips ? fruitless * 2 + 1 : kMaxSkips);
  skips_left = fruitless;
  return entry ? entry : module_add_unplaced(module);
}

// The call's arguments, and with `facts` those of the module, into `tail`.
void describe(PyObject* const* arguments, bool facts, unsigned char* tail, ModuleCall* call) {
  std::uint32_t used = 0;
  if (facts) {
    NodeWriter writer(tail, kNodeBytes);
    write_module_facts(writer, arguments[0]);
    used = writer.bytes();
    if (used != 0) call->tails |= format::kTailFacts;
  }
  NodeWriter nodes(tail + used, kNodeBytes);
  write_call_args(nodes, arguments[1], arguments[2]);
  call->tails |= nodes.full() ? format::kArgsCut : format::kTailArgs;
  call->tail = tail;
  call->tail_bytes = used + nodes.bytes();
}

// An interpreter may call a function like `enter` without a look at the recursion limit, but not `failed`:
// what is entered beyond the limit would never be closed. False: a RecursionError is set.
bool within_recursion_limit() {
  if (!py.EnterRecursiveCall || !py.LeaveRecursiveCall) return true;
  if (py.EnterRecursiveCall(" while calling a Python object") != 0) return false;
  py.LeaveRecursiveCall();
  return true;
}

// enter(module, args, kwargs)
PyObject* enter(PyObject*, PyObject* const* arguments, PySize) {
  if (!capturing()) return py.BoolFromLong(0);
  if (!within_recursion_limit()) return nullptr;
  PyObject* module = arguments[0];
  const bool inside = inside_module();
  if (!inside) open_calls.outermost = module;
  ModuleEntry* entry = module_find(module);
  // A root that was met before as an unplaced module deserves its walk.
  if (!entry || (!inside && !entry->path)) entry = place_unknown(module, inside);
  if (!entry) return py.BoolFromLong(0);
  module_refresh(entry);
  ModuleCall call;
  call.module = module;
  call.path = entry->name_ref;
  call.type = entry->type_ref;
  call.call_index = entry->calls++;
  call.number = entry->number;
  const std::uint32_t generation = evidence_generation();
  const bool undescribed = entry->described != generation;
  const bool unreported = entry->reported != generation;
  entry->described = generation;
  if (!inside) entry->root_call = generation;
  entry = nullptr;  // what follows may run the job's code
  call.modes = training_mode(module);
  unsigned char tail[2 * kNodeBytes];
  describe(arguments, undescribed, tail, &call);
  push_open(module);
  module_enter(call);
  if (unreported) report_module_tensors(module);
  if (stats_configured()) note_call_masks(module, arguments[1], arguments[2]);
  return py.BoolFromLong(1);
}

// leave(module, result)
PyObject* leave(PyObject*, PyObject* const* arguments, PySize) {
  ModuleResult result;
  unsigned char output[kNodeBytes];
  if (capturing()) {
    NodeWriter nodes(output, sizeof output);
    write_node(nodes, arguments[1]);
    result.output = output;
    result.output_bytes = nodes.bytes();
    result.output_cut = nodes.full();
    if (stats_configured()) note_output_stats(arguments[0], arguments[1]);
  }
  close_call(arguments[0], result);
  py.IncRef(py.none);
  return py.none;
}

// Is this traceback entry a frame of the wrapper's?
bool is_ours(PyObject* entry) {
  PyObject* frame = py_attribute(entry, "tb_frame");
  PyObject* code = frame ? py_attribute(frame, "f_code") : nullptr;
  const bool ours = code && code == wrapper_code;
  if (code) py.DecRef(code);
  if (frame) py.DecRef(frame);
  return ours;
}

// Takes out the wrapper's entries further in: left there by calls that had no room to call `failed`
// (recursion limit) or were interrupted by a signal before their try began.
void strip_below(PyObject* head) {
  py.IncRef(head);
  PyObject* entry = head;
  while (entry && entry != py.none) {
    PyObject* next = py_attribute(entry, "tb_next");
    while (next && next != py.none && is_ours(next)) {
      PyObject* after = py_attribute(next, "tb_next");
      if (!after || py.ObjectSetAttrString(entry, "tb_next", after) != 0) {
        py.ErrClear();
        if (after) py.DecRef(after);
        py.DecRef(next);
        py.DecRef(entry);
        return;
      }
      py.DecRef(next);
      next = after;
    }
    py.DecRef(entry);
    entry = next;
  }
  if (entry) py.DecRef(entry);
}

PyObject* failed(PyObject*, PyObject* module) {
  ModuleResult raised;
  raised.failed = true;
  close_call(module, raised);
  PyObject* type = nullptr;
  PyObject* value = nullptr;
  PyObject* traceback = nullptr;
  py.ErrGetExcInfo(&type, &value, &traceback);  // three owned references, or null
  if (traceback && traceback != py.none && is_ours(traceback)) {
    PyObject* next = py_attribute(traceback, "tb_next");
    if (next) {
      if (next != py.none) strip_below(next);
      // Both places are written: up to 3.10 a bare raise takes the traceback from the handled exception's
      // state, from 3.11 on from the exception itself.
      if (value && value != py.none && py.ExceptionSetTraceback(value, next) != 0) py.ErrClear();
      py.DecRef(traceback);
      traceback = next;
      if (traceback == py.none) {  // no entry at all: the state wants null, not None
        py.DecRef(traceback);
        traceback = nullptr;
      }
    }
  }
  py.ErrSetExcInfo(type, value, traceback);  // takes the references
  py.IncRef(py.none);
  return py.none;
}

PyMethodDef enter_def = {"enter", reinterpret_cast<void (*)()>(&enter), kMethFastcall, nullptr};
PyMethodDef leave_def = {"leave", reinterpret_cast<void (*)()>(&leave), kMethFastcall, nullptr};
PyMethodDef failed_def = {"failed", reinterpret_cast<void (*)()>(&failed), kMethO, nullptr};

}  // namespace

bool module_call_functions(ModuleCallFunctions* functions) {
  functions->enter = py.FunctionNew(&enter_def, nullptr, nullptr);
  functions->leave = py.FunctionNew(&leave_def, nullptr, nullptr);
  functions->failed = py.FunctionNew(&failed_def, nullptr, nullptr);
  return functions->enter && functions->leave && functions->failed;
}

void module_calls_set_code(PyObject* code) {
  py.IncRef(code);
  wrapper_code = code;
}

}  // namespace tensortap::probe
