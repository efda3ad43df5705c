// Brings the probe into a running job: dlopen of libtensortap.so, then tensortap_attach with the settings,
// each on a thread that is at a safe moment, tried again on other threads and later until one is.
//
// Thread rules: from one thread (ptrace). A job that is left alone half-way has an idle library in it and
// nothing else; the next attach uses that.
//
//   Injection done = inject(target, library, "socket=…\nlaunch=…\n");
//   if (done.refusal) …
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "probe/attach/checks.h"
#include "probe/attach/refusal.h"

namespace tensortap::probe {

struct Injection {
  std::optional<Refusal> refusal;
  pid_t thread = 0;              // that was borrowed last
  int stops = 0;                 // how often a thread was stopped, for nothing or not
  std::uint64_t paused_ns = 0;   // all stops together
  std::uint64_t longest_ns = 0;  // the longest one
};

Injection inject(const Attachable& job, const std::string& library, const std::string& settings);

// How far the preload part has come (probe/preload/state.h); -1 when that can't be told.
int preload_state(const Attachable& job);

}  // namespace tensortap::probe
