#include "probe/python/process_group.h"

#include <cstring>

#include "probe/core/process_group.h"
#include "probe/python/interpreter.h"

namespace tensortap::probe {

namespace {

// Is the class of `object` one of torch's own? Methods of others could do anything.
bool is_of_torch(PyObject* object) {
  PyObject* type = py.ObjectType(object);
  PyObject* module = type ? py_attribute(type, "__module__") : nullptr;
  PySize bytes = 0;
  const char* name = module ? py.UnicodeAsUtf8(module, &bytes) : nullptr;
  const bool is_torch = name && std::strncmp(name, "torch.", 6) == 0;
  py.ErrClear();
  if (module) py.DecRef(module);
  if (type) py.DecRef(type);
  return is_torch;
}

// The default group, a new reference; null when there is none. torch 2.x keeps it in an object of the module,
// 1.x in a class attribute.
PyObject* default_group(PyObject* names) {
  PyObject* group = nullptr;
  if (PyObject* world = py.DictGetItemString(names, "_world")) {
    PyObject* members = py.GenericGetDict(world, nullptr);
    group = members ? py.DictGetItemString(members, "_default_pg") : nullptr;
    if (group) py.IncRef(group);
    if (members) py.DecRef(members);
  } else if (PyObject* holder = py.DictGetItemString(names, "GroupMember")) {
    group = py_attribute(holder, "WORLD");
  }
  py.ErrClear();
  if (group != py.none) return group;
  py.DecRef(group);
  return nullptr;
}

// What group.method() returns; -1 when it is no number.
long long number_of(PyObject* group, const char* method) {
  PyObject* function = py_attribute(group, method);
  PyObject* result = function ? py.ObjectCall(function, static_cast<PyObject*>(nullptr)) : nullptr;
  const long long number = result ? py.LongAsLongLong(result) : -1;
  py.ErrClear();
  if (result) py.DecRef(result);
  if (function) py.DecRef(function);
  return number;
}

// Its text is copied: the job may drop the group at once.
void name_backend(PyObject* names, PyObject* group, char* text, std::size_t room) {
  PyObject* groups = py.DictGetItemString(names, "_pg_map");
  PyObject* entry = groups ? py.DictGetItem(groups, group) : nullptr;
  PyObject* backend = entry && py.TupleSize(entry) > 0 ? py.TupleGetItem(entry, 0) : nullptr;
  PySize bytes = 0;
  const char* name = backend ? py.UnicodeAsUtf8(backend, &bytes) : nullptr;
  py.ErrClear();
  if (name) std::strncpy(text, name, room - 1);
}

}  // namespace

void python_look_up_group() {
  PyObject* modules = py.ImportGetModuleDict();
  PyObject* module = modules ? py.DictGetItemString(modules, "torch.distributed.distributed_c10d") : nullptr;
  PyObject* names = module ? py.ModuleGetDict(module) : nullptr;
  PyObject* group = names ? default_group(names) : nullptr;
  py.ErrClear();
  if (!group) return group_looked_up_none();
  char backend[kMaxGroupBackend + 1] = "";
  if (is_of_torch(group)) {
    name_backend(names, group, backend, sizeof backend);
    const long long rank = number_of(group, "rank");
    group_looked_up(rank, number_of(group, "size"), backend);
  }
  py.DecRef(group);
}

}  // namespace tensortap::probe
