// The session of this process with the collector: one thread, one connection, runs that follow each other.
//
// Protocol: proto/session.md. The thread turns ring records into lines, sends them in batches, releases what
// was acknowledged, and reconnects when the collector went away. Between captures nothing is in place in the
// job and the thread sleeps; so it does without a collector, and tries again with back-off. At the end of the
// job the window is closed and the terminal record goes into the rings; the collector takes what is left out
// of the shared memory: no stall.
//
// Thread rules: session_start once; session_exit from exit(); both from outside callbacks.
#pragma once

#include <cstdint>
#include <string>

namespace tensortap::probe {

// What a torch backend puts into the job and takes out of it.
struct Observers {
  const char* torch_version = "";
  // What steps are seen by: users' ranges, module calls, optimizers. Costs operators nothing.
  void (*install_steps)() noexcept = nullptr;
  // And what operators and memory are seen by. Before the window opens nothing is written.
  void (*install_operators)() noexcept = nullptr;
  // Counts a share of the operators' calls (core/op_counts.h), and stops to.
  void (*install_counter)(double share) noexcept = nullptr;
  void (*remove_counter)() noexcept = nullptr;
  // Everything back out: from now on the job runs as without us.
  void (*remove)() noexcept = nullptr;
  // Libraries may have been loaded meanwhile; called often; a fork must be safe meanwhile.
  void (*repatch)() noexcept = nullptr;
  void (*started)() noexcept = nullptr;  // threads follow what they do (language hooks)
};

// What this process was told besides its environment; "" = not told, the environment counts.
struct SessionSettings {
  std::string socket;
  std::string launch;
  std::string capture;    // capture_plan.h; else TENSORTAP_CAPTURE, else `now`
  bool attached = false;  // the job ran before: what it did until then was not seen
};

// Connects, begins what is to be captured if a collector is there, and starts the session's thread in any
// case. Returns 0 or an errno.
int session_start(const Observers& observers, const SessionSettings& settings) noexcept;

// Torch is about to be destroyed (exit runs the libraries' destructors while our thread still lives): waits
// until nobody is inside a TorchSection, and lets nobody in any more. What is in place stays.
void session_torch_ends() noexcept;

// Whoever calls into torch from a thread of ours, or rewrites its slots, is inside one:
//   if (TorchSection torch; torch) observers.install_steps();
// Short: the process's exit may wait for it.
class TorchSection {
 public:
  TorchSection() noexcept;
  ~TorchSection();
  TorchSection(const TorchSection&) = delete;
  TorchSection& operator=(const TorchSection&) = delete;
  explicit operator bool() const noexcept { return lives_; }

 private:
  bool lives_;
};

// exit(status) is running, torch may be gone: closes the window and says goodbye.
void session_exit(int status) noexcept;

}  // namespace tensortap::probe
