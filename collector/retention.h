// Which finished runs go: those that are too old, then the oldest until what is left fits.
//
//   for (const std::string& run : runs_to_remove(kept, retention, time(nullptr))) store.remove(run);
//
// A run that is open, or has a worker that is, never goes; a run goes with its workers.
// Thread rules: pure functions.
#pragma once

#include <cstdint>
#include <ctime>
#include <string>
#include <vector>

#include "collector/settings.h"

namespace tensortap::collector {

// A run with all its workers.
struct KeptRun {
  std::string run;
  std::time_t ended = 0;  // the last of them; in the future after a step of the clock: as if now
  std::uint64_t bytes = 0;
  bool open = false;
};

std::vector<std::string> runs_to_remove(std::vector<KeptRun> runs, const Retention& retention,
                                        std::time_t now);

// "2026-03-01T12:34:56Z" → seconds since the epoch; 0 when it is none.
std::time_t parse_utc(const std::string& text);

}  // namespace tensortap::collector
