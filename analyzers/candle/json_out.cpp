#include "analyzers/candle/json_out.h"

#include "format/line_writer.h"

namespace tensortap::analyzers::candle {

void JsonOut::new_line() {
  buffer_ += '\n';
  buffer_.append(2 * has_items_.size(), ' ');
}

// What stands before a value: nothing behind its key, else the comma and the line of an array's item.
void JsonOut::start_value() {
  if (buffer_.size() >= kFlushBytes) flush();
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (has_items_.empty()) return;
  if (has_items_.back()) buffer_ += ',';
  has_items_.back() = true;
  new_line();
}

void JsonOut::key(std::string_view name) {
  start_value();
  format::append_json_string(buffer_, name);
  buffer_ += ": ";
  after_key_ = true;
}

void JsonOut::begin(char bracket) {
  start_value();
  buffer_ += bracket;
  has_items_.push_back(false);
}

void JsonOut::end(char bracket) {
  const bool had_items = has_items_.back();
  has_items_.pop_back();
  if (had_items) new_line();
  buffer_ += bracket;
}

void JsonOut::text(std::string_view value) {
  start_value();
  format::append_json_string(buffer_, value);
}

void JsonOut::number(std::uint64_t value) {
  start_value();
  format::append_json_number(buffer_, value);
}

void JsonOut::real(double value) {
  start_value();
  format::append_json_number(buffer_, value);
}

void JsonOut::boolean(bool value) {
  start_value();
  buffer_ += value ? "true" : "false";
}

void JsonOut::null() {
  start_value();
  buffer_ += "null";
}

void JsonOut::numbers(std::span<const std::uint64_t> values) {
  begin_array();
  for (const std::uint64_t value : values) number(value);
  end_array();
}

void JsonOut::finish() {
  buffer_ += '\n';
  flush();
  out_.flush();
}

void JsonOut::flush() {
  out_.write(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
  buffer_.clear();
}

}  // namespace tensortap::analyzers::candle
