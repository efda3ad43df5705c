// The masks that an asked-for attention module is given (probe/core/output_stats.h), by the names of its
// forward's arguments: `encoder.layers.0.src_mask`. Only of torch's own classes, by their names.
#pragma once

#include "probe/python/interpreter.h"

namespace tensortap::probe {

// With the GIL; the call has been entered. `args` a tuple, `kwargs` a dictionary.
void note_call_masks(PyObject* module, PyObject* args, PyObject* kwargs);

}  // namespace tensortap::probe
