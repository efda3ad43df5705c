#include "probe/python/output_stats.h"

#include <cstdio>
#include <cstring>

#include "probe/core/output_stats.h"
#include "probe/python/module_table.h"
#include "probe/python/python_tensor.h"

namespace tensortap::probe {

namespace {

constexpr std::size_t kMaxLabel = 1024;
constexpr int kMaxDepth = 8;

struct Label {
  char text[kMaxLabel];
  std::size_t length;
};

void visit(Label* label, PyObject* object, int depth);

void visit_at(Label* label, const char* place, PyObject* object, int depth) {
  const std::size_t before = label->length;
  const int written = std::snprintf(label->text + before, kMaxLabel - before, ".%s", place);
  label->length = before + static_cast<std::size_t>(written);
  if (label->length < kMaxLabel) visit(label, object, depth + 1);
  label->length = before;
  label->text[before] = '\0';
}

void visit_sequence(Label* label, PyObject* sequence, bool is_tuple, int depth) {
  const PySize size = is_tuple ? py.TupleSize(sequence) : py.ListSize(sequence);
  for (PySize i = 0; i < size; ++i) {
    char place[24];
    std::snprintf(place, sizeof place, "%lld", static_cast<long long>(i));
    visit_at(label, place, is_tuple ? py.TupleGetItem(sequence, i) : py.ListGetItem(sequence, i), depth);
  }
}

void visit_dictionary(Label* label, PyObject* dictionary, int depth) {
  PySize at = 0;
  PyObject* key = nullptr;
  PyObject* value = nullptr;
  for (PySize i = 0; py.DictNext(dictionary, &at, &key, &value); ++i) {
    PyObject* type = py.ObjectType(key);
    const char* name = type == py.str_type ? py.UnicodeAsUtf8(key, nullptr) : nullptr;
    py.DecRef(type);
    char place[24];
    std::snprintf(place, sizeof place, "%lld", static_cast<long long>(i));
    if (!name) py.ErrClear();
    visit_at(label, name ? name : place, value, depth);
  }
}

void visit(Label* label, PyObject* object, int depth) {
  PyObject* type = py.ObjectType(object);
  if (const void* impl = tensor_impl(object, type)) {
    note_stats({label->text, label->length}, impl);
  } else if (depth < kMaxDepth && py.TypeIsSubtype(type, py.tuple_type)) {
    visit_sequence(label, object, true, depth);
  } else if (depth < kMaxDepth && py.TypeIsSubtype(type, py.list_type)) {
    visit_sequence(label, object, false, depth);
  } else if (depth < kMaxDepth && py.TypeIsSubtype(type, py.dict_type)) {
    visit_dictionary(label, object, depth);
  }
  py.DecRef(type);
}

}  // namespace

void note_output_stats(PyObject* module, PyObject* output) {
  const ModuleEntry* entry = module_find(module);
  if (!entry || !entry->path) return;
  const char* path = *entry->path ? entry->path : entry->type;  // a root by its class, as its span
  if (!stats_wanted(path)) return;
  static Label label;  // the GIL protects it
  const int written = std::snprintf(label.text, sizeof label.text, "%s", path);
  label.length = static_cast<std::size_t>(written);
  if (label.length < kMaxLabel) visit(&label, output, 0);
}

}  // namespace tensortap::probe
