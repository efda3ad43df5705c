// The parameters and buffers of a module and of everything below it, called or not: a `tensor` record for
// each name that holds one, with the first call in a capture. A tensor that has several names has one id.
//
// With the GIL; no destructors (interpreter.h).
#pragma once

#include "probe/python/interpreter.h"

namespace tensortap::probe {

// Reports what was not reported yet in this capture. `root` has an entry in the module table.
void report_module_tensors(PyObject* root);

}  // namespace tensortap::probe
