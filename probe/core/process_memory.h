// How much memory this process uses, and what limits it: for the samples of a capture (device_memory).
//
//   record.used = resident_bytes(); record.capacity = memory_limit_bytes();   // 0: not known
//
// Reads /proc and /sys/fs/cgroup. Thread rules: any thread but a job's inside a callback (files are read).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tensortap::probe {

// Resident set, in bytes. 0: not known.
std::uint64_t resident_bytes() noexcept;

// The least of the machine's memory and the limits of the process's memory cgroup and of those that it lies
// in, in bytes.
std::uint64_t memory_limit_bytes() noexcept;

// The same, told where to look. `groups`: the text of /proc/self/cgroup; `root`: where cgroups are mounted.
// Both versions of cgroups are known; a group that is not there (another namespace's) has no limit. May throw
// bad_alloc.
std::uint64_t least_limit(std::uint64_t machine_bytes, std::string_view groups, const std::string& root);

}  // namespace tensortap::probe
