// What the renderers of ring records share (ring_lines.cpp, ring_evidence_lines.cpp). Internal to format.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "format/json_text.h"
#include "format/ring_lines.h"

namespace tensortap::format {

inline void append_span_id(std::string& out, std::uint32_t ring, std::uint64_t number) {
  out += 's';
  append_json_number(out, static_cast<std::uint64_t>(ring));
  out += '.';
  append_json_number(out, number);
}

// Members of an `ext` object, one after another.
class ExtWriter {
 public:
  // Counts bytes that are not UTF-8 in `replaced`.
  ExtWriter(std::string& out, std::uint64_t& replaced, bool goes_on = false)
      : out_(out), replaced_(replaced) {
    if (!goes_on) out_.assign(1, '{');
  }
  std::string& key(const char* name) {
    if (out_.size() > 1) out_ += ',';
    out_ += '"';
    out_ += name;
    out_ += "\":";
    return out_;
  }
  void number(const char* name, std::uint64_t value) { append_json_number(key(name), value); }
  void text(const char* name, std::string_view value) { replaced_ += append_json_string(key(name), value); }
  void flag(const char* name) { key(name) += "true"; }
  void boolean(const char* name, bool value) { key(name) += value ? "true" : "false"; }
  // Room for members that somebody else writes.
  std::string& members() {
    if (out_.size() > 1) out_ += ',';
    return out_;
  }
  std::string_view finish() {
    out_ += '}';
    return out_.size() > 2 ? std::string_view(out_) : std::string_view();
  }

 private:
  std::string& out_;
  std::uint64_t& replaced_;
};

inline std::uint64_t saturating_product(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? ~std::uint64_t{0} : product;
}

inline std::uint64_t saturating_sum(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? ~std::uint64_t{0} : sum;
}

// The bytes behind a record's fixed part; every read is checked.
struct RecordRenderer::Values {
  const unsigned char* at;
  const unsigned char* end;
  const StringTable& strings;

  bool take(void* to, std::uint64_t size) {
    if (static_cast<std::uint64_t>(end - at) < size) return false;
    std::memcpy(to, at, size);
    at += size;
    return true;
  }
  bool skip(std::uint64_t size) {
    if (static_cast<std::uint64_t>(end - at) < size) return false;
    at += size;
    return true;
  }
  // The text of a StrRef field; inline texts stand here in the order of the fields.
  bool text(StrRef ref, std::string_view& out) {
    out = {};
    if (ref == kStrNone) return true;
    if (ref != kStrInline) return strings.get(ref, out);
    std::uint16_t length = 0;
    if (!take(&length, sizeof length) || static_cast<std::uint64_t>(end - at) < length) return false;
    out = {reinterpret_cast<const char*>(at), length};
    at += length;
    return true;
  }
  void align(const unsigned char* record) {
    const auto used = static_cast<std::uint64_t>(at - record);
    at = record + (used + 7) / 8 * 8;
    if (at > end) at = end;
  }
};

}  // namespace tensortap::format
