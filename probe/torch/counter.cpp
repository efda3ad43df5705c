#include "probe/torch/counter.h"

#include <ATen/record_function.h>

#include <memory>

#include "probe/core/op_counts.h"

namespace tensortap::probe {

namespace {

at::CallbackHandle g_counter = 0;  // 0 = not registered; the session's thread only

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& fn) {
  counts_begin(&fn, fn.name());
  return nullptr;
}

void on_end(const at::RecordFunction& fn, at::ObserverContext*) { counts_end(&fn); }

}  // namespace

void counter_install(double share) noexcept {
  if (g_counter != 0) return;
  g_counting.store(true, std::memory_order_relaxed);
  try {
    at::RecordFunctionCallback callback(on_start, on_end);
    callback.scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION});
    if (share < 1) callback.samplingProb(share);
    g_counter = at::addGlobalCallback(callback);
  } catch (...) {
  }
}

void counter_remove() noexcept {
  g_counting.store(false, std::memory_order_relaxed);
  if (g_counter == 0) return;
  try {
    at::removeCallback(g_counter);
  } catch (...) {
  }
  g_counter = 0;
}

}  // namespace tensortap::probe
