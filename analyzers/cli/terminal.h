// What the terminal can do, and progress on it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace tensortap::analyzers {

std::size_t terminal_width();  // of standard output; 100 when it is no terminal

// `mode`: auto, always, never. auto: standard output is a terminal, NO_COLOR is not set, TERM is not "dumb".
bool wants_colour(const std::string& mode);

// One line on standard error that counts records, from the second second on; nothing when that is no
// terminal.
class Progress {
 public:
  Progress();
  ~Progress();  // wipes the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void show(std::uint64_t records);

 private:
  bool terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace tensortap::analyzers
