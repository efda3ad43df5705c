#include "analyzers/cut/trace_cut.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "analyzers/calls/id_set.h"
#include "analyzers/cut/step_finder.h"
#include "analyzers/cut/trace_input.h"
#include "format/line_reader.h"
#include "format/text.h"

namespace tensortap::analyzers {
namespace {

using format::FrameRange;
using format::LineFacts;
using format::RecordKind;

constexpr std::uint64_t bit(RecordKind kind) { return std::uint64_t{1} << static_cast<unsigned>(kind); }

// The rules of trace_cut.h, line by line.
class LineRules {
 public:
  LineRules(std::optional<TimeSpans> times, const std::vector<RecordKind>& kinds, const StepFinder* steps)
      : times_(std::move(times)), steps_(steps) {
    for (const RecordKind kind : kinds) kinds_ |= bit(kind);
    if (kinds.empty()) kinds_ = ~std::uint64_t{0};
  }

  bool keeps(const LineFacts& facts) {
    const bool inside = !times_ || is_inside(facts);
    return inside && (kinds_ & bit(*facts.kind)) != 0;
  }

  // Whether any line of a frame may be kept; if not, the frame counts as read.
  bool may_keep(const FrameRange& range) {
    // A line without a time needs the ones before it.
    const bool only_timed = !times_ || (kinds_ & ~kTimed) == 0;
    if (only_timed && (range.kinds & kinds_) == 0) return false;
    if (!times_ || inside_) return true;
    return times_->touches({range.first_ns, range.last_ns});
  }

 private:
  static constexpr std::uint64_t kTimed = bit(RecordKind::kSpanStart) | bit(RecordKind::kOp) |
                                          bit(RecordKind::kMemory) | bit(RecordKind::kDeviceMemory) |
                                          bit(RecordKind::kTerminal);

  bool is_inside(const LineFacts& facts) {
    if (facts.time_ns) inside_ = times_->contains(*facts.time_ns);
    if (facts.kind == RecordKind::kSpanStart && inside_) begun_.insert(facts.id);
    if (facts.kind == RecordKind::kSpanEnd && steps_ != nullptr && steps_->is_step(facts.id)) return true;
    if (facts.kind == RecordKind::kSpanEnd || facts.kind == RecordKind::kDeviceInterval)
      return inside_ && begun_.contains(facts.id);
    return inside_;
  }

  std::optional<TimeSpans> times_;
  std::uint64_t kinds_ = 0;
  const StepFinder* steps_;
  bool inside_ = false;  // of the last line with a host time
  IdSet begun_;          // spans whose start is inside
};

class Cutter final : public BlockVisitor {
 public:
  Cutter(const CutRequest& request, LineRules rules, const StepFinder* steps, LineSink& sink,
         CutReport& report)
      : whole_(request.is_whole()), rules_(std::move(rules)), steps_(steps), sink_(sink), report_(report) {}

  bool wants(const format::FrameEntry& frame, std::size_t number) override {
    return whole_ || !frame.range || (steps_ != nullptr && steps_->holds_end(number)) ||
           rules_.may_keep(*frame.range);
  }

  bool use(std::string_view block, std::size_t readable) override {
    const bool takes_torn = whole_ && !sink_.is_container();
    if (block.back() != '\n' && is_torn(block)) {
      report_.truncated = true;
      if (!takes_torn) block = block.substr(0, block.rfind('\n') + 1);
    }
    if (!report_.is_trace && !take_meta(block)) return false;
    return whole_ ? put(block) : choose(block, readable);
  }

 private:
  // Whether the last line, which lacks its LF, is not whole either.
  bool is_torn(std::string_view block) {
    const std::string_view last = block.substr(block.rfind('\n') + 1);
    return !format::is_blank(last) && !reader_.read(last, {}, nobody_).ok();
  }

  // Writes the first record, which must be a meta, and takes it off the block. False: it is none.
  bool take_meta(std::string_view& block) {
    while (!block.empty()) {
      const std::size_t end = std::min(block.find('\n'), block.size());
      const std::string_view line = block.substr(0, end);
      const bool has_lf = end < block.size();
      block.remove_prefix(end + (has_lf ? 1 : 0));
      if (format::is_blank(line)) continue;
      report_.is_trace = facts_.read(line, 0).kind == RecordKind::kMeta && (whole_ || is_good_meta(line));
      std::string meta(line.substr(0, line.find_last_not_of(' ') + 1));
      if (has_lf || !whole_) meta += '\n';
      return report_.is_trace && put(meta);
    }
    return true;
  }

  bool is_good_meta(std::string_view line) {
    const format::Status status = reader_.read(line, {}, nobody_);
    if (!status) {
      format::Error error = status.error();
      error.message = "the meta line is no record of trace/10: " + error.message;
      error.has_offset = false;
      report_.errors.push_back(std::move(error));
    }
    return status.ok();
  }

  bool choose(std::string_view block, std::size_t readable) {
    const char* run = block.data();  // kept lines from here on are not written yet
    const char* const readable_end = block.data() + block.size() + readable;
    const auto put_run = [&](const char* to) {
      return put_good({run, static_cast<std::size_t>(to - run)}, static_cast<std::size_t>(readable_end - to));
    };
    while (!block.empty()) {
      const std::size_t end = std::min(block.find('\n'), block.size());
      const std::string_view line = block.substr(0, end);
      const bool has_lf = end < block.size();
      block.remove_prefix(end + (has_lf ? 1 : 0));
      const bool kept = keeps(line, static_cast<std::size_t>(block.end() - line.end()) + readable);
      if (!kept) {
        if (!put_run(line.data())) return false;
        run = block.data();
      } else if (!has_lf) {
        return put_run(block.data()) && put("\n");  // it is whole, see is_torn
      }
    }
    return put_run(block.data());
  }

  bool keeps(std::string_view line, std::size_t readable) {
    if (format::is_blank(line)) return false;
    const LineFacts facts = facts_.read(line, readable);
    if (!facts.kind) ++report_.bad_lines;
    return facts.kind && rules_.keeps(facts);
  }

  // The choice knows of a line what it needs; before it is written all of it is looked at.
  bool put_good(std::string_view lines, std::size_t readable) {
    if (lines.empty()) return true;
    std::string_view checked = lines;
    if (readable < format::kReadableBehind) {
      padded_.assign(lines).append(format::kReadableBehind, ' ');
      checked = std::string_view(padded_).substr(0, lines.size());
    }
    bad_.clear();
    format::Place place;
    reader_.read_lines(checked, place, nobody_, [&](const format::Error& bad) {
      bad_.push_back(static_cast<std::size_t>(bad.byte_offset));
    });
    report_.bad_lines += bad_.size();
    std::size_t good = 0;  // where the next lines to write begin
    for (const std::size_t bad : bad_) {
      if (!put(lines.substr(good, bad - good))) return false;
      good = std::min(lines.find('\n', bad), lines.size() - 1) + 1;
    }
    return put(lines.substr(good));
  }

  bool put(std::string_view lines) {
    if (lines.empty()) return true;
    if (format::Status status = sink_.write(lines); !status) report_.unwritten = status.error();
    return !report_.unwritten;
  }

  bool whole_;
  LineRules rules_;
  const StepFinder* steps_;
  LineSink& sink_;
  CutReport& report_;
  format::FactReader facts_;
  format::LineReader reader_;
  format::EventVisitor nobody_;
  std::string padded_;
  std::vector<std::size_t> bad_;  // where lines begin
};

}  // namespace

format::Result<CutReport> cut_trace(const std::string& path, const CutRequest& request, LineSink& sink) {
  auto input = TraceInput::open(path, request.steps.has_value());
  if (!input) return input.error();
  CutReport report;
  if (input->index() != nullptr) report.frames = input->index()->frames().size();

  std::optional<TimeSpans> times;
  std::optional<StepFinder> steps;
  if (request.times) times.emplace(std::vector<NumberRange>{*request.times});
  if (request.steps) {
    steps.emplace(*request.steps);
    report.errors = input->walk(*steps).errors;  // a step may be in what is lost
    report.steps_found = steps->found();
    if (report.steps_found == 0) report.steps_seen = steps->seen();
    times = TimeSpans(steps->spans()).within(request.times.value_or(NumberRange{}));
  }
  const std::size_t before = report.errors.size();
  const StepFinder* finder = steps ? &*steps : nullptr;
  Cutter cutter(request, LineRules(std::move(times), request.kinds, finder), finder, sink, report);
  WalkReport walk = input->walk(cutter);
  for (std::size_t i = before; i < report.errors.size(); ++i) report.errors[i].file = input->name();
  report.truncated = report.truncated || walk.truncated;
  for (format::Error& error : walk.errors) {
    const bool known = std::any_of(report.errors.begin(), report.errors.end(),
                                   [&](const format::Error& e) { return e.message == error.message; });
    if (!known) report.errors.push_back(std::move(error));
  }
  report.frames_read = walk.frames_read;
  return report;
}

}  // namespace tensortap::analyzers
