// Statistics of what an asked-for module returned (probe/core/output_stats.h). A tensor is labelled by the
// module's path; one inside a tuple, list or dictionary by the path and its place: `encoder.0`, `block.x`.
#pragma once

#include "probe/python/interpreter.h"

namespace tensortap::probe {

// With the GIL, not inside a Callback.
void note_output_stats(PyObject* module, PyObject* output);

}  // namespace tensortap::probe
