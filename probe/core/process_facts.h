// Who this process is: what `hello` and `meta` say of it. Read from /proc and the environment, once per
// session.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tensortap::probe {

struct ProcessFacts {
  std::uint64_t pid = 0;
  std::uint64_t start_time = 0;  // clock ticks since boot (/proc/self/stat, field 22)
  std::string exe;
  std::vector<std::string> command;
  std::string entrypoint;  // the script of an interpreter, else the executable's base name
  std::string run;         // identity: pid, start time, random part
  std::string parent_run;  // of a forked child
  std::string launch;      // TENSORTAP_LAUNCH
  std::int64_t rank = -1, world_size = -1;
  std::string rank_source;  // "environment" or "process_group"; "" = there is no rank
  std::string backend;      // of the process group: "gloo", …; "" = not known
  std::string torch_version;
};

ProcessFacts read_process_facts(const char* torch_version, const std::string& parent_run);

// Takes over what is known of the job's process group (process_group.h), which is right where the environment
// says something else. False: nothing is known, or nothing new.
bool adopt_process_group(ProcessFacts& facts);

// Session protocol lines (proto/session.md), LF included.
// Without a run: the process waits for orders.
std::string idle_hello_line(const ProcessFacts& facts, std::string_view state);
std::string hello_line(const ProcessFacts& facts, std::uint64_t memfd_bytes, bool resume);
// The run's first records: meta, root span, measured window. `window_ns`: when the window opened.
std::string meta_line(const ProcessFacts& facts);
// A rank that was found after them: a `note`, which the collector merges into the meta.
std::string rank_note_line(const ProcessFacts& facts);
std::string root_line(const ProcessFacts& facts);
std::string window_line(std::uint64_t window_ns);

}  // namespace tensortap::probe
