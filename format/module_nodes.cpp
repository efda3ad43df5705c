#include "format/module_nodes.h"

#include <string_view>

#include "format/line_writer.h"
#include "format/ring_lines.h"

namespace tensortap::format {
namespace {

bool take(NodeBytes& bytes, void* to, std::uint64_t size) {
  if (static_cast<std::uint64_t>(bytes.end - bytes.at) < size) return false;
  std::memcpy(to, bytes.at, size);
  bytes.at += size;
  return true;
}

bool take_header(NodeBytes& bytes, ValueHeader& header) { return take(bytes, &header, sizeof header); }

// The `count` bytes of a kString, kScalar or kObject.
bool take_text(NodeBytes& bytes, const ValueHeader& header, std::string_view& text) {
  const std::uint64_t padded = round_up_8(header.count);
  if (static_cast<std::uint64_t>(bytes.end - bytes.at) < padded) return false;
  text = {reinterpret_cast<const char*>(bytes.at), header.count};
  bytes.at += padded;
  return true;
}

bool take_string(NodeBytes& bytes, std::string_view& text) {
  ValueHeader header;
  return take_header(bytes, header) && header.tag == ValueTag::kString && take_text(bytes, header, text);
}

template <class T>
bool append_number(std::string& out, NodeBytes& bytes) {
  T value{};
  if (!take(bytes, &value, sizeof value)) return false;
  append_json_number(out, value);
  return true;
}

template <class T>
bool append_numbers(std::string& out, NodeBytes& bytes, std::uint16_t count) {
  out += '[';
  for (std::uint16_t i = 0; i < count; ++i) {
    if (i != 0) out += ',';
    if (!append_number<T>(out, bytes)) return false;
  }
  out += ']';
  return true;
}

bool append_setting(std::string& out, NodeBytes& bytes, std::uint64_t& replaced) {
  ValueHeader header;
  if (!take_header(bytes, header)) return false;
  std::string_view text;
  switch (header.tag) {
    case ValueTag::kInt:
      return append_number<std::int64_t>(out, bytes);
    case ValueTag::kDouble:
      return append_number<double>(out, bytes);
    case ValueTag::kBool:
      out += header.count ? "true" : "false";
      return true;
    case ValueTag::kNone:
      out += "null";
      return true;
    case ValueTag::kString:
      if (!take_text(bytes, header, text)) return false;
      replaced += append_json_string(out, text);
      return true;
    case ValueTag::kIntList:
      return append_numbers<std::int64_t>(out, bytes, header.count);
    case ValueTag::kDoubleList:
      return append_numbers<double>(out, bytes, header.count);
    case ValueTag::kObject:
      if (!take_text(bytes, header, text)) return false;
      out += "{\"object\":";
      replaced += append_json_string(out, text);
      out += '}';
      return true;
    default:
      return false;
  }
}

bool append_tensor(std::string& out, NodeBytes& bytes, const ValueHeader& header) {
  std::uint64_t ids[2];
  if (!take(bytes, ids, sizeof ids)) return false;
  if (header.flags & kTensorUndefined) {
    out += "{\"kind\":\"none\"}";
    return true;
  }
  const bool nested = (header.flags & kTensorNested) != 0;
  out += nested ? "{\"kind\":\"nested_tensor\",\"id\":\"t" : "{\"kind\":\"tensor\",\"id\":\"t";
  append_json_number(out, ids[0]);
  if (ids[1] != 0) {
    out += "\",\"storage\":\"m";
    append_json_number(out, ids[1]);
  }
  out += '"';
  if (!nested && header.flags & kTensorNoSizes) out += ",\"shape\":null";
  if (!(header.flags & kTensorNoSizes)) {
    out += ",\"shape\":";
    if (!append_numbers<std::int64_t>(out, bytes, header.ndim)) return false;
  }
  out += ",\"dtype\":\"";
  out += dtype_label(header.dtype);
  out += "\",\"device\":\"";
  append_device_label(out, header.device_type, header.device_index);
  out += header.flags & kTensorRequiresGrad ? "\",\"requires_grad\":true" : "\",\"requires_grad\":false";
  if (header.flags & kTensorSparse) out += ",\"layout\":\"sparse\"";
  out += '}';
  return true;
}

bool append_mapping(std::string& out, NodeBytes& bytes, std::uint16_t count, std::uint64_t& replaced,
                    int depth) {
  std::string_view text;
  if (!take_string(bytes, text)) return false;
  out += "{\"kind\":\"mapping\",\"type\":";
  replaced += append_json_string(out, text);
  out += ",\"items\":[";
  for (std::uint16_t i = 0; i < count; ++i) {
    out += i == 0 ? "{" : ",{";
    ValueHeader key;
    if (!take_header(bytes, key)) return false;
    if (key.tag == ValueTag::kString) {
      if (!take_text(bytes, key, text)) return false;
      out += "\"key\":";
      replaced += append_json_string(out, text);
      out += ',';
    } else if (key.tag != ValueTag::kNone) {
      return false;
    }
    if (!take_string(bytes, text)) return false;
    out += "\"key_type\":";
    replaced += append_json_string(out, text);
    out += ",\"value\":";
    if (!append_node(out, bytes, replaced, depth + 1)) return false;
    out += '}';
  }
  out += "]}";
  return true;
}

bool append_items(std::string& out, NodeBytes& bytes, std::uint16_t count, std::uint64_t& replaced,
                  int depth) {
  out += '[';
  for (std::uint16_t i = 0; i < count; ++i) {
    if (i != 0) out += ',';
    if (!append_node(out, bytes, replaced, depth + 1)) return false;
  }
  out += ']';
  return true;
}

}  // namespace

bool append_node(std::string& out, NodeBytes& bytes, std::uint64_t& replaced, int depth) {
  ValueHeader header;
  if (depth > kMaxNodeDepth || !take_header(bytes, header)) return false;
  std::string_view text;
  switch (header.tag) {
    case ValueTag::kTensor:
      return append_tensor(out, bytes, header);
    case ValueTag::kNone:
      out += "{\"kind\":\"none\"}";
      return true;
    case ValueTag::kTuple:
    case ValueTag::kList:
      out +=
          header.tag == ValueTag::kTuple ? "{\"kind\":\"tuple\",\"items\":" : "{\"kind\":\"list\",\"items\":";
      if (!append_items(out, bytes, header.count, replaced, depth)) return false;
      out += '}';
      return true;
    case ValueTag::kMapping:
      return append_mapping(out, bytes, header.count, replaced, depth);
    case ValueTag::kScalar:
    case ValueTag::kObject:
      if (!take_text(bytes, header, text)) return false;
      out += header.tag == ValueTag::kScalar ? "{\"kind\":\"scalar\",\"type\":"
                                             : "{\"kind\":\"object\",\"type\":";
      replaced += append_json_string(out, text);
      out += '}';
      return true;
    default:
      return false;
  }
}

bool append_module_facts(std::string& out, NodeBytes& bytes, std::uint64_t& replaced) {
  std::string_view text;
  ValueHeader exact, counter;
  std::int64_t count = 0;
  if (!take_string(bytes, text) || !take_header(bytes, exact) || !take_header(bytes, counter) ||
      !take(bytes, &count, sizeof count) || exact.tag != ValueTag::kBool || counter.tag != ValueTag::kInt) {
    return false;
  }
  out += "\"class\":";
  replaced += append_json_string(out, text);
  out += exact.count ? ",\"exact\":true,\"config\":{" : ",\"exact\":false,\"config\":{";
  for (std::int64_t i = 0; i < count; ++i) {
    if (!take_string(bytes, text)) return false;
    if (i != 0) out += ',';
    replaced += append_json_string(out, text);
    out += ':';
    if (!append_setting(out, bytes, replaced)) return false;
  }
  out += '}';
  return true;
}

bool append_call_args(std::string& out, NodeBytes& bytes, std::uint64_t& replaced) {
  ValueHeader args, kwargs;
  std::string_view text;
  if (!take_header(bytes, args) || args.tag != ValueTag::kTuple) return false;
  out += "\"args\":";
  if (!append_items(out, bytes, args.count, replaced, 0)) return false;
  if (!take_header(bytes, kwargs) || kwargs.tag != ValueTag::kMapping || !take_string(bytes, text))
    return false;
  if (kwargs.count == 0) return true;
  out += ",\"kwargs\":{";
  for (std::uint16_t i = 0; i < kwargs.count; ++i) {
    std::string_view key_class;
    if (!take_string(bytes, text) || !take_string(bytes, key_class)) return false;
    if (i != 0) out += ',';
    replaced += append_json_string(out, text);
    out += ':';
    if (!append_node(out, bytes, replaced, 1)) return false;
  }
  out += '}';
  return true;
}

}  // namespace tensortap::format
