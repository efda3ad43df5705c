#include "probe/python/module_tensors.h"

#include <cstdio>
#include <cstring>

#include "probe/core/capture.h"
#include "probe/core/node_writer.h"
#include "probe/python/call_nodes.h"
#include "probe/python/module_facts.h"
#include "probe/python/module_table.h"
#include "probe/python/python_tensor.h"

namespace tensortap::probe {

namespace {

constexpr std::size_t kMaxLabel = 1024;
constexpr int kMaxDepth = 200;

// Is its shape not known yet (a lazy module's)?
bool is_uninitialized(PyObject* type) {
  char name[32];
  type_name(type, name, sizeof name);
  return std::strncmp(name, "Uninitialized", 13) == 0;
}

// The full name of one of the module's tensors. False: the module is not known.
bool make_label(PyObject* module, const char* name, char* label, std::uint64_t* number) {
  const ModuleEntry* entry = module_find(module);
  if (!entry) return false;
  *number = entry->number;
  if (!entry->path) {
    std::snprintf(label, kMaxLabel, "(%s).%s", entry->type, name);
  } else {
    std::snprintf(label, kMaxLabel, "%s%s%s", entry->path, *entry->path ? "." : "", name);
  }
  return true;
}

// False: it has no shape yet. The facts go with the first tensor that is written.
bool report_one(PyObject* module, const char* name, PyObject* tensor, bool is_buffer, FactBytes* facts) {
  PyObject* type = py.ObjectType(tensor);
  const bool whole = !is_uninitialized(type);
  const void* impl = whole ? tensor_impl(tensor, type) : nullptr;
  py.DecRef(type);
  char label[kMaxLabel];
  std::uint64_t number = 0;
  if (impl && make_label(module, name, label, &number)) {
    note_module_tensor(number, label, impl, is_buffer, *facts);
    *facts = FactBytes{};
  }
  return whole;
}

// False: one of them has no shape yet.
bool report_tensors(PyObject* module, const char* which, bool is_buffer, FactBytes* facts) {
  PyObject* tensors = own_dictionary_member(module, which);
  if (!tensors) return true;
  bool whole = true;
  PySize at = 0;
  PyObject* key = nullptr;
  PyObject* value = nullptr;
  while (py.DictNext(tensors, &at, &key, &value)) {
    const char* name = py.UnicodeAsUtf8(key, nullptr);
    if (!name) py.ErrClear();
    if (!name || value == py.none) continue;
    py.IncRef(key);
    py.IncRef(value);
    whole &= report_one(module, name, value, is_buffer, facts);
    py.DecRef(value);
    py.DecRef(key);
  }
  py.DecRef(tensors);
  return whole;
}

// A module that was not called yet in this capture, and may never be, tells here what it is. False: one of
// its tensors has no shape yet. Not inlined: its buffer must not stand on the stack while the tree is walked.
__attribute__((noinline)) bool report_own(PyObject* module) {
  unsigned char buffer[kNodeBytes];
  FactBytes facts;
  const ModuleEntry* entry = module_find(module);
  if (entry && entry->described != evidence_generation()) {
    NodeWriter writer(buffer, sizeof buffer);
    write_module_facts(writer, module);
    facts = {buffer, writer.bytes()};
  }
  const bool parameters = report_tensors(module, "_parameters", false, &facts);
  const bool buffers = report_tensors(module, "_buffers", true, &facts);
  return parameters && buffers;
}

// Marks the module as reported. False: it was, or is not known.
bool begin_report(PyObject* module) {
  ModuleEntry* entry = module_find(module);
  if (!entry || entry->reported == evidence_generation()) return false;
  entry->reported = evidence_generation();
  return true;
}

void report(PyObject* module, int depth) {
  if (depth > kMaxDepth || !begin_report(module)) return;
  if (!report_own(module)) {
    if (ModuleEntry* entry = module_find(module)) entry->reported = 0;
  }
  PyObject* children = own_dictionary_member(module, "_modules");
  if (!children) return;
  PySize at = 0;
  PyObject* key = nullptr;
  PyObject* child = nullptr;
  while (py.DictNext(children, &at, &key, &child)) {
    if (child == py.none) continue;
    py.IncRef(child);
    report(child, depth + 1);
    py.DecRef(child);
  }
  py.DecRef(children);
}

}  // namespace

void report_module_tensors(PyObject* root) { report(root, 0); }

}  // namespace tensortap::probe
