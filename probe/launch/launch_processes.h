// Which processes of a launch still live? Every process of the job carries the launch's token in its
// environment.
//
// Thread rules: reads /proc; sees the processes whose environment this user may read (its own).
//
//   while (!processes_of_launch(token).empty()) sleep_a_while();
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace tensortap::probe {

inline constexpr const char* kLaunchVariable = "TENSORTAP_LAUNCH";

// A fresh token: 32 hex digits from the kernel's random numbers.
std::string make_launch_token();

// In order of their pids; zombies and this process itself are left out.
std::vector<pid_t> processes_of_launch(const std::string& token);

}  // namespace tensortap::probe
