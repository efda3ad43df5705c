#include "analyzers/cut/step_finder.h"

#include <algorithm>
#include <limits>

namespace tensortap::analyzers {

bool StepFinder::wants(const format::FrameEntry& frame, std::size_t number) {
  frame_ = number;
  if (!frame.range) return true;
  const NumberRange steps{frame.range->first_step, frame.range->last_step};
  if (steps.first <= steps.last) see(steps);
  return !open_.empty() || std::max(steps.first, wanted_.first) <= std::min(steps.last, wanted_.last);
}

bool StepFinder::use(std::string_view block, std::size_t readable) {
  while (!block.empty()) {
    const std::size_t end = std::min(block.find('\n'), block.size());
    const std::string_view line = block.substr(0, end);
    block.remove_prefix(std::min(end + 1, block.size()));
    const format::LineFacts facts =
        facts_.read(line, static_cast<std::size_t>(block.end() - line.end()) + readable);
    if (facts.step && facts.time_ns) {
      see({*facts.step, *facts.step});
      if (*facts.step < wanted_.first || *facts.step > wanted_.last) continue;
      open_.emplace(facts.id, *facts.time_ns);
      ids_.insert(facts.id);
    } else if (facts.kind == format::RecordKind::kSpanEnd) {
      const auto step = open_.find(facts.id);
      if (step == open_.end()) continue;
      const std::uint64_t longest = std::numeric_limits<std::uint64_t>::max() - step->second;
      ended_.push_back({step->second, step->second + std::min(facts.duration_ns, longest)});
      open_.erase(step);
      if (frame_) frames_of_ends_.insert(*frame_);
    }
  }
  return true;
}

std::vector<NumberRange> StepFinder::spans() const {
  std::vector<NumberRange> all = ended_;
  for (const auto& [id, start] : open_) all.push_back({start});
  return all;
}

std::optional<NumberRange> StepFinder::seen() const {
  if (seen_.first > seen_.last) return std::nullopt;
  return seen_;
}

void StepFinder::see(const NumberRange& numbers) {
  seen_.first = std::min(seen_.first, numbers.first);
  seen_.last = std::max(seen_.last, numbers.last);
}

}  // namespace tensortap::analyzers
