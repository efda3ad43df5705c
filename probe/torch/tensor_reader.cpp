#include "probe/torch/tensor_reader.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <torch/version.h>

#include "probe/core/capture_state.h"
#include "probe/core/gradients.h"
#include "probe/core/output_stats.h"
#include "probe/core/tensor_reader.h"
#include "probe/torch/tensor_facts.h"

namespace tensortap::probe {
namespace {

bool tensor_facts(CaptureState& capture, const void* impl, TensorFacts& facts) noexcept {
  const auto& tensor = *static_cast<const c10::TensorImpl*>(impl);
  facts = facts_of(capture, *t_state, tensor);
  if (tensor.key_set().has(c10::DispatchKey::NestedTensor)) facts.flags |= format::kTensorNested;
  if (tensor.is_sparse() || tensor.is_sparse_csr()) facts.flags |= format::kTensorSparse;
  return true;
}

bool autocast_enabled() noexcept {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
  return at::autocast::is_autocast_enabled(at::kCPU) || at::autocast::is_autocast_enabled(at::kCUDA);
#else
  return at::autocast::is_cpu_enabled() || at::autocast::is_enabled();
#endif
}

std::uint8_t thread_modes() noexcept {
  std::uint8_t modes = 0;
  if (at::GradMode::is_enabled()) modes |= format::kModeGrad;
  if (c10::InferenceMode::is_enabled()) modes |= format::kModeInference;
  if (autocast_enabled()) modes |= format::kModeAutocast;
  return modes;
}

bool function_mode_active() noexcept {
#if TORCH_VERSION_MAJOR < 2
  if (at::impl::PythonTorchFunctionTLS::get_mode() != nullptr) return true;
#endif
  return at::impl::PythonTorchFunctionTLS::stack_len() != 0;
}

GradientPlace gradient_of(const void* parameter) noexcept {
  const auto& tensor = *static_cast<const c10::TensorImpl*>(parameter);
  if (!tensor.requires_grad()) return {};
  const at::Tensor& grad = tensor.grad();
  return {true, grad.defined() ? grad.unsafeGetTensorImpl() : nullptr};
}

}  // namespace

void tensor_reader_install() noexcept {
  g_gradient_of = gradient_of;
  gradients_configure();
  stats_configure();
  g_tensor_facts = tensor_facts;
  g_thread_modes = thread_modes;
  g_function_mode_active = function_mode_active;
}

}  // namespace tensortap::probe
