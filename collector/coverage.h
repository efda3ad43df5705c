// The capture contract as it was true at the end: what a probe's meta line says once its run is over.
//
// A probe cannot know at its start what it will miss, so it claims nothing; the daemon settles the claims
// from what was stored, what the producer counted as lost or unseen, and how the run ended (architecture §7).
//
//   Result<std::string> line = final_meta_line(first_meta_line, truth);   // with its LF
//
// Thread rules: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "analyzers/analysis.h"
#include "collector/run_info.h"
#include "format/event.h"
#include "format/result.h"

namespace tensortap::collector {

struct Truth {
  analyzers::Analysis::Facts facts;
  bool complete = false;      // the producer closed its run itself
  bool losses_known = false;  // its counters were read; without them nothing can be called complete
  bool lost = false;          // records dropped, lines refused, a tail unread
  Counts diagnostics;
  std::optional<format::GradientContract> gradients;  // what the probe wrote, when that may be a manifest
};

void settle_coverage(format::Meta& meta, const Truth& truth);

format::Result<std::string> final_meta_line(std::string_view meta_line, const Truth& truth);

// Of a plain producer, whose claims are its own: where something of it was lost nothing is complete any more.
// The line stays as it is when it claims no completeness.
format::Result<std::string> lowered_meta_line(std::string_view meta_line, const Counts& diagnostics);

}  // namespace tensortap::collector
