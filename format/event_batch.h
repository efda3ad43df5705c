// The events of some lines, kept to be shown later and elsewhere: what a thread that parses hands to the one
// that analyses.
//
//   EventBatch batch;
//   batch.set_lines(lines);
//   batch.read(reader);                      // on one thread
//   batch.replay({7, 9, 1234}, visitor);     // later, on another: as if `visitor` had been shown them by the
//   reader
//
// Owns the text and everything that the events point to; its room is used again by the next `set_lines`.
// Thread rules: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "format/event.h"
#include "format/line_reader.h"
#include "format/result.h"

namespace tensortap::format {

class EventBatch {
 public:
  // Copies whole lines. What the batch held is forgotten.
  void set_lines(std::string_view lines);
  void read(LineReader& reader);

  // Shows the events, the batch's first line being at `first`.
  void replay(const Place& first, EventVisitor& visitor) const;
  // The place behind the batch's last line, if its first is at `first`.
  Place behind(const Place& first) const { return shifted(behind_, first); }
  std::uint64_t records() const { return records_; }
  std::uint64_t bad_lines() const { return bad_lines_; }
  // The first errors (at most kMaxErrors), the batch's first line being at `first`.
  std::vector<Error> errors(const Place& first) const;
  static constexpr std::size_t kMaxErrors = 20;

 private:
  class Recorder;
  // Events of one kind. Those behind `used` are kept for the room in their lists.
  template <class Event>
  struct Kept {
    std::vector<Event> events;
    std::size_t used = 0;
  };
  struct Entry {
    void (*show)(const EventBatch&, std::size_t at, const Place&, EventVisitor&);
    std::size_t at;  // among the events of its kind
    Place place;     // from the batch's beginning
  };

  static Place shifted(const Place& place, const Place& first) {
    return {first.index + place.index, first.line + place.line, first.byte_offset + place.byte_offset};
  }

  std::string text_;                 // and some blanks behind it: the reader may look at them
  std::deque<std::string> decoded_;  // texts that do not stand in text_ as they are
  std::vector<Entry> entries_;
  std::tuple<Kept<Meta>, Kept<SpanStart>, Kept<SpanEnd>, Kept<Op>, Kept<Tensor>, Kept<TensorStats>,
             Kept<Memory>, Kept<DeviceMemory>, Kept<DeviceInterval>, Kept<Gradient>, Kept<Edge>,
             Kept<Terminal>>
      kept_;
  Place behind_;
  std::uint64_t records_ = 0, bad_lines_ = 0;
  std::vector<Error> errors_;
};

}  // namespace tensortap::format
