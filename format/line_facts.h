// What a seek table needs of a line, without a walk over all its values: kind, host time, step.
//
//   FactReader reader;
//   LineFacts facts = reader.read(line, readable_behind);
//   if (facts.time_ns) range.include(*facts.time_ns);
//
// It stops as soon as it knows: a line that is broken behind that place is taken as it is. The writer of
// frames and the reader of ranges both ask here, so they agree on every line, whatever is in it.
//
// Thread rules: one reader per thread. Not for the job's process (links simdjson).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

namespace tensortap::format {

enum class RecordKind : std::uint8_t {
  kMeta,
  kSpanStart,
  kSpanEnd,
  kOp,
  kTensor,
  kTensorStats,
  kMemory,
  kDeviceMemory,
  kDeviceInterval,
  kGradient,
  kEdge,
  kTerminal,
};
inline constexpr std::size_t kRecordKinds = 12;

// The spelling in `kind`, and the way back.
std::string_view record_kind_name(RecordKind kind);
std::optional<RecordKind> record_kind_from_name(std::string_view name);
// Whether records of this kind have a host time.
bool has_host_time(RecordKind kind);

struct LineFacts {
  std::optional<RecordKind> kind;  // none: no JSON object, or none of trace/10's kinds
  std::optional<std::uint64_t>
      time_ns;                        // host time: span_start.start_ns, else timestamp_ns. Not of intervals
  std::optional<std::uint64_t> step;  // of a function span named step-…: its number
  std::string_view id;                // of spans: id; of a device interval: span_id
  std::uint64_t duration_ns = 0;      // of a span_end
};

class FactReader {
 public:
  FactReader();
  ~FactReader();
  FactReader(FactReader&&) noexcept;
  FactReader& operator=(FactReader&&) noexcept;

  // `readable`: how many bytes behind the line may be read (whatever is in them); with fewer than simdjson's
  // padding the line is copied. `id` borrows from the reader until its next call.
  LineFacts read(std::string_view line, std::size_t readable);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tensortap::format
