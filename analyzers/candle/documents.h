// The documents candle-graph/summary/6 and candle-graph/overview/2 of one trace (trace/10 specification §5.8,
// §5.9), pretty-printed, all keys in byte order. Free texts are our own.
//
//   JsonOut json(std::cout);
//   write_summary(json, evidence, DocumentInput{"run.jsonl", "run.jsonl"});
//
// Nsight input is not read: the `gpu` digest is that of a raw trace without it. Thread rules: one thread.
#pragma once

#include <string>

#include "analyzers/candle/evidence.h"
#include "analyzers/candle/json_out.h"

namespace tensortap::analyzers::candle {

struct DocumentInput {
  std::string requested_path;  // as the user gave it
  std::string trace_path;      // the file that was read
};

void write_summary(JsonOut& json, const Evidence& evidence, const DocumentInput& input);
void write_overview(JsonOut& json, const Evidence& evidence, const DocumentInput& input);

}  // namespace tensortap::analyzers::candle
