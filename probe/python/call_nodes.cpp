#include "probe/python/call_nodes.h"

#include <cctype>
#include <cstdio>
#include <cstring>

#include "format/module_nodes.h"
#include "probe/core/tensor_reader.h"
#include "probe/python/python_tensor.h"

namespace tensortap::probe {

using format::ValueTag;

namespace {

constexpr unsigned kMaxName = 128;
constexpr PySize kMaxItems = 256;  // of one tuple, list or dictionary

// Is this key one to show: a name, or a number?
bool is_plain_name(const char* text) {
  if (!text || !*text || std::strlen(text) >= kMaxName) return false;
  for (const char* at = text; *at; ++at) {
    const auto byte = static_cast<unsigned char>(*at);
    if (!(std::isalnum(byte) || byte == '_')) return false;
  }
  return !std::isdigit(static_cast<unsigned char>(*text));
}

void write_key(NodeWriter& nodes, PyObject* key) {
  PyObject* type = py.ObjectType(key);
  char name[kMaxName];
  if (type == py.str_type) {
    const char* text = py.UnicodeAsUtf8(key, nullptr);
    if (!text) py.ErrClear();
    is_plain_name(text) ? nodes.string(text) : nodes.none();
  } else if (type == py.int_type || type == py.bool_type) {
    std::snprintf(name, sizeof name, "%lld", py.LongAsLongLong(key));
    py.ErrClear();
    nodes.string(name);
  } else {
    nodes.none();
  }
  type_name(type, name, sizeof name);
  nodes.string(name);
  py.DecRef(type);
}

// The entries of a dictionary, as a mapping named `name`.
void write_mapping(NodeWriter& nodes, PyObject* dictionary, const char* name, int depth) {
  const NodeWriter::Place place = nodes.begin(ValueTag::kMapping);
  nodes.string(name);
  PySize at = 0;
  PyObject* key = nullptr;
  PyObject* value = nullptr;
  PySize count = 0;
  while (!nodes.full() && count < kMaxItems && py.DictNext(dictionary, &at, &key, &value)) {
    write_key(nodes, key);
    write_node(nodes, value, depth + 1);
    ++count;
  }
  nodes.end(place, static_cast<std::uint32_t>(count));
}

void write_sequence(NodeWriter& nodes, PyObject* sequence, bool is_tuple, int depth) {
  const NodeWriter::Place place = nodes.begin(is_tuple ? ValueTag::kTuple : ValueTag::kList);
  const PySize size = is_tuple ? py.TupleSize(sequence) : py.ListSize(sequence);
  const PySize kept = size < kMaxItems ? size : kMaxItems;
  PySize count = 0;
  while (!nodes.full() && count < kept) {
    PyObject* item = is_tuple ? py.TupleGetItem(sequence, count) : py.ListGetItem(sequence, count);
    write_node(nodes, item, depth + 1);
    ++count;
  }
  nodes.end(place, static_cast<std::uint32_t>(count));
}

void write_other(NodeWriter& nodes, PyObject* object, PyObject* type, int depth) {
  char name[kMaxName];
  if (py.TypeIsSubtype(type, py.tuple_type)) {
    write_sequence(nodes, object, true, depth);
  } else if (py.TypeIsSubtype(type, py.list_type)) {
    write_sequence(nodes, object, false, depth);
  } else if (py.TypeIsSubtype(type, py.dict_type)) {
    type_name(type, name, sizeof name);
    write_mapping(nodes, object, name, depth);
  } else if (type == py.bool_type || type == py.int_type || type == py.float_type ||
             type == py.complex_type || type == py.str_type || type == py.bytes_type) {
    type_name(type, name, sizeof name);
    nodes.scalar(name);
  } else {
    type_name(type, name, sizeof name);
    nodes.object(name);
  }
}

}  // namespace

void type_name(PyObject* type, char* text, unsigned room) {
  PyObject* name = py_attribute(type, "__name__");
  const char* utf8 = name ? py.UnicodeAsUtf8(name, nullptr) : nullptr;
  if (!utf8) py.ErrClear();
  std::snprintf(text, room, "%s", utf8 ? utf8 : "?");
  if (name) py.DecRef(name);
}

void write_node(NodeWriter& nodes, PyObject* object, int depth) {
  if (object == py.none) {
    nodes.none();
    return;
  }
  PyObject* type = py.ObjectType(object);
  TensorFacts facts;
  const void* impl = tensor_impl(object, type);
  if (impl && read_tensor(impl, facts)) {
    nodes.tensor(facts);
  } else if (depth >= format::kMaxNodeDepth || is_tensor_type(type)) {
    nodes.object(is_tensor_type(type) ? "Tensor" : "object");
  } else {
    write_other(nodes, object, type, depth);
  }
  py.DecRef(type);
}

void write_call_args(NodeWriter& nodes, PyObject* args, PyObject* kwargs) {
  write_sequence(nodes, args, true, 0);
  if (py.DictSize(kwargs) > 0) {
    write_mapping(nodes, kwargs, "dict", 0);
  } else {
    nodes.begin(ValueTag::kMapping);
    nodes.string("");
  }
}

}  // namespace tensortap::probe
