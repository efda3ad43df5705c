#include "probe/torch/tensor_access.h"

#include <ATen/core/TensorBase.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/TensorImpl.h>

#include "probe/core/sdk.h"
#include "probe/torch/tensor_facts.h"

namespace tensortap::probe {

namespace {

c10::TensorImpl* impl_of(const void* impl) noexcept {
  return const_cast<c10::TensorImpl*>(static_cast<const c10::TensorImpl*>(impl));
}

bool is_undefined(const void* impl) noexcept {
  return impl == nullptr || impl == static_cast<const void*>(c10::UndefinedTensorImpl::singleton());
}

// Looks at a tensor through a handle that counts no reference.
class Borrowed {
 public:
  explicit Borrowed(const void* impl) noexcept
      : tensor_(c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim(impl_of(impl))) {}
  ~Borrowed() { tensor_.unsafeReleaseIntrusivePtr().release(); }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  const at::TensorBase& tensor() const noexcept { return tensor_; }

 private:
  at::TensorBase tensor_;
};

bool facts(CaptureState& capture, const void* impl, TensorFacts& found) noexcept {
  if (is_undefined(impl)) return false;
  const Borrowed borrowed(impl);
  found = facts_of(capture, *t_state, borrowed.tensor());
  return true;
}

// Elements that are computed when they are read, or that belong to a wrapper.
constexpr c10::DispatchKeySet kNotPlain({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative,
                                         c10::DispatchKey::ZeroTensor, c10::DispatchKey::Functionalize,
                                         c10::DispatchKey::FuncTorchBatched,
                                         c10::DispatchKey::FuncTorchGradWrapper});

bool plain_elements(const c10::TensorImpl& impl, HostElements& found) {
  if (!impl.has_storage() || !is_plain(impl) || impl.key_set().has_any(kNotPlain)) return false;
  if (!impl.device().is_cpu() || !(impl.is_contiguous() || impl.is_non_overlapping_and_dense())) {
    return false;  // dense in another order is as good: reductions don't ask for one
  }
  found.count = static_cast<std::uint64_t>(impl.numel());
  found.dtype = static_cast<std::uint8_t>(c10::typeMetaToScalarType(impl.dtype()));
  found.in_order = impl.is_contiguous();
  const auto* base = static_cast<const unsigned char*>(impl.unsafe_storage().data());
  if (base == nullptr) return found.count == 0;
  found.data = base + static_cast<std::size_t>(impl.storage_offset()) * impl.itemsize();
  return true;
}

bool elements(const void* impl, HostElements& found) noexcept {
  if (is_undefined(impl)) return false;
  try {
    return plain_elements(*impl_of(impl), found);
  } catch (...) {
    return false;  // a kind of tensor that refuses to be looked at
  }
}

}  // namespace

void tensor_access_install() noexcept { set_tensor_access({facts, elements}); }

}  // namespace tensortap::probe
