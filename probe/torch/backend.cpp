// The backend's one exported symbol: what the preload part loads and starts (probe/core/backend_abi.h).
#include <errno.h>
#include <torch/version.h>

#include <string>

#include "probe/core/backend_abi.h"
#include "probe/core/sdk.h"
#include "probe/core/session.h"
#include "probe/python/python_hooks.h"
#include "probe/torch/counter.h"
#include "probe/torch/group_slots.h"
#include "probe/torch/memory_slots.h"
#include "probe/torch/nn_slots.h"
#include "probe/torch/observer.h"
#include "probe/torch/tensor_access.h"
#include "probe/torch/tensor_reader.h"

// Without NDEBUG at::RecordFunction has another layout than in torch's libraries.
#ifndef NDEBUG
#error "a backend must be compiled with NDEBUG"
#endif

namespace {

using namespace tensortap::probe;

void install_steps() noexcept {
  tensor_reader_install();
  observer_install_ranges();
  nn_slots_install();
}

void install_operators() noexcept {
  observer_install_operators();
  memory_slots_install();
}

void remove() noexcept {
  observer_remove();
  memory_slots_remove();
  nn_slots_remove();
  python_hooks_stop();
}

void repatch() noexcept {
  memory_slots_repatch();
  nn_slots_repatch();
  group_slots_repatch();
}

void started() noexcept { python_hooks_start(); }

std::string or_empty(const char* text) { return text == nullptr ? std::string() : std::string(text); }

int start(const TensortapStart* how) {
  tensor_access_install();
  Observers observers;
  observers.torch_version = TORCH_VERSION;
  observers.install_steps = install_steps;
  observers.install_operators = install_operators;
  observers.install_counter = counter_install;
  observers.remove_counter = counter_remove;
  observers.remove = remove;
  observers.repatch = repatch;
  observers.started = started;
  try {
    const SessionSettings settings = {or_empty(how->socket), or_empty(how->launch), or_empty(how->capture),
                                      how->attached != 0};
    if (TorchSection torch; torch) {
      nn_slots_prepare();
      group_slots_install();
    }
    return session_start(observers, settings);
  } catch (...) {
    return ENOMEM;
  }
}

// This library needs libtorch, so the loader runs this before libtorch's own destructors; on_exit's handler,
// which closes the run, comes after them: operators of the job's destructors belong to it.
__attribute__((destructor)) void torch_ends() { session_torch_ends(); }

// Filled before anything of the backend runs.
const TensortapBackend kBackend = {TENSORTAP_BACKEND_ABI, TORCH_VERSION, start, session_exit, sdk_table()};

}  // namespace

extern "C" __attribute__((visibility("default"))) const TensortapBackend* tensortap_backend(void) {
  return &kBackend;
}
