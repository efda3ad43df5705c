// Turns ring records into trace/10 lines: one codec for the drain in the job and for the daemon after its
// death.
//
// Input is never trusted: every length is checked against the record's end; a record that does not add up
// yields false and writes nothing. What is written is valid JSON and UTF-8, but for the text of a kLine
// record, which is handed on unread. Ids: span `s<ring>.<number>`, tensor `t<n>`, storage `m<n>`. C++17; no
// dependency.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "format/event.h"
#include "format/line_writer.h"
#include "format/ring_record.h"

namespace tensortap::format {

// The string table's bytes (the mapping itself, or a copy).
struct StringTable {
  const char* data = nullptr;
  std::uint64_t bytes = 0;
  // The text at `ref`; "" and false when it does not lie inside the table.
  bool get(StrRef ref, std::string_view& text) const;
};

// Renders records one after another; keeps its scratch space, so that no line allocates once it has grown.
class RecordRenderer {
 public:
  explicit RecordRenderer(std::string& out) : out_(out), writer_(out) {}

  // Appends the record's lines to the text given at construction. `record` points to `available` readable
  // bytes. `ring` is the ring it stands in. False: the record is malformed, nothing was appended. Pads append
  // nothing.
  bool append(const unsigned char* record, std::uint64_t available, std::uint32_t ring,
              const StringTable& strings);

  // Bytes that were not UTF-8 and became U+FFFD, since construction.
  std::uint64_t replaced_bytes() const { return writer_.replaced_bytes() + replaced_in_ext_; }

 private:
  struct Values;
  bool append_span_start(Values& rest, const SpanStartRecord& start, std::uint32_t ring);
  bool append_module_call(Values& rest, const SpanStartRecord& start);
  bool append_span_end(Values& rest, const RecordHeader& header, std::uint64_t number,
                       std::uint64_t duration_ns, std::uint64_t own_end_ns, std::uint32_t ring);
  bool append_op(Values& rest, const OpRecord& record);
  bool append_args(Values& rest, std::uint16_t count);
  bool append_value(Values& rest, bool top_level);
  bool append_tensor_value(Values& rest, const ValueHeader& header);
  bool read_outputs(Values& rest, std::uint16_t count);
  void append_outputs(const OpRecord& record);
  bool append_memory(Values& rest, const MemoryRecord& record);
  bool append_device_memory(const DeviceMemoryRecord& record);
  // ring_evidence_lines.cpp
  bool append_evidence(Values& rest, const RecordHeader& header, std::uint32_t ring);
  bool append_tensor(Values& rest, const TensorRecord& record, const unsigned char* base);
  bool append_tensor_stats(Values& rest, const TensorStatsRecord& record, const unsigned char* base);
  bool append_gradient(Values& rest, const GradientRecord& record, const unsigned char* base,
                       std::uint32_t ring);
  bool append_ext_members(Values& rest, std::uint16_t count);
  bool read_shape(Values& rest, std::uint8_t ndim, std::vector<std::uint64_t>& shape);
  std::string_view keep_id(char prefix, std::uint64_t number);

  struct Output {
    std::uint64_t tensor = 0, storage = 0, dense_bytes = 0;
    std::uint32_t first_dim = 0, ndim = 0;  // in output_dims_
    ValueHeader header{};
  };

  std::string& out_;
  LineWriter writer_;
  Op op_;
  Tensor tensor_;
  Memory memory_;
  TensorStats stats_;
  std::string ext_, id_, parent_, output_id_, device_, ids_;
  std::vector<Output> outputs_;
  std::vector<std::uint64_t> output_dims_;
  std::vector<std::uint64_t> input_ids_;
  std::uint64_t replaced_in_ext_ = 0;
  std::uint8_t scalar_output_ = 0;  // ValueTag of a first output that is no tensor
};

// The same for one record, with a renderer of its own.
bool append_record_lines(std::string& out, const unsigned char* record, std::uint64_t available,
                         std::uint32_t ring, const StringTable& strings);

// The labels that traces use. dtype: crate names ("f32", "bf16", "bool"); device: "cpu", "cuda:0".
const char* dtype_label(std::uint8_t scalar_type);
std::uint64_t dtype_bytes(std::uint8_t scalar_type);  // 0 = not known (sub-byte, packed, bits)
void append_device_label(std::string& out, std::uint8_t device_type, std::int8_t device_index);

}  // namespace tensortap::format
