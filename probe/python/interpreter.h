// The functions of the CPython interpreter in this process, found by dlsym: a table instead of Python.h.
//
// Only functions (and two data symbols) that exist from 3.8 to 3.13 are asked for; the few that came or went
// are optional and their users say which versions have them. Objects are opaque. The table is filled once,
// before the GIL is ever taken (dlsym under the GIL can deadlock with a thread that is inside dlopen), and is
// read-only afterwards.
//
// Code that uses it holds the GIL and follows one rule more: no destructor and no noexcept in any frame that
// calls the interpreter, since CPython may end a thread there by forced unwinding.
//
//   if (!interpreter_load()) return;
//   PyObject* modules = py.ImportGetModuleDict();   // borrowed
//
// C++17.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tensortap::probe {

struct PyObject;  // never looked into
struct PyThreadState;
using PySize = std::ptrdiff_t;  // Py_ssize_t

using PyCFunctionO = PyObject* (*)(PyObject* self, PyObject* argument);

// The one layout relied on; unchanged since Python 1.
struct PyMethodDef {
  const char* name;
  void (*function)();
  int flags;
  const char* doc;
};
inline constexpr int kMethO = 0x0008;
inline constexpr int kMethFastcall = 0x0080;  // arguments as an array: PyCFunctionFast
using PyCFunctionFast = PyObject* (*)(PyObject* self, PyObject* const* arguments, PySize count);
inline constexpr int kFileInput = 257;  // Py_file_input

// X(member, symbol, result, parameters): without these there are no hooks.
#define TENSORTAP_PY_REQUIRED(X)                                                           \
  X(IsInitialized, Py_IsInitialized, int, ())                                              \
  X(GetVersion, Py_GetVersion, const char*, ())                                            \
  X(GilEnsure, PyGILState_Ensure, int, ())                                                 \
  X(GilRelease, PyGILState_Release, void, (int))                                           \
  X(GilCheck, PyGILState_Check, int, ())                                                   \
  X(GilThisThread, PyGILState_GetThisThreadState, PyThreadState*, ())                      \
  X(IncRef, Py_IncRef, void, (PyObject*))                                                  \
  X(DecRef, Py_DecRef, void, (PyObject*))                                                  \
  X(ErrOccurred, PyErr_Occurred, PyObject*, ())                                            \
  X(ErrClear, PyErr_Clear, void, ())                                                       \
  X(ErrGetExcInfo, PyErr_GetExcInfo, void, (PyObject**, PyObject**, PyObject**))           \
  X(ErrSetExcInfo, PyErr_SetExcInfo, void, (PyObject*, PyObject*, PyObject*))              \
  X(ExceptionSetTraceback, PyException_SetTraceback, int, (PyObject*, PyObject*))          \
  X(ImportGetModuleDict, PyImport_GetModuleDict, PyObject*, ())                            \
  X(ModuleGetDict, PyModule_GetDict, PyObject*, (PyObject*))                               \
  X(DictNew, PyDict_New, PyObject*, ())                                                    \
  X(DictGetItemString, PyDict_GetItemString, PyObject*, (PyObject*, const char*))          \
  X(DictSetItemString, PyDict_SetItemString, int, (PyObject*, const char*, PyObject*))     \
  X(DictItems, PyDict_Items, PyObject*, (PyObject*))                                       \
  X(DictGetItem, PyDict_GetItem, PyObject*, (PyObject*, PyObject*))                        \
  X(DictNext, PyDict_Next, int, (PyObject*, PySize*, PyObject**, PyObject**))              \
  X(DictSize, PyDict_Size, PySize, (PyObject*))                                            \
  X(GenericGetDict, PyObject_GenericGetDict, PyObject*, (PyObject*, void*))                \
  X(TupleSize, PyTuple_Size, PySize, (PyObject*))                                          \
  X(FloatAsDouble, PyFloat_AsDouble, double, (PyObject*))                                  \
  X(LongAsLongLong, PyLong_AsLongLong, long long, (PyObject*))                             \
  X(LongAsVoidPtr, PyLong_AsVoidPtr, void*, (PyObject*))                                   \
  X(ListSize, PyList_Size, PySize, (PyObject*))                                            \
  X(ListGetItem, PyList_GetItem, PyObject*, (PyObject*, PySize))                           \
  X(TupleGetItem, PyTuple_GetItem, PyObject*, (PyObject*, PySize))                         \
  X(ObjectType, PyObject_Type, PyObject*, (PyObject*))                                     \
  X(TypeIsSubtype, PyType_IsSubtype, int, (PyObject*, PyObject*))                          \
  X(ObjectGetAttrString, PyObject_GetAttrString, PyObject*, (PyObject*, const char*))      \
  X(ObjectSetAttrString, PyObject_SetAttrString, int, (PyObject*, const char*, PyObject*)) \
  X(ObjectGetItem, PyObject_GetItem, PyObject*, (PyObject*, PyObject*))                    \
  X(ObjectGenericGetAttr, PyObject_GenericGetAttr, PyObject*, (PyObject*, PyObject*))      \
  X(ObjectCall, PyObject_CallFunctionObjArgs, PyObject*, (PyObject*, ...))                 \
  X(UnicodeIntern, PyUnicode_InternFromString, PyObject*, (const char*))                   \
  X(UnicodeAsUtf8, PyUnicode_AsUTF8AndSize, const char*, (PyObject*, PySize*))             \
  X(LongAsLong, PyLong_AsLong, long, (PyObject*))                                          \
  X(BoolFromLong, PyBool_FromLong, PyObject*, (long))                                      \
  X(WeakrefNew, PyWeakref_NewRef, PyObject*, (PyObject*, PyObject*))                       \
  X(FunctionNew, PyCFunction_NewEx, PyObject*, (PyMethodDef*, PyObject*, PyObject*))       \
  X(CompileString, Py_CompileString, PyObject*, (const char*, const char*, int))           \
  X(EvalCode, PyEval_EvalCode, PyObject*, (PyObject*, PyObject*, PyObject*))               \
  X(EvalGetBuiltins, PyEval_GetBuiltins, PyObject*, ())                                    \
  X(EvalGetFrame, PyEval_GetFrame, PyObject*, ())

#define TENSORTAP_PY_OPTIONAL(X)                                                  \
  X(IsFinalizing, Py_IsFinalizing, int, ())                        /* 3.13 on */  \
  X(IsFinalizingOld, _Py_IsFinalizing, int, ())                    /* to 3.12 */  \
  X(WeakrefGetObject, PyWeakref_GetObject, PyObject*, (PyObject*)) /* borrowed */ \
  X(WeakrefGetRef, PyWeakref_GetRef, int, (PyObject*, PyObject**)) /* 3.13 on */  \
  X(EnterRecursiveCall, Py_EnterRecursiveCall, int, (const char*)) /* 3.9 on */   \
  X(LeaveRecursiveCall, Py_LeaveRecursiveCall, void, ())                          \
  X(GcDisable, PyGC_Disable, int, ()) /* 3.10 on */                               \
  X(GcEnable, PyGC_Enable, int, ())

struct Interpreter {
#define TENSORTAP_PY_MEMBER(member, symbol, result, parameters) result(*member) parameters = nullptr;
  TENSORTAP_PY_REQUIRED(TENSORTAP_PY_MEMBER)
  TENSORTAP_PY_OPTIONAL(TENSORTAP_PY_MEMBER)
#undef TENSORTAP_PY_MEMBER
  PyObject* none = nullptr;       // &_Py_NoneStruct
  PyObject* true_ = nullptr;      // &_Py_TrueStruct
  PyObject* dict_type = nullptr;  // &PyDict_Type
  PyObject* tuple_type = nullptr;
  PyObject* list_type = nullptr;
  PyObject* bool_type = nullptr;
  PyObject* int_type = nullptr;
  PyObject* float_type = nullptr;
  PyObject* complex_type = nullptr;
  PyObject* str_type = nullptr;
  PyObject* bytes_type = nullptr;
  PyObject* function_type = nullptr;
  PyObject* builtin_type = nullptr;  // of a function written in C
};

extern Interpreter py;

// Is there an interpreter in this process (initialized or not)? Fills the table the first time; false when a
// required function is missing.
bool interpreter_load();
// Was there none at all (as opposed to one that we can't use)?
bool interpreter_absent();

// May the GIL be asked for? No GIL needed; the answer may be out of date at once, so ask right before.
inline bool interpreter_usable() {
  if (!py.IsInitialized()) return false;
  if (py.IsFinalizing) return !py.IsFinalizing();
  return !(py.IsFinalizingOld && py.IsFinalizingOld());
}

// object.name as a new reference; null, with no Python error left, when it can't be had.
inline PyObject* py_attribute(PyObject* object, const char* name) {
  PyObject* value = py.ObjectGetAttrString(object, name);
  if (!value) py.ErrClear();
  return value;
}

}  // namespace tensortap::probe
