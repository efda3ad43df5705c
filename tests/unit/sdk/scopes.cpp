// tensortap.hpp in C++11, without exceptions and RTTI.
#include <cstdio>
#include <type_traits>
#include <utility>

#include "tensortap.hpp"

static_assert(std::is_nothrow_move_constructible<tensortap::Range>::value, "");
static_assert(std::is_nothrow_move_assignable<tensortap::Range>::value, "");
static_assert(!std::is_copy_constructible<tensortap::Range>::value, "it would end twice");
static_assert(!std::is_move_constructible<tensortap::Step>::value, "a step is one thread's");

// What looks like at::Tensor.
struct Tensor {
  const void* unsafeGetTensorImpl() const noexcept { return this; }
};

int main() {
  tensortap::Range outer("outer");
  {
    tensortap::Step step;
    tensortap::MeasuredRegion region("region");
    tensortap::Range moved(std::move(outer));
    moved = tensortap::Range("second");  // ends the first
    std::printf("in scope\n");
  }
  tensortap::Step numbered(7);
  const Tensor tensor;
  std::printf("%d%d%d%d%d\n", tensortap::label(tensor, "x"), tensortap::stats(tensor, "x"),
              tensortap::gradient("model", "w", tensor), tensortap::scalar(0.5, "loss"),
              tensortap::tag("key", "value"));
  return 0;
}
