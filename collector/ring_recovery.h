// What a dead producer left in its memfd: its counters, and the records that it had not sent yet, as trace/10
// lines.
//
//   Result<RingImage> image = RingImage::open(std::move(fd));           // size, seal, header are checked
//   RingTally tally = image->tally();                                   // counters, drop ledger
//   Result<Recovery> rest = image->recover(committed, [&](std::string_view lines, const std::vector<Cursor>&
//   cursors) {
//     return writer.append(lines, cursors);                             // chunks of about 1 MiB
//   });
//
// The job wrote it, so nothing in it is believed: everything is read by pread into memory of this process (a
// mapping could change under the reader, or raise SIGBUS), every length, position and index is checked, and a
// ring with a record that does not add up ends there, counted. Records of different rings are merged by
// (time, ring): ring 0 comes first at equal times, and each ring keeps its order.
//
// No segment is read twice, and the text that may come of an image is bounded: rings that share segments, or
// names that are megabytes long, fill no disk.
// Memory: one segment (32 KiB) of each ring that has something left, and the string table.
// Thread rules: one thread at a time. Ownership: the image owns the descriptor.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "collector/ledger.h"
#include "collector/unique_fd.h"
#include "format/container.h"
#include "format/result.h"
#include "format/ring_layout.h"

namespace tensortap::collector {

struct Recovery {
  std::uint64_t records = 0;       // decoded, pads left out
  std::uint64_t unread_bytes = 0;  // behind a malformed record or position
  std::uint64_t malformed_rings = 0;
  bool too_much = false;             // it would have become more text than an image may
  std::uint64_t replaced_bytes = 0;  // of texts that were not UTF-8
};

class RingImage {
 public:
  // Fails when the descriptor is no memfd sealed against shrinking, or its header is not ours.
  static format::Result<RingImage> open(UniqueFd fd);

  std::uint64_t bytes() const { return bytes_; }
  RingTally tally() const;

  // Bytes that the producer published and `committed` does not cover: the bound of a tail that stays unread.
  std::uint64_t pending_bytes(const std::vector<format::Cursor>& committed) const;

  // Hands out whole lines with the cursors that they reach; their numbers of records go on from the committed
  // ones. Ends early with the sink's error.
  using Sink =
      std::function<format::Status(std::string_view lines, const std::vector<format::Cursor>& cursors)>;
  format::Result<Recovery> recover(const std::vector<format::Cursor>& committed, const Sink& sink) const;

 private:
  RingImage(UniqueFd fd, std::uint64_t bytes, std::uint32_t pool_segments)
      : fd_(std::move(fd)), bytes_(bytes), pool_segments_(pool_segments) {}

  UniqueFd fd_;
  std::uint64_t bytes_;
  std::uint32_t pool_segments_;
};

}  // namespace tensortap::collector
