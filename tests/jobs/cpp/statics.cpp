// Operators outside of main: in constructors and destructors of objects of static storage, where the
// environment asks for them (TTJOB_STATICS). Compiled into ttjob, and alone as a plug-in that is loaded and
// unloaded while a job runs.
#include <ATen/ATen.h>

#include <cstdlib>

namespace {

bool asked_for() { return std::getenv("TTJOB_STATICS") != nullptr; }

struct Statics {
  Statics() {
    if (asked_for()) at::ones({3}).add_(1);
  }
  ~Statics() {
    if (asked_for()) at::ones({3}).mul_(2);
  }
};

Statics statics;

}  // namespace

// 4 × add.
extern "C" __attribute__((visibility("default"))) long ttplugin_run() {
  at::Tensor sum = at::zeros({1});
  for (int i = 0; i < 4; ++i) sum = at::add(sum, 1);
  return sum.item().toLong();
}
