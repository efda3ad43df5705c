// Always-on: how often each operator ran and how long, as counts and histograms in the process. No trace, no
// ring.
//
//   counts_begin(name) …the operator… counts_end(key)      // on the job's threads, of the calls that are
//   sampled append_counts_line(line, share, …)                     // the session's thread, every few seconds
//
// Durations are inclusive of what an operator calls. Histogram: four buckets for each power of two of
// nanoseconds, so a quantile read from it is off by at most 19 %. Cells are of the thread that writes them,
// with plain stores that another thread may read; a thread that ended leaves its cells to a later one. Names
// are copied.
//
// Thread rules: begin and end on the job's threads, no lock, no allocation after a thread's first call;
// nothing is ever given back. C++17; knows no torch.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace tensortap::probe {

inline constexpr std::uint32_t kDurationBuckets =
    160;  // up to 2^40 ns, 18 minutes; the last one holds what is above

// The bucket of a duration; and the least duration of a bucket.
std::uint32_t duration_bucket(std::uint64_t ns) noexcept;
std::uint64_t bucket_begin_ns(std::uint32_t bucket) noexcept;

extern std::atomic<bool> g_counting;

// `key` tells the call from others that are open on this thread; `name` ends with NUL.
void counts_begin(const void* key, const char* name) noexcept;
void counts_end(const void* key) noexcept;

// {"kind":"counts",…}: everything counted since the process began (proto/session.md). `share`: of the calls
// that are looked at. Not on the hot path.
void append_counts_line(std::string& out, double share, std::uint64_t counted_ns);

// A forked child begins with nothing.
void counts_leave_parent() noexcept;

}  // namespace tensortap::probe
