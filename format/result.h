// Result values of the library: a value, or an error with a place.
//
// Expected failures (bad input, a disk that is full) never travel as exceptions across a folder of this
// project; they are returned as `Result<T>`. `Error` says what, where (file, line, byte offset) and what
// kind.
//
//   Result<TraceReader> reader = TraceReader::open(path);
//   if (!reader) { report(reader.error()); return 3; }
//   use(*reader);
//
// Thread rules: plain values. C++17, because the probe's backends are compiled as C++17 for older torch
// versions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace tensortap::format {

enum class ErrorCode : std::uint8_t {
  kInvalidArgument,  // the caller's input is wrong: a bad option, a path that is too long
  kNotFound,         // no such file or run
  kIo,               // the operating system refused; message holds its words
  kMalformed,        // bytes that are not what they should be: bad JSON, a bad frame, a bad record
  kTruncated,        // the input ends in the middle of a line, frame or record
  kRejected,         // well-formed, but a rule of trace/10 forbids it
  kUnsupported,      // a version or schema this build does not know
};

struct Error {
  ErrorCode code = ErrorCode::kMalformed;
  std::string message{};          // one sentence, no trailing newline
  std::string file{};             // empty when not from a file
  std::uint64_t line = 0;         // 1-based; 0 = not known
  std::uint64_t byte_offset = 0;  // from the start of the (uncompressed) stream
  bool has_offset = false;
  std::string_view
      name{};  // stable name of the rule that was broken, a constant ("duplicate_span_id"); may be ""

  // "trace.jsonl:12 (byte 3456): message"; parts that are not known are left out.
  std::string to_string() const {
    std::string out = file;
    if (line != 0) out += (out.empty() ? "line " : ":") + std::to_string(line);
    if (has_offset)
      out += (out.empty() ? "byte " : " (byte ") + std::to_string(byte_offset) + (out.empty() ? "" : ")");
    if (!out.empty()) out += ": ";
    return out + message;
  }
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value)
      : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& operator*() { return std::get<0>(state_); }
  const T& operator*() const { return std::get<0>(state_); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

// Success without a value, or an error.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)
  bool ok() const { return !error_; }
  explicit operator bool() const { return ok(); }
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

}  // namespace tensortap::format
