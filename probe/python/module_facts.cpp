#include "probe/python/module_facts.h"

#include <cstdio>
#include <cstring>

#include "probe/python/call_nodes.h"
#include "probe/python/python_tensor.h"

namespace tensortap::probe {

namespace {

constexpr unsigned kMaxName = 256;
constexpr PySize kMaxText = 64;
constexpr PySize kMaxNumbers = 16;  // of a tuple

// What torch's own modules keep their configuration in, and cost formulas ask for.
constexpr const char* kSettings[] = {
    "_qkv_same_embed_dim",
    "activation",
    "activation_relu_or_gelu",
    "add_zero_attn",
    "affine",
    "align_corners",
    "alpha",
    "approximate",
    "batch_first",
    "beta",
    "bidirectional",
    "blank",
    "ceil_mode",
    "count_include_pad",
    "cutoffs",
    "d_model",
    "delta",
    "dilation",
    "dim",
    "div_value",
    "divisor_override",
    "downscale_factor",
    "dropout",
    "elementwise_affine",
    "embed_dim",
    "embedding_dim",
    "enable_nested_tensor",
    "end_dim",
    "eps",
    "groups",
    "head_dim",
    "hidden_size",
    "ignore_index",
    "in1_features",
    "in2_features",
    "in_channels",
    "in_features",
    "include_last_offset",
    "inplace",
    "input_size",
    "k",
    "kdim",
    "keepdim",
    "kernel_size",
    "label_smoothing",
    "lambd",
    "lower",
    "margin",
    "max_norm",
    "max_val",
    "min_val",
    "mode",
    "momentum",
    "n_classes",
    "negative_slope",
    "nhead",
    "nonlinearity",
    "norm",
    "norm_first",
    "norm_type",
    "normalized_shape",
    "num_channels",
    "num_classes",
    "num_embeddings",
    "num_features",
    "num_groups",
    "num_heads",
    "num_layers",
    "num_parameters",
    "out_channels",
    "out_features",
    "output_padding",
    "output_ratio",
    "output_size",
    "p",
    "padding",
    "padding_idx",
    "padding_mode",
    "proj_size",
    "recompute_scale_factor",
    "reduction",
    "return_indices",
    "scale_factor",
    "scale_grad_by_freq",
    "size",
    "sparse",
    "start_dim",
    "stride",
    "threshold",
    "track_running_stats",
    "transposed",
    "unflattened_size",
    "upper",
    "upscale_factor",
    "use_nested_tensor",
    "value",
    "vdim",
};

PyObject* own_dictionary(PyObject* object) {
  PyObject* dictionary = py.GenericGetDict(object, nullptr);
  if (!dictionary) py.ErrClear();
  return dictionary;
}

bool text_attribute(PyObject* object, const char* name, char* text, unsigned room) {
  PyObject* value = py_attribute(object, name);
  const char* utf8 = value ? py.UnicodeAsUtf8(value, nullptr) : nullptr;
  if (!utf8) py.ErrClear();
  std::snprintf(text, room, "%s", utf8 ? utf8 : "");
  if (value) py.DecRef(value);
  return utf8 != nullptr;
}

bool is_torchs(const char* module) {
  return std::strcmp(module, "torch.nn") == 0 || std::strncmp(module, "torch.nn.", 9) == 0;
}

// A class of torch.nn with the forward that torch gave it, not replaced on the class or the object.
bool is_exact(PyObject* dictionary, PyObject* type, const char* class_module) {
  if (!is_torchs(class_module) || py.DictGetItemString(dictionary, "forward")) return false;
  PyObject* forward = py_attribute(type, "forward");
  char module[kMaxName] = "";
  if (forward) {
    text_attribute(forward, "__module__", module, sizeof module);
    py.DecRef(forward);
  }
  return is_torchs(module);
}

// A tuple or list of numbers. False: it holds something else, nothing was written.
bool write_numbers(NodeWriter& facts, PyObject* sequence, bool is_tuple) {
  const PySize size = is_tuple ? py.TupleSize(sequence) : py.ListSize(sequence);
  if (size > kMaxNumbers) return false;
  std::int64_t integers[kMaxNumbers];
  double reals[kMaxNumbers];
  bool any_real = false;
  for (PySize i = 0; i < size; ++i) {
    PyObject* item = is_tuple ? py.TupleGetItem(sequence, i) : py.ListGetItem(sequence, i);
    PyObject* type = py.ObjectType(item);
    const bool is_int = type == py.int_type || type == py.bool_type;
    const bool is_real = type == py.float_type;
    py.DecRef(type);
    if (!is_int && !is_real) return false;
    any_real |= is_real;
    integers[i] = is_int ? py.LongAsLongLong(item) : 0;
    reals[i] = is_real ? py.FloatAsDouble(item) : static_cast<double>(integers[i]);
  }
  py.ErrClear();
  if (any_real) {
    facts.reals(reals, static_cast<std::uint32_t>(size));
  } else {
    facts.integers(integers, static_cast<std::uint32_t>(size));
  }
  return true;
}

// What is no plain value: a function by its full name, anything else by its type's.
void write_object(NodeWriter& facts, PyObject* value, PyObject* type) {
  char module[kMaxName], name[kMaxName];
  PyObject* named = type == py.function_type || type == py.builtin_type ? value : type;
  text_attribute(named, "__module__", module, sizeof module);
  text_attribute(named, "__qualname__", name, sizeof name);
  char full[2 * kMaxName];
  std::snprintf(full, sizeof full, "%s%s%s", module, *module ? "." : "", name);
  facts.object(full);
}

void write_setting(NodeWriter& facts, PyObject* value) {
  PyObject* type = py.ObjectType(value);
  PySize length = 0;
  const char* text = nullptr;
  if (value == py.none) {
    facts.none();
  } else if (type == py.bool_type) {
    facts.boolean(value == py.true_);
  } else if (type == py.int_type) {
    facts.integer(py.LongAsLongLong(value));
    py.ErrClear();
  } else if (type == py.float_type) {
    facts.real(py.FloatAsDouble(value));
  } else if (type == py.str_type && (text = py.UnicodeAsUtf8(value, &length)) && length <= kMaxText) {
    facts.string({text, static_cast<std::size_t>(length)});
  } else if (py.TypeIsSubtype(type, py.tuple_type)) {
    if (!write_numbers(facts, value, true)) write_object(facts, value, type);
  } else if (py.TypeIsSubtype(type, py.list_type)) {
    if (!write_numbers(facts, value, false)) write_object(facts, value, type);
  } else {
    py.ErrClear();
    write_object(facts, value, type);
  }
  py.DecRef(type);
}

// Which of the module's parameters and buffers exist: name → true, or false for one registered as None.
std::int64_t write_presence(NodeWriter& facts, PyObject* dictionary, const char* which) {
  PyObject* tensors = py.DictGetItemString(dictionary, which);
  PyObject* type = tensors ? py.ObjectType(tensors) : nullptr;
  std::int64_t count = 0;
  if (type && py.TypeIsSubtype(type, py.dict_type)) {
    PySize at = 0;
    PyObject* key = nullptr;
    PyObject* value = nullptr;
    while (!facts.full() && py.DictNext(tensors, &at, &key, &value)) {
      const NodeWriter::Place before = facts.here();
      PySize length = 0;
      const char* name = py.UnicodeAsUtf8(key, &length);
      if (!name || length > kMaxText || facts.here() > kNodeBytes / 2) {
        py.ErrClear();
        facts.back_to(before);
        continue;
      }
      facts.string({name, static_cast<std::size_t>(length)});
      facts.boolean(value != py.none);
      ++count;
    }
  }
  if (type) py.DecRef(type);
  return count;
}

}  // namespace

PyObject* own_member(PyObject* module, const char* name) {
  PyObject* dictionary = own_dictionary(module);
  if (!dictionary) return nullptr;
  PyObject* value = py.DictGetItemString(dictionary, name);
  if (value) py.IncRef(value);
  py.DecRef(dictionary);
  return value;
}

PyObject* own_dictionary_member(PyObject* module, const char* name) {
  PyObject* value = own_member(module, name);
  if (!value) return nullptr;
  PyObject* type = py.ObjectType(value);
  const bool good = py.TypeIsSubtype(type, py.dict_type);
  py.DecRef(type);
  if (good) return value;
  py.DecRef(value);
  return nullptr;
}

std::uint8_t training_mode(PyObject* module) {
  static PyObject* key = nullptr;
  if (!key) key = py.UnicodeIntern("training");
  PyObject* dictionary = key ? own_dictionary(module) : nullptr;
  if (!dictionary) return 0;
  PyObject* value = py.DictGetItem(dictionary, key);
  const bool on = value == py.true_;
  py.DecRef(dictionary);
  if (!value) return 0;
  return static_cast<std::uint8_t>(format::kModeTrainingKnown | (on ? format::kModeTraining : 0));
}

void write_module_facts(NodeWriter& facts, PyObject* module) {
  PyObject* type = py.ObjectType(module);
  PyObject* dictionary = own_dictionary(module);
  char class_module[kMaxName], name[kMaxName], full[2 * kMaxName];
  text_attribute(type, "__module__", class_module, sizeof class_module);
  text_attribute(type, "__qualname__", name, sizeof name);
  std::snprintf(full, sizeof full, "%s.%s", class_module, name);
  facts.string(full);
  facts.boolean(dictionary && is_exact(dictionary, type, class_module));
  const NodeWriter::Place counter = facts.here();
  facts.integer(0);
  std::int64_t count = 0;
  if (dictionary) {
    count += write_presence(facts, dictionary, "_parameters");
    count += write_presence(facts, dictionary, "_buffers");
    for (const char* setting : kSettings) {
      PyObject* value = py.DictGetItemString(dictionary, setting);
      if (!value) continue;
      facts.string(setting);
      write_setting(facts, value);
      ++count;
    }
    py.DecRef(dictionary);
  }
  facts.count_at(counter, count);
  py.DecRef(type);
}

}  // namespace tensortap::probe
