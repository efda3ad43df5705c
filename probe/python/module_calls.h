// The C functions that the wrapper of Module.__call__ calls on the job's threads, with the GIL.
//
//   enter(module)   → True when the call is recorded
//   leave(module)   ends it
//   failed(module, entered)  in the wrapper's handler: ends it, and takes the wrapper's frame out of the
//   traceback
//
// Their cost while nothing is captured: a look at capture.h, nothing else. No destructor, no noexcept
// (interpreter.h).
#pragma once

#include "probe/python/interpreter.h"

namespace tensortap::probe {

struct ModuleCallFunctions {
  PyObject* enter;
  PyObject* leave;
  PyObject* failed;
};

// New Python function objects; false (with a Python error set) when one can't be made. Call with the GIL.
bool module_call_functions(ModuleCallFunctions* functions);
// The wrapper's code object, by which `failed` knows its frames; a reference is kept.
void module_calls_set_code(PyObject* code);

}  // namespace tensortap::probe
