// What may be read of a tensor inside a callback: numbers only, nothing that runs the job's Python code or
// throws.
#pragma once

#include <ATen/core/TensorBase.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/UndefinedTensorImpl.h>

#include "probe/core/capture_state.h"
#include "probe/core/values.h"

namespace tensortap::probe {

// Sizes of nested, symbolic and Python-dispatched tensors are computed by code that may throw or run Python.
// The undefined tensor has no keys and no sizes.
inline bool is_plain(const c10::TensorImpl& impl) noexcept {
  constexpr c10::DispatchKeySet kComputed({c10::DispatchKey::Python, c10::DispatchKey::NestedTensor});
  return !impl.key_set().has_any(kComputed) && !impl.has_symbolic_sizes_strides() &&
         &impl != c10::UndefinedTensorImpl::singleton();
}

// The block behind a storage, whatever it allows to be done with it (torch 2 has storages whose data()
// throws).
template <class Impl>
auto block_of(Impl* storage, int) noexcept -> decltype(storage->_mutable_data_ptr_no_checks().get()) {
  return storage->_mutable_data_ptr_no_checks().get();
}
template <class Impl>
const void* block_of(Impl* storage, long) noexcept {
  return storage->data_ptr().get();
}

__attribute__((noinline)) inline std::uint64_t add_unseen(CaptureState& capture, ThreadState& state,
                                                          const void* block,
                                                          const c10::StorageImpl* storage) noexcept {
  std::size_t bytes = 0;
  try {
    bytes = storage->nbytes();
  } catch (...) {  // a size that is a symbol
  }
  return capture.blocks.find_or_add_unseen(block, bytes, state.storage_numbers);
}

inline std::uint64_t storage_of(CaptureState& capture, ThreadState& state,
                                const c10::TensorImpl& impl) noexcept {
  c10::StorageImpl* storage = impl.unsafe_storage().unsafeGetStorageImpl();
  if (__builtin_expect(storage == nullptr, 0)) return 0;
  const void* block = block_of(storage, 0);
  if (__builtin_expect(block == nullptr, 0)) return 0;
  const std::uint64_t known = capture.blocks.find(block);
  return __builtin_expect(known != 0, 1) ? known : add_unseen(capture, state, block, storage);
}

inline void identify(CaptureState& capture, ThreadState& state, const c10::TensorImpl& impl,
                     TensorFacts& facts) noexcept {
  bool evicted = false;
  facts.id = capture.tensors.id(&impl, facts.storage, state.tensor_numbers, evicted);
  if (__builtin_expect(evicted, 0)) capture.memory.count(format::Counter::kTensorIdsEvicted);
}

inline void read_kind(const c10::TensorImpl& impl, TensorFacts& facts) noexcept {
  facts.flags = impl.requires_grad() ? format::kTensorRequiresGrad : 0;  // a call: before the rest is at hand
  facts.dtype = static_cast<std::uint8_t>(c10::typeMetaToScalarType(impl.dtype()));
  const c10::Device device = impl.device();
  facts.device_type = static_cast<std::uint8_t>(device.type());
  facts.device_index = static_cast<std::int8_t>(device.index());
}

// Of a plain tensor, which must outlive the facts (dims point into it).
inline TensorFacts plain_facts_of(CaptureState& capture, ThreadState& state,
                                  const c10::TensorImpl& impl) noexcept {
  TensorFacts facts;
  read_kind(impl, facts);
  const c10::IntArrayRef sizes = impl.sizes();
  facts.dims = sizes.data();
  facts.ndim = static_cast<std::uint8_t>(sizes.size() < 255 ? sizes.size() : 255);
  facts.storage = storage_of(capture, state, impl);
  identify(capture, state, impl, facts);
  return facts;
}

// `impl` must outlive the facts.
inline TensorFacts facts_of(CaptureState& capture, ThreadState& state, const c10::TensorImpl& impl) noexcept {
  if (is_plain(impl)) return plain_facts_of(capture, state, impl);
  TensorFacts facts;
  read_kind(impl, facts);
  facts.flags |= format::kTensorNoSizes;
  if (!impl.key_set().has(c10::DispatchKey::Python)) facts.storage = storage_of(capture, state, impl);
  identify(capture, state, impl, facts);
  return facts;
}

inline TensorFacts facts_of(CaptureState& capture, ThreadState& state,
                            const at::TensorBase& tensor) noexcept {
  if (__builtin_expect(tensor.defined(), 1)) return facts_of(capture, state, *tensor.unsafeGetTensorImpl());
  TensorFacts facts;
  facts.flags = format::kTensorUndefined;
  return facts;
}

}  // namespace tensortap::probe
