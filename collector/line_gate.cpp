#include "collector/line_gate.h"

#include <algorithm>
#include <array>

namespace tensortap::collector {

namespace {

constexpr std::array<std::string_view, 10> kRecordKinds = {
    "op",   "span_start",    "span_end",     "tensor",          "memory",
    "edge", "device_memory", "tensor_stats", "device_interval", "gradient"};

}  // namespace

LineKind LineGate::classify(std::string_view line) {
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return LineKind::kBlank;
  const std::string_view kind = reader_.kind(line);
  if (std::find(kRecordKinds.begin(), kRecordKinds.end(), kind) != kRecordKinds.end())
    return LineKind::kRecord;
  if (kind == "batch") return LineKind::kBatch;
  if (kind == "note") return LineKind::kNote;
  if (kind == "meta") return LineKind::kMeta;
  if (kind == "terminal") return LineKind::kTerminal;
  if (kind == "hello") return LineKind::kHello;
  if (kind == "ctl") return LineKind::kControl;
  if (kind == "state") return LineKind::kState;
  if (kind == "counts") return LineKind::kCounts;
  return LineKind::kBad;
}

}  // namespace tensortap::collector
