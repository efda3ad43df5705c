#include "probe/python/mask_stats.h"

#include <cstdio>

#include "probe/core/mask_arguments.h"
#include "probe/core/output_stats.h"
#include "probe/python/module_table.h"
#include "probe/python/python_tensor.h"

namespace tensortap::probe {

namespace {

constexpr std::size_t kMaxLabel = 1024;

void note_one(const char* path, const char* name, PyObject* mask) {
  PyObject* type = py.ObjectType(mask);
  const void* impl = tensor_impl(mask, type);
  py.DecRef(type);
  char label[kMaxLabel];
  const int length = std::snprintf(label, sizeof label, "%s.%s", path, name);
  if (impl && length > 0 && static_cast<std::size_t>(length) < sizeof label)
    note_mask({label, static_cast<std::size_t>(length)}, impl);
}

}  // namespace

void note_call_masks(PyObject* module, PyObject* args, PyObject* kwargs) {
  const ModuleEntry* entry = module_find(module);
  if (!entry || !entry->path) return;
  char path[kMaxLabel], type[64];
  std::snprintf(path, sizeof path, "%s", *entry->path ? entry->path : entry->type);
  std::snprintf(type, sizeof type, "%s", entry->type);
  if (!stats_wanted(path)) return;
  for (const MaskArgument& argument : kMaskArguments) {
    if (!takes_mask(argument, type)) continue;
    const auto place = static_cast<PySize>(argument.place);
    PyObject* mask = place < py.TupleSize(args) ? py.TupleGetItem(args, place)
                                                : py.DictGetItemString(kwargs, argument.name);
    if (mask) note_one(path, argument.name, mask);
  }
}

}  // namespace tensortap::probe
