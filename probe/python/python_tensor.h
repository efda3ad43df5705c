// The TensorImpl inside a Python tensor, without code of the job's and without a header of torch's Python
// part.
//
// torch gives the address by the attribute `_cdata`. It is asked once, for the first tensor that is met;
// where in the object that address stands (a THPVariable keeps it at one offset, subclasses included; 24
// in 1.13, 16 in 2.15) is then looked for, and read there from every later tensor.
//
// With the GIL; no destructors (interpreter.h).
#pragma once

#include "probe/python/interpreter.h"

namespace tensortap::probe {

// Takes note of torch's types from the namespaces of torch and torch.nn.parameter (either may be null).
// False: they are not there yet.
bool python_tensor_prepare(PyObject* torch, PyObject* parameter);
// Is `type` torch.Tensor or a subclass?
bool is_tensor_type(PyObject* type);
// Null when the object is no tensor (`type`: its type), or the place is not known yet.
const void* tensor_impl(PyObject* object, PyObject* type);

}  // namespace tensortap::probe
