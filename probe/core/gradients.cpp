#include "probe/core/gradients.h"

#include <cstdlib>
#include <cstring>

#include "probe/core/capture_state.h"
#include "probe/core/evidence.h"
#include "probe/core/sdk.h"

namespace tensortap::probe {

using namespace format;

GradientPlace (*g_gradient_of)(const void* parameter) noexcept = nullptr;

namespace {

constexpr std::string_view kSource = "probe";

bool g_wanted = false;

void write(std::string_view root, std::string_view key, GradientCode code, double norm) noexcept {
  Callback callback;
  if (!callback) return;
  if (code == GradientCode::kNonFinite) callback.capture().memory.count(Counter::kGradientNonFinite);
  write_gradient(callback.capture(), callback.state(), root, key, code, norm, kSource);
}

void count_now(Counter counter) noexcept {
  if (Callback callback; callback) callback.capture().memory.count(counter);
}

}  // namespace

void gradients_configure() noexcept {
  const char* value = std::getenv("TENSORTAP_GRADIENTS");
  g_wanted = value != nullptr && *value != '\0' && std::strcmp(value, "0") != 0;
}

bool gradients_wanted() noexcept { return g_wanted; }

bool gradients_due(GradientMoment moment, std::uint64_t* step) noexcept {
  if (!g_wanted || !window_is_open()) return false;
  Callback callback;
  if (!callback) return false;
  CaptureState& capture = callback.capture();
  Steps& steps = capture.steps;
  const bool is_backward = moment == GradientMoment::kBackwardEnd;
  if (!callback.state().drives_steps || !steps.open) {
    if (is_backward) capture.memory.count(Counter::kGradientsUnread);
    return false;
  }
  if (capture.gradients_read == steps.number + 1) {
    if (is_backward) capture.memory.count(Counter::kGradientReadEarly);
    return false;
  }
  if (is_backward && steps.optimizer_known) {  // its step comes, and more may be added before
    if (!capture.gradients_pending) capture.memory.count(Counter::kGradientsUnread);
    capture.gradients_pending = true;
    return false;
  }
  if (capture.gradients_pending) capture.memory.count(Counter::kGradientsUnread, ~std::uint64_t{0});
  capture.gradients_pending = false;
  capture.gradients_read = steps.number + 1;
  *step = steps.number;
  return true;
}

void note_gradient(std::string_view root, std::string_view key, const void* parameter) noexcept {
  if (g_gradient_of == nullptr) return;
  const GradientPlace place = g_gradient_of(parameter);
  if (!place.wanted) return;
  if (place.grad == nullptr) {
    write(root, key, GradientCode::kMissing, 0);
    return;
  }
  const TensorAccess& access = tensor_access();
  HostElements elements;
  Reductions values;
  if (access.elements == nullptr || !access.elements(place.grad, elements) ||
      !reduce_values(elements.data, elements.dtype, elements.count, values)) {
    count_now(Counter::kGradientNormSkipped);
    return;
  }
  write(root, key, gradient_state(values.norm), values.norm);
}

}  // namespace tensortap::probe
