// What a job says of its run as a whole (`note` lines, proto/session.md): tags and the comparison identity;
// and what its probe finds out late: its place in the process group. The run's meta line is written before
// the job can say it, so it is merged into that line when it comes.
//
//   RunNotes notes;
//   if (!notes.take(line)) …;                                // not understood, or more than a run may say
//   if (notes.pending()) line = notes.merged(meta_line);     // with its LF
//
// The same note may come again (a probe sends again what was not acknowledged): the last one of a key counts.
// Thread rules: one thread at a time.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "collector/run_info.h"
#include "format/event.h"
#include "format/result.h"

namespace tensortap::collector {

class RunNotes {
 public:
  // False: it says nothing that a meta line may hold, or too much; nothing was taken of it.
  bool take(std::string_view line);

  // Has something been taken that merged() was not asked for yet?
  bool pending() const { return pending_; }
  // The place in the process group that was taken last; rank is empty when there was none.
  const RunInfo& place() const { return place_; }
  format::Result<std::string> merged(std::string_view meta_line);

 private:
  std::string with_place(const std::string& ext) const;
  bool take_tag(const std::string& key, const std::string& value);

  std::map<std::string, std::string> tags_;
  std::size_t tag_bytes_ = 0;
  std::optional<format::ComparisonIdentity> identity_;
  RunInfo place_;  // rank, world_size, rank_source, backend
  bool pending_ = false;
};

}  // namespace tensortap::collector
