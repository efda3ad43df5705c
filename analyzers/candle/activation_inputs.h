// What the activation profile is worked out from: the tables of one stream after its last record.
#pragma once

#include "analyzers/candle/device_timing.h"
#include "analyzers/candle/logical_memory.h"
#include "analyzers/candle/op_log.h"
#include "analyzers/candle/span_scope.h"
#include "analyzers/candle/span_table.h"
#include "analyzers/candle/tensor_set.h"
#include "analyzers/candle/trace_tables.h"

namespace tensortap::analyzers::candle {

struct ActivationInputs {
  const TraceTables& tables;
  const SpanTable& spans;
  const OpLog& ops;
  const SpanScope& scope;
  const TensorSet& tensors;
  const LogicalMemory& logical;
  const DeviceTiming& timing;
};

}  // namespace tensortap::analyzers::candle
