#include "analyzers/counts/counts.h"

#include <boost/json/array.hpp>
#include <charconv>
#include <vector>

namespace tensortap::analyzers {
namespace {

void write_shape(std::string& out, std::string_view dtype, const std::vector<std::uint64_t>& shape) {
  out.assign(dtype);
  out += '[';
  char digits[20];
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i != 0) out += ',';
    out.append(digits, std::to_chars(digits, digits + sizeof digits, shape[i]).ptr);
  }
  out += ']';
}

}  // namespace

void CountsAnalyzer::on_operator(const OperatorCall& call) {
  Operator& entry = operators_[call.name];
  ++entry.calls;
  ++calls_;
  if (call.top_level) {
    ++entry.top_level;
    ++top_level_;
  }
  write_shape(label_, call.dtype, *call.shape);
  if (const auto found = entry.shapes.find(label_); found != entry.shapes.end()) {
    ++found->second;
  } else if (entry.shapes.size() < kMostShapes) {
    entry.shapes.emplace(label_, 1);
  } else {
    ++entry.further_shapes;
  }
}

void CountsAnalyzer::on_became_top_level(NameId name, std::uint64_t, std::uint64_t) {
  ++operators_[name].top_level;
  ++top_level_;
}

boost::json::object CountsAnalyzer::report(const ReportContext& context) const {
  const CallTree::Totals& totals = tree_.totals();
  FigureStatus status = context.status(context.contract().operations, totals.operators);
  const std::uint64_t unattributed = totals.unattributed_operators + totals.waiting_operators;
  if (unattributed != 0) status = weaker(status, FigureStatus::kPartial);

  boost::json::object out;
  out["operators"] = figure(calls_, Unit::kCount, "all threads", "finished operator calls", status);
  out["top_level"] =
      figure(top_level_, Unit::kCount, "all threads", "calls that no other operator's call encloses", status);
  if (unattributed != 0) {
    out["unattributed"] = figure(unattributed, Unit::kCount, "op records",
                                 "charged to a span that the trace does not hold", FigureStatus::kComplete);
  }

  std::vector<std::pair<NameId, const Operator*>> sorted;
  for (const auto& [name, entry] : operators_) sorted.emplace_back(name, &entry);
  std::sort(sorted.begin(), sorted.end(), [&](const auto& a, const auto& b) {
    if (a.second->calls != b.second->calls) return a.second->calls > b.second->calls;
    return tree_.names().text(a.first) < tree_.names().text(b.first);
  });
  boost::json::array rows;
  for (const auto& [name, entry] : sorted) {
    boost::json::object shapes;
    for (const auto& [shape, calls] : entry->shapes) shapes[shape] = calls;
    boost::json::object row{{"name", tree_.names().text(name)},
                            {"calls", entry->calls},
                            {"top_level", entry->top_level},
                            {"output_shapes", std::move(shapes)}};
    if (entry->further_shapes != 0) row["further_shapes"] = entry->further_shapes;
    rows.push_back(std::move(row));
  }
  out["by_operator"] = {{"columns",
                         {{"calls", column(Unit::kCount, "all threads", "finished calls", status)},
                          {"top_level", column(Unit::kCount, "all threads",
                                               "calls that no other operator's call encloses", status)},
                          {"output_shapes", column(Unit::kCount, "all threads",
                                                   "calls by dtype and shape of the first output", status)}}},
                        {"rows", std::move(rows)}};
  return out;
}

}  // namespace tensortap::analyzers
