// Cuts a stream of bytes into lines. A line that lies whole in the bytes given is handed out without a copy.
//
//   LineBuffer lines;
//   bool fits = lines.feed(bytes, [&](std::string_view line) { …; return true; });   // false from `use`:
//   stop
//
// Thread rules: one thread at a time. Memory: one line, of at most kMaxLineBytes.
#pragma once

#include <string>
#include <string_view>

#include "collector/limits.h"

namespace tensortap::collector {

class LineBuffer {
 public:
  // False when a line is longer than kMaxLineBytes; what follows is lost then.
  template <class Use>
  bool feed(std::string_view bytes, Use&& use) {
    while (!bytes.empty()) {
      const std::size_t end = bytes.find('\n');
      const std::string_view part = bytes.substr(0, end);
      if (rest_.size() + part.size() > kMaxLineBytes) return false;
      if (end == std::string_view::npos) {
        rest_.append(part);
        return true;
      }
      bytes.remove_prefix(end + 1);
      if (rest_.empty()) {
        if (!use(part)) return true;
        continue;
      }
      rest_.append(part);
      const bool go_on = use(std::string_view(rest_));
      rest_.clear();
      if (!go_on) return true;
    }
    return true;
  }

  std::size_t unfinished_bytes() const { return rest_.size(); }
  void clear() { rest_.clear(); }

 private:
  std::string rest_;
};

}  // namespace tensortap::collector
