#include "collector/retention.h"

#include <algorithm>
#include <cstdio>

namespace tensortap::collector {

std::vector<std::string> runs_to_remove(std::vector<KeptRun> runs, const Retention& retention,
                                        std::time_t now) {
  std::sort(runs.begin(), runs.end(), [](const KeptRun& a, const KeptRun& b) {
    return a.ended != b.ended ? a.ended < b.ended : a.run < b.run;
  });
  std::uint64_t bytes = 0;
  for (const KeptRun& run : runs) bytes += run.bytes;
  std::vector<std::string> gone;
  for (const KeptRun& run : runs) {
    if (run.open) continue;
    const bool too_old =
        retention.keep.count() != 0 && run.ended < now && now - run.ended > retention.keep.count();
    const bool too_much = retention.max_bytes != 0 && bytes > retention.max_bytes;
    if (!too_old && !too_much) continue;
    gone.push_back(run.run);
    bytes -= run.bytes;
  }
  return gone;
}

std::time_t parse_utc(const std::string& text) {
  std::tm parts{};
  char end = 0;
  if (std::sscanf(text.c_str(), "%d-%d-%dT%d:%d:%d%c", &parts.tm_year, &parts.tm_mon, &parts.tm_mday,
                  &parts.tm_hour, &parts.tm_min, &parts.tm_sec, &end) != 7 ||
      end != 'Z') {
    return 0;
  }
  parts.tm_year -= 1900;
  parts.tm_mon -= 1;
  return std::max<std::time_t>(0, ::timegm(&parts));
}

}  // namespace tensortap::collector
