// Finds the spans of iterations (`step-000000000042`, format/step_name.h) by number: when each began and
// ended.
//
//   StepFinder finder({3, 5});
//   input.walk(finder);                       // of a file with frames: those in which one begins, to its end
//   finder.spans();                           // one range of host time a step
//
// Memory: some hundred bytes a step that was asked for. Thread rules: one thread at a time.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "analyzers/calls/id_set.h"
#include "analyzers/cut/time_spans.h"
#include "analyzers/cut/trace_input.h"
#include "format/line_facts.h"

namespace tensortap::analyzers {

class StepFinder final : public BlockVisitor {
 public:
  explicit StepFinder(const NumberRange& wanted) : wanted_(wanted) {}

  bool wants(const format::FrameEntry& frame, std::size_t number) override;
  bool use(std::string_view block, std::size_t readable) override;

  // From start to end, both included; a step that never ended lasts to the end of the trace.
  std::vector<NumberRange> spans() const;
  std::size_t found() const { return ended_.size() + open_.size(); }
  // The smallest and the greatest number of any step that was seen; nothing when there is none.
  std::optional<NumberRange> seen() const;

  // For who prints them: the spans of the steps, and the frames that hold their ends.
  bool is_step(std::string_view span_id) const { return ids_.contains(span_id); }
  bool holds_end(std::size_t frame) const { return frames_of_ends_.count(frame) != 0; }

 private:
  void see(const NumberRange& numbers);

  NumberRange wanted_;
  NumberRange seen_{~std::uint64_t{0}, 0};
  std::unordered_map<std::string, std::uint64_t, TextHash, std::equal_to<>> open_;  // id → start
  std::vector<NumberRange> ended_;
  IdSet ids_;
  std::unordered_set<std::size_t> frames_of_ends_;
  std::optional<std::size_t> frame_;  // that is being read
  format::FactReader facts_;
};

}  // namespace tensortap::analyzers
