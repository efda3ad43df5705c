#include "probe/python/interpreter.h"

#include <dlfcn.h>

namespace tensortap::probe {

Interpreter py;

namespace {
bool loaded = false;

template <typename Pointer>
bool find(Pointer& slot, const char* symbol) {
  slot = reinterpret_cast<Pointer>(dlsym(RTLD_DEFAULT, symbol));
  return slot != nullptr;
}
}  // namespace

bool interpreter_absent() { return dlsym(RTLD_DEFAULT, "Py_IsInitialized") == nullptr; }

bool interpreter_load() {
  if (loaded) return true;
  Interpreter table;
  bool complete = true;
#define TENSORTAP_PY_FIND(member, symbol, result, parameters) complete &= find(table.member, #symbol);
  TENSORTAP_PY_REQUIRED(TENSORTAP_PY_FIND)
#undef TENSORTAP_PY_FIND
#define TENSORTAP_PY_FIND(member, symbol, result, parameters) find(table.member, #symbol);
  TENSORTAP_PY_OPTIONAL(TENSORTAP_PY_FIND)
#undef TENSORTAP_PY_FIND
  complete &= find(table.none, "_Py_NoneStruct");
  complete &= find(table.true_, "_Py_TrueStruct");
  complete &= find(table.dict_type, "PyDict_Type");
  complete &= find(table.tuple_type, "PyTuple_Type");
  complete &= find(table.list_type, "PyList_Type");
  complete &= find(table.bool_type, "PyBool_Type");
  complete &= find(table.int_type, "PyLong_Type");
  complete &= find(table.float_type, "PyFloat_Type");
  complete &= find(table.complex_type, "PyComplex_Type");
  complete &= find(table.str_type, "PyUnicode_Type");
  complete &= find(table.bytes_type, "PyBytes_Type");
  complete &= find(table.function_type, "PyFunction_Type");
  complete &= find(table.builtin_type, "PyCFunction_Type");
  complete &= table.IsFinalizing || table.IsFinalizingOld;
  complete &= table.WeakrefGetObject || table.WeakrefGetRef;
  if (!complete) return false;
  py = table;
  loaded = true;
  return true;
}

}  // namespace tensortap::probe
