// The `memory` and `timing` members of the candle-graph documents summary/6 and trace-query/7: keys in byte
// order at every depth. Each call writes one value; the caller has written its key.
//
//   json.key("memory");
//   write_memory(json, logical, physical);       // {} when neither plane was observed
//   json.key("timing");
//   write_timing(json, timing, meta.capture_contract.device_timing);
//
// Thread rules: those of what is written.
#pragma once

#include "analyzers/candle/device_timing.h"
#include "analyzers/candle/json_out.h"
#include "analyzers/candle/logical_memory.h"
#include "analyzers/candle/physical_memory.h"
#include "format/event.h"

namespace tensortap::analyzers::candle {

void write_memory(JsonOut& json, const LogicalMemory& logical, const PhysicalMemory& physical);
// `declared`: the capture contract's device_timing.
void write_timing(JsonOut& json, const DeviceTiming& timing, format::Coverage declared);

}  // namespace tensortap::analyzers::candle
