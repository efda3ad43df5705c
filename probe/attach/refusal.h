// Why trace-attach leaves a process alone: one exit code for each kind of reason, in words, and what to do
// about it.
//
// The numbers are a promise to scripts: never change one, add new ones at the end.
#pragma once

#include <string>

namespace tensortap::probe {

enum class AttachExit : int {
  kAttached = 0,
  kUsage = 2,
  kNoProcess = 3,
  kNotPermitted = 4,
  kOtherNamespace = 5,
  kStaticBinary = 6,
  kOtherMachine = 7,
  kNoTorch = 8,
  kNoBackend = 9,
  kAlreadyTraced = 10,
  kBeingDebugged = 11,
  kNoSafeMoment = 12,
  kProbeSilent = 13,  // the library is in the job, and no run has come
  kOwnFailure = 125,
};

struct Refusal {
  AttachExit code = AttachExit::kOwnFailure;
  std::string reason;  // what is so; no trailing full stop
  std::string remedy;  // what to do, or ""
};

}  // namespace tensortap::probe
