// The spans of a stream as rows, one look-up per record: shared by the rules between records (stream_rules)
// and structural health (health/). An id has a row from its first mention, also when its span_start comes
// later or never.
//
//   SpanTable spans;
//   const std::uint32_t span = spans.number("s0.7");    // a row, new or old
//   spans.declare(span, start, place);
//   spans.close(span, duration);
//   spans.row(span).end_ns();
//   spans.for_each(SpanTable::State::kOpen, [](std::uint32_t span) { … });
//
// Memory: pages (format/paging), 64 bytes a row. Thread rules: one thread at a time, reading too.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "format/event.h"
#include "format/paging/id_index.h"
#include "format/paging/paged_array.h"

namespace tensortap::format {

inline std::uint64_t saturating_sum(std::uint64_t a, std::uint64_t b) {
  return b > std::numeric_limits<std::uint64_t>::max() - a ? std::numeric_limits<std::uint64_t>::max()
                                                           : a + b;
}

class SpanTable {
 public:
  static constexpr std::uint32_t kNone = IdIndex::kNone;
  enum class State : std::uint8_t { kMentioned, kOpen, kClosed };

  struct Row {
    std::uint64_t start_ns = 0, duration_ns = 0;
    Place place;                                  // of the span_start
    std::uint32_t parent = kNone;                 // kNone: it names none
    std::uint32_t evidence = kNone;               // health: the first of the records that wait for its end
    std::uint32_t before = kNone, after = kNone;  // in the list of its state
    State state = State::kMentioned;
    bool outside_parent = false;  // health: found to be

    bool declared() const { return state != State::kMentioned; }
    bool closed() const { return state == State::kClosed; }
    std::uint64_t end_ns() const { return saturating_sum(start_ns, duration_ns); }
  };

  // The row of an id, made when it is new.
  std::uint32_t number(std::string_view id) {
    bool is_new = false;
    const std::uint32_t span = ids_.add(id, &is_new);
    if (is_new) add_row();
    return span;
  }
  // kNone: never mentioned.
  std::uint32_t find(std::string_view id) const { return ids_.find(id); }

  // A reference is good until the next call of any function of the table.
  const Row& row(std::uint32_t span) const { return rows_[span]; }
  Row& edit(std::uint32_t span) { return rows_.edit(span); }

  void declare(std::uint32_t span, const SpanStart& start, const Place& place);
  void close(std::uint32_t span, std::uint64_t duration_ns);

  const IdIndex& ids() const { return ids_; }
  std::string id(std::uint32_t span) const { return ids_.text(span); }
  std::uint32_t size() const { return ids_.size(); }

  // The spans that are only mentioned or open, the youngest first. `take` may change no state.
  template <class Take>
  void for_each(State state, Take take) const {
    for (std::uint32_t span = head(state); span != kNone;) {
      const std::uint32_t after = rows_[span].after;
      take(span);
      span = after;
    }
  }

 private:
  void add_row();
  void link(std::uint32_t span, State state);
  void unlink(std::uint32_t span);
  std::uint32_t head(State state) const { return state == State::kOpen ? open_ : mentioned_; }

  IdIndex ids_;
  PagedArray<Row> rows_{std::size_t{16} << 20};
  std::uint32_t open_ = kNone, mentioned_ = kNone;
};

}  // namespace tensortap::format
