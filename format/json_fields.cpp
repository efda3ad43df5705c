#include "format/json_fields.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>

#include "format/text.h"

namespace tensortap::format {
namespace {

constexpr int kMaxDepth = 127;  // specification §1.1
constexpr std::size_t kSmallestBuffer = 4096;

using json_detail::is_digit;

// Is it a number by JSON's grammar?
bool is_json_number(std::string_view text) {
  std::size_t i = 0;
  const auto digits = [&] {
    const std::size_t begin = i;
    while (i < text.size() && is_digit(text[i])) ++i;
    return i > begin;
  };
  if (i < text.size() && text[i] == '-') ++i;
  const bool leading_zero = i < text.size() && text[i] == '0';
  const std::size_t integer = i;
  if (!digits() || (leading_zero && i - integer > 1)) return false;
  if (i < text.size() && text[i] == '.') {
    ++i;
    if (!digits()) return false;
  }
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    if (i < text.size() && (text[i] == '+' || text[i] == '-')) ++i;
    if (!digits()) return false;
  }
  return i == text.size();
}

// from_chars says "out of range" for the very large and the very small alike. Which one is it? The place of
// the first digit that is not 0, moved by the exponent, tells.
bool is_too_large(std::string_view text) {
  if (text.front() == '-') text.remove_prefix(1);
  const std::size_t exponent_at = text.find_first_of("eE");
  const std::string_view digits = text.substr(0, exponent_at);
  long long exponent = 0;
  if (exponent_at != std::string_view::npos) {
    const std::string_view written = text.substr(exponent_at + (text[exponent_at + 1] == '+' ? 2 : 1));
    if (std::from_chars(written.data(), written.data() + written.size(), exponent).ec != std::errc()) {
      return written.front() != '-';
    }
  }
  const std::size_t point = std::min(digits.find('.'), digits.size());
  const std::size_t first = digits.find_first_not_of("0.");
  const long long place = first < point ? static_cast<long long>(point - first) - 1
                                        : static_cast<long long>(point) - static_cast<long long>(first);
  return place + exponent > 0;
}

// A number of JSON's grammar as binary64, correctly rounded. False: beyond its range. Too small is 0.
bool to_double(std::string_view text, double& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error == std::errc::result_out_of_range) {
    if (is_too_large(text)) return false;
    out = text.front() == '-' ? -0.0 : 0.0;
    return true;
  }
  return error == std::errc() && end == text.data() + text.size();
}

// Only a long number or one with an exponent can be beyond binary64.
bool is_in_range(std::string_view text) {
  if (text.size() < 300 && text.find_first_of("eE") == std::string_view::npos) return true;
  double ignored = 0;
  return to_double(text, ignored);
}

}  // namespace

bool Json::find_tokens(simdjson::ondemand::parser& parser, const char* bytes, std::size_t size,
                       std::size_t readable) {
  if (texts_capacity_ < size + simdjson::SIMDJSON_PADDING) {
    texts_capacity_ = std::bit_ceil(size + simdjson::SIMDJSON_PADDING);
    texts_.reset(new std::uint8_t[texts_capacity_]);
  }
  simdjson::ondemand::json_iterator tokens;
  if (const auto error =
          parser.iterate_raw(simdjson::padded_string_view(bytes, size, readable)).get(tokens)) {
    return fail_syntax(error);
  }
  decoder_ = &parser;
  bytes_ = bytes;
  at_ = record_ = tokens.position();
  return true;
}

bool Json::open(std::string_view line) {
  failed_ = false;
  line = trim(line);
  if (line.size() + simdjson::SIMDJSON_PADDING > line_capacity_) {
    // Powers of two, for our buffer and the parser's: lines that grow slowly must not allocate each time.
    line_capacity_ = std::bit_ceil(std::max(line.size() + simdjson::SIMDJSON_PADDING, kSmallestBuffer));
    line_.reset(new char[line_capacity_]);
    if (const auto error = line_parser_.allocate(line_capacity_)) return fail_syntax(error);
  }
  if (!line.empty()) std::memcpy(line_.get(), line.data(), line.size());
  std::memset(line_.get() + line.size(), ' ', simdjson::SIMDJSON_PADDING);
  if (!find_tokens(line_parser_, line_.get(), line.size(), line_capacity_)) return false;
  if (line.front() != '{')
    return fail("malformed_json", ErrorCode::kMalformed, "the line is not a JSON object");
  if (line.back() != '}') {
    return fail("malformed_json", ErrorCode::kMalformed,
                "the line is not one JSON object: its end is missing, or text follows it");
  }
  record_end_ = line.size();
  has_escapes_ = std::memchr(line_.get(), '\\', line.size()) != nullptr;
  text_room_ = texts_.get();
  return true;
}

bool Json::open_many(std::string_view lines) {
  failed_ = false;
  // Without the last LF: it is the white space behind the last token.
  return find_tokens(many_parser_, lines.data(), lines.size() - 1,
                     lines.size() - 1 + simdjson::SIMDJSON_PADDING);
}

bool Json::open_next(std::string_view line) {
  failed_ = false;
  const auto begin = static_cast<std::size_t>(line.data() - bytes_);
  if (*at_ != begin) {  // the line before was bad
    at_ = record_;
    while (*at_ < begin) ++at_;
  }
  record_ = at_;
  record_end_ = begin + line.size();
  has_escapes_ = std::memchr(line.data(), '\\', line.size()) != nullptr;
  text_room_ = texts_.get();
  return *at_ < record_end_ && *here() == '{'
             ? true
             : fail("malformed_json", ErrorCode::kMalformed, "the line is not a JSON object");
}

bool Json::close() {
  // Its last token was in the line, and the next one is not.
  if (at_[-1] < record_end_ && *at_ >= record_end_) return true;
  return fail("malformed_json", ErrorCode::kMalformed,
              "text follows the JSON object; a line holds one record");
}

bool Json::fail(std::string_view name, ErrorCode code, std::string message) {
  if (!failed_) {
    failed_ = true;
    code_ = code;
    name_ = name;
    message_ = std::move(message);
  }
  return false;
}

bool Json::fail_syntax(simdjson::error_code error) {
  switch (error) {
    case simdjson::UTF8_ERROR:
      return fail("invalid_utf8", ErrorCode::kMalformed, "the line is not valid UTF-8");
    case simdjson::UNESCAPED_CHARS:
      return fail("malformed_json", ErrorCode::kMalformed, "a control character in a text is not escaped");
    case simdjson::UNCLOSED_STRING:
    case simdjson::INCOMPLETE_ARRAY_OR_OBJECT:
      return fail("malformed_json", ErrorCode::kMalformed, "the line ends inside its JSON object");
    case simdjson::STRING_ERROR:
      return fail("malformed_json", ErrorCode::kMalformed, "a text holds an escape that JSON does not know");
    case simdjson::EMPTY:
      return fail("malformed_json", ErrorCode::kMalformed, "the line is empty");
    default:
      return fail("malformed_json", ErrorCode::kMalformed,
                  std::string("the line is not JSON: ") + simdjson::error_message(error));
  }
}

bool Json::fail_type(std::string_view field, std::string_view wanted, std::string_view name) {
  std::string message = "field \"";
  message += field;
  message += "\" ";
  message += wanted;
  return fail(name, ErrorCode::kRejected, std::move(message));
}

bool Json::decode(const char* begin, std::string_view& out) {
  const auto error =
      decoder_
          ->unescape(simdjson::ondemand::raw_json_string(reinterpret_cast<const std::uint8_t*>(begin)),
                     text_room_)
          .get(out);
  return error == simdjson::SUCCESS || fail_syntax(error);
}

bool Json::boolean(std::string_view field, bool& out) {
  const std::string_view text = scalar();
  if (text != "true" && text != "false") return fail_type(field, "must be true or false");
  out = text == "true";
  ++at_;
  return true;
}

bool Json::slow_unsigned_integer(std::string_view field, std::uint64_t& out) {
  const std::string_view text = scalar();
  const bool leading_zero = text.size() > 1 && text.front() == '0';
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size() || leading_zero) {
    return fail_type(field, "must be an integer from 0 to 18446744073709551615");
  }
  ++at_;
  return true;
}

bool Json::number(std::string_view field, double& out) {
  const std::string_view text = scalar();
  if (!is_json_number(text)) return fail_type(field, "must be a number");
  if (!to_double(text, out)) return fail_type(field, "is a number beyond binary64", "number_out_of_range");
  ++at_;
  return true;
}

bool Json::is_object(std::string_view field) {
  return *here() == '{' || fail_type(field, "must be an object");
}

bool Json::check(int depth) {
  switch (*here()) {
    case '{':
      return check_object(depth + 1);
    case '[':
      return check_array(depth + 1);
    case '"': {
      std::string_view ignored;
      return text("", ignored);
    }
    default:
      return check_scalar();
  }
}

bool Json::check_scalar() {
  // Most are short integers.
  const char* begin = here();
  if (*begin >= '1' && *begin <= '9') {
    int digits = 1;
    while (digits < 20 && is_digit(begin[digits])) ++digits;
    if (json_detail::ends_number(begin[digits])) {
      ++at_;
      return true;
    }
  }
  const std::string_view text = scalar();
  if (text != "null" && text != "true" && text != "false") {
    if (!is_json_number(text))
      return fail("malformed_json", ErrorCode::kMalformed, "the line is not JSON: a value is none");
    if (!is_in_range(text))
      return fail("number_out_of_range", ErrorCode::kRejected, "a number is beyond binary64");
  }
  ++at_;
  return true;
}

bool Json::check_object(int depth) {
  if (depth > kMaxDepth)
    return fail("nesting_too_deep", ErrorCode::kRejected, "more than 127 nested containers");
  Fields fields(*this, depth);
  while (fields.more()) {
    std::string_view ignored;
    if (has_escapes_ && !fields.key(ignored)) return false;
    if (!check(depth) || !fields.next()) return false;
  }
  return !failed_;
}

bool Json::check_array(int depth) {
  if (depth > kMaxDepth)
    return fail("nesting_too_deep", ErrorCode::kRejected, "more than 127 nested containers");
  return list("", [&] { return check(depth); });
}

bool Json::raw_object(int depth, std::string_view& out) {
  const char* begin = here();
  out = {};
  if (*begin != '{') return check(depth);
  if (!check_object(depth + 1)) return false;
  const char* last = bytes_ + at_[-1];
  out = std::string_view(begin, static_cast<std::size_t>(last - begin) + 1);
  return true;
}

bool Json::skip() {
  int open = 0;
  do {
    if (*at_ >= record_end_) return fail_syntax(simdjson::INCOMPLETE_ARRAY_OR_OBJECT);
    const char c = *here();
    if (c == '{' || c == '[') ++open;
    if (c == '}' || c == ']') --open;
    ++at_;
  } while (open > 0);
  return true;
}

bool Fields::key(std::string_view& out) {
  out = json_detail::before_quote(key_, json_.bytes_ + json_.at_[-1]);
  if (json_.has_escapes_ && std::memchr(out.data(), '\\', out.size()) != nullptr)
    return json_.decode(key_, out);
  return true;
}

}  // namespace tensortap::format
