// Which optimizer's step() is this thread in? torch/optim/optimizer.py wraps step() in a function `wrapper`
// that opens the range "Optimizer.step#…" and has the optimizer in a local: `self` in 2.x, `obj` in 1.13.
#include <cstring>
#include <initializer_list>

#include "probe/python/interpreter.h"
#include "probe/python/python_hooks.h"

namespace tensortap::probe {

namespace {

constexpr int kMaxFrames = 8;  // record_function's __enter__ and what it calls lie between

bool text_ends_with(PyObject* object, const char* name, const char* ending) {
  PyObject* text = py_attribute(object, name);
  PySize length = 0;
  const char* utf8 = text ? py.UnicodeAsUtf8(text, &length) : nullptr;
  if (text && !utf8) py.ErrClear();
  const auto size = static_cast<PySize>(std::strlen(ending));
  const bool yes = utf8 && length >= size && std::strcmp(utf8 + length - size, ending) == 0;
  if (text) py.DecRef(text);
  return yes;
}

bool is_step_wrapper(PyObject* frame) {
  PyObject* code = py_attribute(frame, "f_code");
  const bool yes = code && text_ends_with(code, "co_filename", "/optim/optimizer.py") &&
                   text_ends_with(code, "co_name", "wrapper");
  if (code) py.DecRef(code);
  return yes;
}

// An identity: the frame keeps the object alive, we don't.
const void* local_optimizer(PyObject* frame) {
  PyObject* locals = py_attribute(frame, "f_locals");
  if (!locals) return nullptr;
  // 3.13 gives a proxy instead of a dictionary; items of either are found by name.
  PyObject* optimizer = nullptr;
  for (const char* name : {"self", "obj"}) {
    PyObject* key = optimizer ? nullptr : py.UnicodeIntern(name);
    if (!key) continue;
    optimizer = py.ObjectGetItem(locals, key);
    if (!optimizer) py.ErrClear();
    py.DecRef(key);
  }
  if (optimizer) py.DecRef(optimizer);
  py.DecRef(locals);
  return optimizer;
}

const void* find_optimizer() {
  if (py.ErrOccurred()) return nullptr;  // an error on its way is not ours to clear
  PyObject* frame = py.EvalGetFrame();   // borrowed
  if (!frame) return nullptr;
  py.IncRef(frame);
  const void* optimizer = nullptr;
  for (int i = 0; i < kMaxFrames && frame != py.none && !optimizer; ++i) {
    if (is_step_wrapper(frame)) optimizer = local_optimizer(frame);
    PyObject* back = py_attribute(frame, "f_back");
    py.DecRef(frame);
    frame = back;
    if (!frame) return optimizer;
  }
  py.DecRef(frame);
  return optimizer;
}

}  // namespace

const void* python_current_optimizer() {
  // Loaded by python_hooks_start; a thread that never ran Python has no state and no frames.
  if (!py.GilThisThread || !interpreter_usable() || !py.GilThisThread()) return nullptr;
  if (py.GilCheck()) return find_optimizer();
  const int state = py.GilEnsure();
  const void* optimizer = find_optimizer();
  py.GilRelease(state);
  return optimizer;
}

}  // namespace tensortap::probe
