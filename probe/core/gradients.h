// When a step's gradients are looked at, and what is written of each. Only when asked for
// (TENSORTAP_GRADIENTS=1): reading values costs.
//
// Each step's gradients are read once, on the thread that drives the steps: right before its first optimizer
// step; in a job without optimizers, at the end of its first backward pass. A backward pass that comes later
// in the step is counted (gradient_read_early): then the records are not the whole truth. Gradients that are
// not in contiguous host memory are counted (gradient_norm_skipped) and left out.
//
//   std::uint64_t step;
//   if (gradients_due(GradientMoment::kOptimizer, &step)) …note_gradient(root, key, impl) for each parameter…
#pragma once

#include <cstdint>
#include <string_view>

namespace tensortap::probe {

enum class GradientMoment { kBackwardEnd, kOptimizer };

// Where a parameter's gradient is.
struct GradientPlace {
  bool wanted = false;         // the parameter requires a gradient
  const void* grad = nullptr;  // TensorImpl; null: it has none
};

// Set by the backend. `parameter`: a TensorImpl that is alive.
extern GradientPlace (*g_gradient_of)(const void* parameter) noexcept;

// Reads the environment. Once, before the capture.
void gradients_configure() noexcept;
bool gradients_wanted() noexcept;
// Not inside a Callback. True: the caller reads all gradients now; `step` is the step's number.
bool gradients_due(GradientMoment moment, std::uint64_t* step) noexcept;
// Writes the gradient of a parameter; nothing for one that requires none.
void note_gradient(std::string_view root, std::string_view key, const void* parameter) noexcept;

}  // namespace tensortap::probe
