// Lines are parsed by several threads and shown by one, in their order: the reading that `TraceReader` does
// when there are cores.
//
//   read_in_parallel(2, next_lines, place, take);
//
// Each worker takes the next lines, one worker at a time, and parses them; the caller gets the batches in the
// order of the lines. So many batches as there are threads, and two more, are held.
#pragma once

#include <functional>
#include <string_view>

#include "format/event_batch.h"

namespace tensortap::format {

// `next_lines` is called on the workers' threads, never by two at a time; it returns the next whole lines,
// valid until it is called again, nothing at the end. `take` is called on this thread. Exceptions of either
// come out here, when all workers have ended. False, and nothing was read: the system gave no thread.
bool read_in_parallel(unsigned threads, const std::function<std::string_view()>& next_lines,
                      const std::function<void(const EventBatch&)>& take);

}  // namespace tensortap::format
