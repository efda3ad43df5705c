#include "analyzers/report_context.h"

namespace tensortap::analyzers {
namespace {

std::string_view unit_name(Unit unit) {
  switch (unit) {
    case Unit::kCount:
      return "count";
    case Unit::kNanoseconds:
      return "ns";
    case Unit::kBytes:
      return "bytes";
  }
  return "?";
}

}  // namespace

FigureStatus ReportContext::status(format::Coverage coverage, std::uint64_t observations) const {
  if (!meta) return observations == 0 ? FigureStatus::kUnavailable : FigureStatus::kPartial;
  if (coverage == format::Coverage::kComplete && whole()) return FigureStatus::kComplete;
  return observations == 0 ? FigureStatus::kUnavailable : FigureStatus::kPartial;
}

FigureStatus ReportContext::span_status(std::uint64_t observations) const {
  if (observations == 0) return FigureStatus::kUnavailable;
  return whole() ? FigureStatus::kComplete : FigureStatus::kPartial;
}

const format::CaptureContract& ReportContext::contract() const {
  static const format::CaptureContract kNothingClaimed;
  return meta ? meta->capture_contract : kNothingClaimed;
}

std::string_view status_name(FigureStatus status) {
  switch (status) {
    case FigureStatus::kComplete:
      return "complete";
    case FigureStatus::kPartial:
      return "partial";
    case FigureStatus::kUnavailable:
      return "unavailable";
  }
  return "?";
}

FigureStatus weaker(FigureStatus a, FigureStatus b) { return a > b ? a : b; }

boost::json::object column(Unit unit, std::string_view scope, std::string_view method, FigureStatus status) {
  return {{"unit", unit_name(unit)}, {"scope", scope}, {"method", method}, {"status", status_name(status)}};
}

boost::json::object figure(std::uint64_t value, Unit unit, std::string_view scope, std::string_view method,
                           FigureStatus status) {
  boost::json::object out;
  if (status == FigureStatus::kUnavailable) {
    out["value"] = nullptr;
  } else {
    out["value"] = value;
  }
  for (const auto& member : column(unit, scope, method, status)) out.insert(member);
  return out;
}

}  // namespace tensortap::analyzers
