// tensortap.h for C++: ranges, steps and measured regions that end with their scope, and names for torch's
// tensors.
//
//   tensortap::Range range("tokenize");
//   for (auto& batch : loader) {
//     tensortap::Step step;
//     …
//     tensortap::label(logits, "logits");
//     tensortap::stats(logits, "logits");
//   }
//
// Nothing throws, nothing is linked, no torch header is needed: a tensor is anything that looks like
// at::Tensor. Without a probe every call returns at once. C++11, also without exceptions and RTTI.
#ifndef TENSORTAP_HPP
#define TENSORTAP_HPP

#include "tensortap.h"

namespace tensortap {

inline bool is_capturing() noexcept { return tensortap_is_capturing() != 0; }

// A range of this thread, until its end. It may be moved, also to another thread; `end` ends it early.
class Range {
 public:
  Range() noexcept : range_(0) {}
  explicit Range(const char* name) noexcept : range_(tensortap_range_begin(name)) {}
  ~Range() { end(); }
  Range(Range&& other) noexcept : range_(other.range_) { other.range_ = 0; }
  Range& operator=(Range&& other) noexcept {
    if (this != &other) {
      end();
      range_ = other.range_;
      other.range_ = 0;
    }
    return *this;
  }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

  void end() noexcept {
    tensortap_range_end(range_);
    range_ = 0;
  }

 protected:
  explicit Range(uint64_t range) noexcept : range_(range) {}

 private:
  uint64_t range_;
};

// A range whose figures are asked for.
class MeasuredRegion : public Range {
 public:
  explicit MeasuredRegion(const char* name) noexcept : Range(tensortap_measured_begin(name)) {}
};

// A step of the job. Steps are one thread's: it can't be moved.
class Step {
 public:
  Step() noexcept : begun_(tensortap_step_begin() != 0) {}
  explicit Step(uint64_t number) noexcept : begun_(tensortap_step_begin_numbered(number) != 0) {}
  ~Step() {
    if (begun_) tensortap_step_end();
  }
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

 private:
  const bool begun_;
};

// Names a tensor: an at::Tensor or what has its unsafeGetTensorImpl().
template <class Tensor>
inline bool label(const Tensor& tensor, const char* name,
                  TensortapCategory category = TENSORTAP_ACTIVATION) noexcept {
  return is_capturing() && tensortap_label(tensor.unsafeGetTensorImpl(), name, category) > 0;
}

// Statistics of a tensor whose elements are plain dense host memory; false for any other (copy it first,
// `stats(t.cpu().contiguous(), …)`: the operators of that are in the trace, and the job pays for them).
template <class Tensor>
inline bool stats(const Tensor& tensor, const char* name) noexcept {
  return is_capturing() && tensortap_stats_tensor(tensor.unsafeGetTensorImpl(), name) > 0;
}
inline bool scalar(double value, const char* name) noexcept { return tensortap_scalar(name, value) > 0; }

// The gradient of one parameter, which may be undefined; false when its elements are no plain contiguous host
// memory.
//   tensortap::gradient("model", "head.weight", head->weight.grad());
template <class Tensor>
inline bool gradient(const char* root, const char* key, const Tensor& grad) noexcept {
  return is_capturing() && tensortap_gradient_tensor(root, key, grad.unsafeGetTensorImpl()) > 0;
}

inline bool tag(const char* key, const char* value) noexcept { return tensortap_tag(key, value) > 0; }

}  // namespace tensortap

#endif
