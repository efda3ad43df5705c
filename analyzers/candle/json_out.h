// Writes a JSON document of any length as it comes: pretty, two spaces, `": "`, one member or item per line,
// empty containers `{}` and `[]`, non-ASCII characters as they are, one LF at the end (trace/10 specification
// §0.3). Keys come in the order of the calls: for `summary`, `overview` and `query` documents the caller
// makes them ascend by bytes, at every depth.
//
//   JsonOut json(std::cout);
//   json.begin_object();
//   json.member("bytes", std::uint64_t{4});
//   json.key("shape");
//   json.numbers(shape);
//   json.end_object();
//   json.finish();          // the last LF; then look at the stream's state
//
// Memory: 64 KiB and one flag per open container. Thread rules: one thread at a time.
#pragma once

#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tensortap::analyzers::candle {

class JsonOut {
 public:
  explicit JsonOut(std::ostream& out) : out_(out) {}
  JsonOut(const JsonOut&) = delete;
  JsonOut& operator=(const JsonOut&) = delete;
  ~JsonOut() { flush(); }

  void begin_object() { begin('{'); }
  void end_object() { end('}'); }
  void begin_array() { begin('['); }
  void end_array() { end(']'); }

  // Inside an object: the name of the value that follows.
  void key(std::string_view name);

  void text(std::string_view value);
  void number(std::uint64_t value);
  void real(double value);  // text of §1.4; non-finite: null
  void boolean(bool value);
  void null();
  void numbers(std::span<const std::uint64_t> values);  // an array

  // A key and its value.
  void member(std::string_view name, std::string_view value) { key(name), text(value); }
  void member(std::string_view name, const char* value) { key(name), text(value); }
  void member(std::string_view name, const std::string& value) { key(name), text(value); }
  void member(std::string_view name, std::uint64_t value) { key(name), number(value); }
  void member(std::string_view name, bool value) { key(name), boolean(value); }

  // The document's last LF; hands all on to the stream.
  void finish();

 private:
  void begin(char bracket);
  void end(char bracket);
  void start_value();
  void new_line();
  void flush();

  static constexpr std::size_t kFlushBytes = std::size_t{64} << 10;

  std::ostream& out_;
  std::string buffer_;
  std::vector<bool> has_items_;  // of each open container
  bool after_key_ = false;
};

}  // namespace tensortap::analyzers::candle
