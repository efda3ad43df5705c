#include "format/health/edges.h"

#include <string>

#include "format/text.h"

namespace tensortap::format {

void EdgeChecks::add(const Edge& edge, const Place& place) {
  Row row;
  row.place = place;
  row.kind = edge.edge_kind;
  if (edge.edge_kind == Edge::Kind::kCall) {
    row.duration_ns = edge.host_duration_ns;
    row.from = spans_.number(edge.from);
    row.to = spans_.number(edge.to);
  } else {
    row.empty_end = edge.from.empty() || edge.to.empty();
    row.from = mention(edge.from);
    row.to = mention(edge.to);
  }
  if (!is_right(row)) waiting_.push_back(row);
}

// For good: nothing that comes later changes it.
bool EdgeChecks::is_right(const Row& row) const {
  if (row.kind == Edge::Kind::kData) return !row.empty_end && is_known(row.from) && is_known(row.to);
  if (!spans_.row(row.from).declared()) return false;
  const SpanTable::Row& child = spans_.row(row.to);
  return child.closed() && child.parent == row.from && child.duration_ns == row.duration_ns;
}

void EdgeChecks::report(IssueList& issues) const {
  waiting_.for_each([&](const Row& row) {
    row.kind == Edge::Kind::kCall ? report_call(row, issues) : report_data(row, issues);
  });
}

void EdgeChecks::report_call(const Row& row, IssueList& issues) const {
  const auto named = [&] {
    return "the call edge from span " + in_quotes(spans_.id(row.from)) + " to span " +
           in_quotes(spans_.id(row.to));
  };
  const bool from_known = spans_.row(row.from).declared();
  const SpanTable::Row child = spans_.row(row.to);
  if (!from_known || !child.declared()) {
    return issues.error("unknown_call_edge_span", row.place, [&] {
      return named() + ": " + in_quotes(spans_.id(from_known ? row.to : row.from)) + " is not in the trace";
    });
  }
  if (child.parent != row.from) {
    issues.error("call_edge_hierarchy_mismatch", row.place, [&] {
      return named() + ": " +
             (child.parent == SpanTable::kNone
                  ? "the latter has no parent"
                  : "the latter's parent is " + in_quotes(spans_.id(child.parent)));
    });
  }
  if (child.closed() && child.duration_ns != row.duration_ns) {
    issues.error("call_edge_duration_mismatch", row.place, [&] {
      return named() + " says " + std::to_string(row.duration_ns) + " ns; the span took " +
             std::to_string(child.duration_ns) + " ns";
    });
  }
}

void EdgeChecks::report_data(const Row& row, IssueList& issues) const {
  if (row.empty_end) {
    return issues.error("empty_data_edge_endpoint", row.place,
                        [] { return "a tensor id of the data edge is empty"; });
  }
  const bool from_known = is_known(row.from);
  if (from_known && is_known(row.to)) return;
  issues.error("unknown_data_edge_tensor", row.place, [&] {
    return "the data edge from tensor " + in_quotes(tensors_.text(row.from)) + " to tensor " +
           in_quotes(tensors_.text(row.to)) + ": no op or tensor record names " +
           in_quotes(tensors_.text(from_known ? row.to : row.from));
  });
}

}  // namespace tensortap::format
