#include "analyzers/candle/op_log.h"

#include "analyzers/candle/dense_bytes.h"

namespace tensortap::analyzers::candle {

void OpLog::on_op(const format::Op& op) {
  OpRow row;
  row.start_ns = op.timestamp_ns;
  row.duration_ns = op.duration_ns;
  row.span = tables_.spans.add(op.span_id);
  row.index = spans_.on_op(row.span, op);
  row.name = tables_.names.add(op.op_name);
  if (op.output) row.output = tables_.tensors.add(*op.output);
  row.shape = tables_.shapes.add(op.shape);
  row.dtype = tables_.names.add(op.dtype);
  row.device = tables_.names.add(op.device);
  const auto dense = op.output_dense_bytes ? op.output_dense_bytes : dense_bytes(op.shape, op.dtype);
  row.has_dense_bytes = dense.has_value();
  row.dense_bytes = dense.value_or(0);
  rows_.push_back(row);
}

}  // namespace tensortap::analyzers::candle
