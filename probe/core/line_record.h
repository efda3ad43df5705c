// A whole line as a ring record: what a function of the other records can't say (meta, root, window,
// terminal).
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "format/ring_record.h"

namespace tensortap::probe {

// `bytes`: round_up_8(sizeof(LineRecord) + line.size()), reserved at `room`.
inline void write_line_record(unsigned char* room, std::uint32_t bytes, std::string_view line,
                              std::uint64_t time_ns) noexcept {
  auto* record = reinterpret_cast<format::LineRecord*>(room);
  record->header = {bytes, format::RecordType::kLine, 0, time_ns};
  record->length = static_cast<std::uint32_t>(line.size());
  record->zero = 0;
  std::memcpy(room + sizeof *record, line.data(), line.size());
}

}  // namespace tensortap::probe
