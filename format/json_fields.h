// Strict reading of one record's JSON, on top of simdjson's tokens (internal to line_reader.cpp).
//
// simdjson checks the encoding, finds where each token begins (of many lines in one go) and decodes escapes.
// Its own walks over these tokens check only what is looked at; trace/10 wants every byte of a line checked
// (specification §1.4), and its values are small: so this walk goes from token to token itself, one step for
// each.
//
//   Json json;
//   if (json.open(line)) {
//     for (Fields fields(json, 1); fields.more(); fields.next()) {
//       if (!(fields.is("id") ? json.text("id", out) : json.check(1))) break;
//     }
//     json.failed() || json.close();
//   }
//   if (json.failed()) …json.code(), json.message()…
//
// A reading function takes the value at which the walk stands, and goes behind it. The first failure is kept;
// whoever gets `false` must stop. Texts borrow from the line or from buffers in here, until the next record
// is begun.
//
// Thread rules: one Json per thread. Not for the job's process.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "format/event_names.h"
#include "format/result.h"

// What is done for each value is compiled in place.
#define TENSORTAP_HOT [[gnu::always_inline]] inline

namespace tensortap::format {

class Json {
 public:
  static constexpr std::size_t kManyBytes = 128 * 1024;  // with its tokens it stays in the L2 cache

  // Begins a line: white space around it is dropped, its bytes are copied behind padding. False: not one JSON
  // object.
  bool open(std::string_view line);
  // Begins the same record once more.
  void rewind() {
    at_ = record_;
    text_room_ = texts_.get();
  }
  // After the last field: nothing but the record may stand in the line.
  bool close();

  // Many lines, at most kManyBytes, the last with its LF; SIMDJSON_PADDING bytes behind them are readable.
  // Nothing is copied. False: they must be read one by one, because one of them is bad.
  bool open_many(std::string_view lines);
  // Begins one of them. After a failure, the next one can be begun.
  bool open_next(std::string_view line);

  bool failed() const { return failed_; }
  std::string_view name() const { return name_; }
  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }
  // `name`: a stable one for the rule that was broken (`Error::name`), a constant.
  bool fail(std::string_view name, ErrorCode code, std::string message);
  bool fail_syntax(simdjson::error_code error);
  bool fail_type(std::string_view field, std::string_view wanted, std::string_view name = "wrong_type");

  // Typed values of a field named `field` (only for the message).
  bool text(std::string_view field, std::string_view& out);
  bool boolean(std::string_view field, bool& out);
  bool unsigned_integer(std::string_view field, std::uint64_t& out);
  bool number(std::string_view field, double& out);
  template <class Enum>
  bool name_of(std::string_view field, Enum& out);
  // `read_item` is called where each item stands.
  template <class ReadItem>
  bool list(std::string_view field, ReadItem read_item);
  // Is it an object? Its fields are read by `Fields`.
  bool is_object(std::string_view field);
  bool take_null();  // false: another value, which stays

  // Checks a value that nobody reads. `depth` is the depth of the container it stands in; the record is at 1.
  bool check(int depth);
  // Checks it, and hands out its text if it is an object ("" if not).
  bool raw_object(int depth, std::string_view& out);
  // Goes behind a value without a look at it.
  bool skip();

 private:
  friend class Fields;
  // Where the text, from its beginning, has the tokens: behind the last of them stands the text's end, and
  // there a white space, at which every check fails. So no walk gets further than that.
  using Token = const std::uint32_t*;

  const char* here() const { return bytes_ + *at_; }
  const char* next() const { return bytes_ + at_[1]; }
  std::string_view scalar() const;
  bool find_tokens(simdjson::ondemand::parser& parser, const char* bytes, std::size_t size,
                   std::size_t readable);
  bool check_object(int depth);
  bool check_array(int depth);
  bool check_scalar();
  bool decode(const char* begin, std::string_view& out);
  bool slow_unsigned_integer(std::string_view field, std::uint64_t& out);
  template <class Enum>
  bool fail_name(std::string_view field);

  const char* bytes_ = nullptr;
  Token at_ = nullptr;
  Token record_ = nullptr;             // the open record's first token
  std::size_t record_end_ = 0;         // behind its line
  bool has_escapes_ = false;           // there is a backslash in its line
  std::uint8_t* text_room_ = nullptr;  // for decoded texts, within texts_
  bool failed_ = false;
  std::string_view name_;
  ErrorCode code_ = ErrorCode::kMalformed;
  std::string message_;

  simdjson::ondemand::parser line_parser_, many_parser_;
  simdjson::ondemand::parser* decoder_ = nullptr;
  std::unique_ptr<char[]> line_;
  std::unique_ptr<std::uint8_t[]> texts_;
  std::size_t line_capacity_ = 0, texts_capacity_ = 0;
};

// The name of a field and whether it must be there.
struct FieldName {
  std::string_view name;
  bool required = true;
};

// A walk over the fields of the object at which `json` stands, in the order of the line.
class Fields {
 public:
  // `depth` of a record is 1.
  TENSORTAP_HOT Fields(Json& json, int depth) : json_(json), depth_(depth) {
    ++json_.at_;
    if (*json_.here() != '}') {
      take_key();
    } else {
      ++json_.at_;
    }
  }
  // Is there a field (no: the object ended, or the reading failed)? `json` stands at its value.
  TENSORTAP_HOT bool more() const { return key_ != kNoKey; }
  // Is it this one, spelt without escapes? False when there is none.
  TENSORTAP_HOT bool is(std::string_view name) const {
    return std::memcmp(key_, name.data(), name.size()) == 0 && key_[name.size()] == '"';
  }
  // Its name, escapes resolved.
  bool key(std::string_view& out);
  // Goes to the next field, from behind the value. False on failure.
  TENSORTAP_HOT bool next() {
    const char separator = *json_.here();
    ++json_.at_;
    if (separator == ',') return take_key();
    key_ = kNoKey;
    return separator == '}' || json_.fail_syntax(simdjson::TAPE_ERROR);
  }
  int depth() const { return depth_; }

 private:
  TENSORTAP_HOT bool take_key() {
    const char* key = json_.here();
    if (*key != '"' || *json_.next() != ':') {
      key_ = kNoKey;
      return json_.fail_syntax(simdjson::TAPE_ERROR);
    }
    key_ = key + 1;
    json_.at_ += 2;
    return true;
  }
  // Stands for "no field": no name begins with its first byte, and as much of it is readable as of a line.
  static constexpr char kNoKey[simdjson::SIMDJSON_PADDING] = {'"'};

  Json& json_;
  const char* key_ = kNoKey;
  int depth_;
};

// ---- Only definitions below: what is done for each value.

namespace json_detail {

inline bool is_digit(char c) { return static_cast<unsigned char>(c - '0') < 10; }
inline bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
// Can it stand behind a number that is followed by nothing else?
inline bool ends_number(char c) { return c == ',' || c == '}' || c == ']' || is_space(c); }

// What stands from `begin`, which is behind the opening quote, to the last quote before `next`, the next
// token.
inline std::string_view before_quote(const char* begin, const char* next) {
  do {
    --next;
  } while (*next != '"');
  return next < begin ? std::string_view() : std::string_view(begin, static_cast<std::size_t>(next - begin));
}

}  // namespace json_detail

inline std::string_view Json::scalar() const {
  std::string_view text(here(), at_[1] - *at_);
  while (!text.empty() && json_detail::is_space(text.back())) text.remove_suffix(1);
  return text;
}

TENSORTAP_HOT bool Json::text(std::string_view field, std::string_view& out) {
  const char* begin = here();
  if (*begin != '"') return fail_type(field, "must be a string");
  out = json_detail::before_quote(begin + 1, next());
  ++at_;
  if (has_escapes_ && std::memchr(out.data(), '\\', out.size()) != nullptr) return decode(begin + 1, out);
  return true;
}

TENSORTAP_HOT bool Json::unsigned_integer(std::string_view field, std::uint64_t& out) {
  const char* begin = here();
  const char* end = begin;
  std::uint64_t number = 0;
  for (; json_detail::is_digit(*end); ++end) number = number * 10 + static_cast<std::uint64_t>(*end - '0');
  const auto digits = static_cast<std::size_t>(end - begin);
  // 19 digits cannot overflow.
  if (digits - 1 >= 19 || !json_detail::ends_number(*end) || (*begin == '0' && digits != 1)) {
    return slow_unsigned_integer(field, out);
  }
  out = number;
  ++at_;
  return true;
}

TENSORTAP_HOT bool Json::take_null() {
  if (*here() != 'n' || scalar() != "null") return false;
  ++at_;
  return true;
}

template <class ReadItem>
TENSORTAP_HOT bool Json::list(std::string_view field, ReadItem read_item) {
  if (*here() != '[') return fail_type(field, "must be a list");
  ++at_;
  if (*here() == ']') {
    ++at_;
    return true;
  }
  for (;;) {
    if (!read_item()) return false;
    const char separator = *here();
    ++at_;
    if (separator == ',') continue;
    return separator == ']' || fail_syntax(simdjson::TAPE_ERROR);
  }
}

template <class Enum>
bool Json::name_of(std::string_view field, Enum& out) {
  if (*here() != '"') return fail_name<Enum>(field);
  std::string_view name;
  if (!text(field, name)) return false;
  return enum_from_name(name, out) || fail_name<Enum>(field);
}

template <class Enum>
bool Json::fail_name(std::string_view field) {
  std::string known;
  for (std::string_view spelling : EnumNames<Enum>::names) {
    known += known.empty() ? "" : ", ";
    known += spelling;
  }
  return fail_type(field, "must be one of " + known, "unknown_value");
}

}  // namespace tensortap::format
