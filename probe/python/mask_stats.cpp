#include "probe/python/mask_stats.h"

#include <cstdio>
#include <cstring>

#include "probe/core/output_stats.h"
#include "probe/python/module_table.h"
#include "probe/python/python_tensor.h"

namespace tensortap::probe {

namespace {

constexpr std::size_t kMaxLabel = 1024;

// Where a class's forward takes its masks: the place among the positional arguments, and the name.
struct MaskArgument {
  const char* type;
  PySize place;
  const char* name;
};
constexpr MaskArgument kMasks[] = {
    {"MultiheadAttention", 3, "key_padding_mask"},
    {"MultiheadAttention", 5, "attn_mask"},
    {"TransformerEncoderLayer", 1, "src_mask"},
    {"TransformerEncoderLayer", 2, "src_key_padding_mask"},
    {"TransformerEncoder", 1, "mask"},
    {"TransformerEncoder", 2, "src_key_padding_mask"},
    {"TransformerDecoderLayer", 2, "tgt_mask"},
    {"TransformerDecoderLayer", 3, "memory_mask"},
    {"TransformerDecoderLayer", 4, "tgt_key_padding_mask"},
    {"TransformerDecoderLayer", 5, "memory_key_padding_mask"},
    {"TransformerDecoder", 2, "tgt_mask"},
    {"TransformerDecoder", 3, "memory_mask"},
    {"TransformerDecoder", 4, "tgt_key_padding_mask"},
    {"TransformerDecoder", 5, "memory_key_padding_mask"},
    {"Transformer", 2, "src_mask"},
    {"Transformer", 3, "tgt_mask"},
    {"Transformer", 4, "memory_mask"},
    {"Transformer", 5, "src_key_padding_mask"},
    {"Transformer", 6, "tgt_key_padding_mask"},
    {"Transformer", 7, "memory_key_padding_mask"},
};

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
  for (const MaskArgument& argument : kMasks) {
    if (std::strcmp(argument.type, type) != 0) continue;
    PyObject* mask = argument.place < py.TupleSize(args) ? py.TupleGetItem(args, argument.place)
                                                         : py.DictGetItemString(kwargs, argument.name);
    if (mask) note_one(path, argument.name, mask);
  }
}

}  // namespace tensortap::probe
