// Records that are charged to spans, judged once their span has ended (internal to format/health; §3.2:
// unknown_parent, child_outside_parent, span_cycle, open_span, unknown_span, operation_outside_span,
// memory_outside_span).
//
// A record may come before its span starts, while it is open, or after its end. What can be decided at once
// leaves nothing behind; the rest waits in a list of its span, which is gone when the span ends. So a stream
// whose spans end leaves only its offenders.
//
//   SpanEvidence evidence(spans);
//   evidence.charge(SpanEvidence::Kind::kOp, spans.number(op.span_id), start, end, place);
//   evidence.started(span);  evidence.ended(span);           // after the table was told
//   evidence.report_spans(issues);                           // then the parts of §3.2 in their order
//
// Memory: pages. Thread rules: one thread at a time.
#pragma once

#include <cstdint>

#include "format/event.h"
#include "format/health/issue_list.h"
#include "format/paging/paged_array.h"
#include "format/paging/sorter.h"
#include "format/span_table.h"

namespace tensortap::format {

class SpanEvidence {
 public:
  // In the order in which unknown_span is reported.
  enum class Kind : std::uint8_t { kOp, kTensor, kTensorStats, kMemory, kDeviceInterval, kParent, kChild };

  explicit SpanEvidence(SpanTable& spans) : spans_(spans) {}

  // A record from `start_ns` to `end_ns`, charged to a span. Kinds without a host time have none to judge.
  void charge(Kind kind, std::uint32_t span, std::uint64_t start_ns, std::uint64_t end_ns,
              const Place& place);
  void started(std::uint32_t span);
  void ended(std::uint32_t span);

  void report_spans(IssueList& issues);       // the four codes on spans, in the order of span ids
  void report_unknown(IssueList& issues);     // unknown_span
  void report_operations(IssueList& issues);  // operation_outside_span
  void report_memory(IssueList& issues);      // memory_outside_span

 private:
  struct Item {
    std::uint64_t start_ns = 0, end_ns = 0;
    Place place;
    std::uint32_t next = SpanTable::kNone;   // in the list of its span
    std::uint32_t span = SpanTable::kNone;   // whose list; in `offenders`: the span it is charged to
    std::uint32_t child = SpanTable::kNone;  // kParent, kChild: the span that names it as its parent
    Kind kind = Kind::kOp;
  };
  struct InReportOrder {
    bool operator()(const Item& a, const Item& b) const {
      return a.kind != b.kind ? a.kind < b.kind : a.place.index < b.place.index;
    }
  };
  using Offenders = Sorter<Item, InReportOrder>;

  void wait(Item item);
  void judge(const Item& item, const SpanTable::Row& span);
  void report_outside(IssueList& issues, Offenders& offenders, std::string_view code, std::string_view what);
  // The colours of `find_cycles`, by span: kLeadsToCycle for those that span_cycle reports.
  PagedArray<std::uint8_t> find_cycles() const;

  SpanTable& spans_;
  PagedArray<Item> waiting_;
  std::uint32_t free_ = SpanTable::kNone;  // of `waiting_`
  Offenders operations_, memory_;
  PagedArray<std::uint32_t> outside_parent_;
  bool cycle_possible_ = false;  // a span named a parent that had not started
};

}  // namespace tensortap::format
