#include "probe/core/sdk.h"

#include <string_view>

#include "probe/core/capture_state.h"
#include "probe/core/evidence.h"
#include "probe/core/notes.h"
#include "probe/core/steps.h"

namespace tensortap::probe {

using namespace format;

namespace {

constexpr std::string_view kSource = "sdk";
constexpr std::uint8_t kUserScope = 7;  // at::RecordScope::USER_SCOPE

TensorAccess g_access;

// Counts the ranges of this thread: with the thread and the capture it is a range's name.
__attribute__((tls_model("initial-exec"))) thread_local std::uint32_t t_ranges = 0;

// A range's token is odd, so that no address of an object is equal to it: it stands in Frame::key.
std::uint64_t token_of(const ThreadState& state, std::uint32_t range) noexcept {
  return std::uint64_t{state.generation & 0xFFFu} << 52 | std::uint64_t{state.thread & 0xFFFFFu} << 32 |
         std::uint64_t{range} << 1 | 1;
}
constexpr std::uint64_t kCaptureBits = 0xFFFull << 52;
constexpr std::uint64_t kThreadBits = 0xFFFFFull << 32;

const void* key_of(std::uint64_t token) noexcept { return reinterpret_cast<const void*>(token); }

// Ranges of this thread that ended on another one.
void reap(CaptureState& capture, ThreadState& state) noexcept {
  while (capture.orphans.waiting.load(std::memory_order_acquire) != 0) {
    Frame* top = state.top();
    if (top == nullptr || top->type != FrameType::kRange) return;
    const std::uint64_t ended = capture.orphans.take(top->key);
    if (ended == 0) return;
    end_frame(state, *top, ended > top->start_ns ? ended : top->start_ns);
  }
}

std::uint64_t range_begin(const char* name, std::size_t length, std::uint32_t flags) noexcept {
  Callback callback;
  if (!callback) return 0;
  ThreadState& state = callback.state();
  CaptureState& capture = callback.capture();
  reap(capture, state);
  const std::string_view text = std::string_view(name, length).substr(0, kMaxEvidenceText);
  if (text.empty()) return 0;
  const std::uint64_t token = token_of(state, ++t_ranges & 0x7FFFFFFFu);
  const std::uint64_t now = callback.state().now();
  Frame* frame = push_frame(state, FrameType::kRange, key_of(token), now);
  if (frame == nullptr) {
    --state.overflow;  // its end will not come: the token is 0
    return 0;
  }
  frame->name = capture.strings.find_or_add(text, StringInterner::Share::kThreeQuarters);
  frame->scope = kUserScope;
  if (flags & TENSORTAP_MEASURED_REGION) frame->span_flags |= kSpanMeasuredRegion;
  store_frame(state, state.depth - 1, now, text);
  return token;
}

void range_end(std::uint64_t token) noexcept {
  Callback callback;
  if (!callback) return;
  ThreadState& state = callback.state();
  CaptureState& capture = callback.capture();
  const std::uint64_t own = token_of(state, 0);
  if ((token & kCaptureBits) != (own & kCaptureBits)) return;  // of a capture that is over
  const std::uint64_t now = callback.state().now();
  if ((token & kThreadBits) == (own & kThreadBits)) {
    if (Frame* frame = find_frame(state, key_of(token))) end_frame(state, *frame, now);
    reap(capture, state);
  } else if (!capture.orphans.put(key_of(token), now)) {
    capture.memory.count(Counter::kOrphanEnds);
  }
}

void steps_by_job() noexcept { steps_are_by_job(); }

int step_begin(std::uint64_t number) noexcept {
  Callback callback;
  if (!callback) {
    step_passes_by_job(number);
    return 0;
  }
  ThreadState& state = callback.state();
  reap(callback.capture(), state);
  return step_begins_by_job(callback.capture(), state, number, callback.state().now()) ? 1 : 0;
}

void step_end() noexcept {
  Callback callback;
  if (!callback) return;
  reap(callback.capture(), callback.state());
  step_ends_by_job(callback.capture(), callback.state(), callback.state().now());
}

int label(const void* impl, const char* name, std::size_t length, std::uint32_t category) noexcept {
  if (g_access.facts == nullptr || category > static_cast<std::uint32_t>(CategoryCode::kOther)) return 0;
  Callback callback;
  TensorFacts facts;
  if (!callback || !g_access.facts(callback.capture(), impl, facts)) return 0;
  return write_tensor(callback.capture(), callback.state(), {name, length}, facts,
                      static_cast<CategoryCode>(category), kSource);
}

int stats_tensor(const void* impl, const char* name, std::size_t length) noexcept {
  HostElements elements;
  Reductions values;
  if (g_access.facts == nullptr || !g_access.elements(impl, elements) ||
      !reduce_values(elements.data, elements.dtype, elements.count, values)) {
    return TENSORTAP_NOT_HOST;
  }
  Callback callback;
  TensorFacts facts;
  if (!callback || !g_access.facts(callback.capture(), impl, facts)) return 0;
  return write_tensor_stats(callback.capture(), callback.state(), {name, length}, facts, values, kSource);
}

// A shape of the job's own. False: it is none, or too long to count.
bool host_facts(std::uint32_t dtype, const std::int64_t* shape, std::uint32_t ndim, TensorFacts& facts,
                std::uint64_t& count) noexcept {
  count = 1;
  if (ndim > kMaxEvidenceDims || dtype > 0xFF || (ndim != 0 && shape == nullptr)) return false;
  for (std::uint32_t i = 0; i < ndim; ++i) {
    if (shape[i] < 0 || __builtin_mul_overflow(count, static_cast<std::uint64_t>(shape[i]), &count))
      return false;
  }
  facts.dims = shape;
  facts.ndim = static_cast<std::uint8_t>(ndim);
  facts.dtype = static_cast<std::uint8_t>(dtype);
  return true;
}

int stats(const char* name, std::size_t length, const void* data, std::uint32_t dtype,
          const std::int64_t* shape, std::uint32_t ndim) noexcept {
  TensorFacts facts;
  Reductions values;
  std::uint64_t count = 0;
  if (!host_facts(dtype, shape, ndim, facts, count) || (data == nullptr && count != 0)) return 0;
  if (!reduce_values(data, facts.dtype, count, values)) return 0;
  Callback callback;
  return callback &&
         write_tensor_stats(callback.capture(), callback.state(), {name, length}, facts, values, kSource);
}

int stats_values(const char* name, std::size_t length, const TensortapStats* given) noexcept {
  TensorFacts facts;
  std::uint64_t count = 0;
  if (given->size < sizeof *given) return 0;
  if (!host_facts(given->dtype, given->shape, given->ndim, facts, count)) return 0;
  Reductions values;
  values.non_finite = given->non_finite;
  values.rms = given->rms;
  values.abs_max = given->abs_max;
  values.mean = given->mean;
  Callback callback;
  return callback &&
         write_tensor_stats(callback.capture(), callback.state(), {name, length}, facts, values, kSource);
}

int put_gradient(std::string_view root, std::string_view key, GradientCode state, double norm) noexcept {
  Callback callback;
  return callback && write_gradient(callback.capture(), callback.state(), root, key, state, norm, kSource);
}

int gradient(const char* root, std::size_t root_length, const char* key, std::size_t key_length,
             std::uint32_t state, double norm) noexcept {
  if (state > static_cast<std::uint32_t>(GradientCode::kNonFinite)) return 0;
  auto code = static_cast<GradientCode>(state);
  if (code == GradientCode::kPresent) code = gradient_state(norm);
  return put_gradient({root, root_length}, {key, key_length}, code, norm);
}

int gradient_data(const char* root, std::size_t root_length, const char* key, std::size_t key_length,
                  const void* data, std::uint32_t dtype, std::uint64_t count) noexcept {
  Reductions values;
  if (dtype > 0xFF || (data == nullptr && count != 0)) return 0;
  if (!reduce_values(data, static_cast<std::uint8_t>(dtype), count, values)) return 0;
  return put_gradient({root, root_length}, {key, key_length}, gradient_state(values.norm), values.norm);
}

int gradient_tensor(const char* root, std::size_t root_length, const char* key, std::size_t key_length,
                    const void* impl) noexcept {
  if (g_access.elements == nullptr) return 0;
  HostElements elements;
  Reductions values;
  const bool defined = impl != nullptr && g_access.elements(impl, elements);
  if (!defined) {
    // Undefined, or somewhere else?
    Callback callback;
    TensorFacts facts;
    if (!callback) return 0;
    if (impl != nullptr && g_access.facts(callback.capture(), impl, facts)) return TENSORTAP_NOT_HOST;
    return write_gradient(callback.capture(), callback.state(), {root, root_length}, {key, key_length},
                          GradientCode::kMissing, 0, kSource);
  }
  if (!reduce_values(elements.data, elements.dtype, elements.count, values)) return TENSORTAP_NOT_HOST;
  return put_gradient({root, root_length}, {key, key_length}, gradient_state(values.norm), values.norm);
}

int tag(const char* key, std::size_t key_length, const char* value, std::size_t value_length) noexcept {
  return note_tag({key, key_length}, {value, value_length});
}

int identity(const TensortapIdentity* given) noexcept { return note_identity(*given); }

static_assert(sizeof g_capturing == 1 && sizeof g_window_ns == 8, "the SDK's header reads them as they are");

const TensortapSdk kTable = {
    sizeof(TensortapSdk),
    TENSORTAP_SDK_VERSION,
    reinterpret_cast<const unsigned char*>(&g_capturing),
    reinterpret_cast<const std::uint64_t*>(&g_window_ns),
    range_begin,
    range_end,
    steps_by_job,
    step_begin,
    step_end,
    label,
    stats_tensor,
    stats,
    stats_values,
    gradient,
    gradient_tensor,
    gradient_data,
    tag,
    identity,
};

}  // namespace

void set_tensor_access(const TensorAccess& access) noexcept { g_access = access; }
const TensorAccess& tensor_access() noexcept { return g_access; }

const TensortapSdk* sdk_table() noexcept { return &kTable; }

}  // namespace tensortap::probe
