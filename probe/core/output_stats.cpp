#include "probe/core/output_stats.h"

#include <fnmatch.h>

#include <cstdlib>
#include <cstring>

#include "probe/core/capture_state.h"
#include "probe/core/evidence.h"
#include "probe/core/mask_summary.h"
#include "probe/core/sdk.h"
#include "probe/core/tensor_reader.h"

namespace tensortap::probe {

using namespace format;

namespace {

constexpr std::size_t kMaxPatterns = 4096;  // bytes
char g_patterns[kMaxPatterns + 1];          // each ended by a zero, the last one by two

}  // namespace

void stats_configure() noexcept {
  const char* value = std::getenv("TENSORTAP_STATS");
  if (value == nullptr || std::strlen(value) >= kMaxPatterns) return;
  std::strcpy(g_patterns, value);
  g_patterns[std::strlen(value) + 1] = '\0';
  for (char* at = g_patterns; *at != '\0'; ++at) {
    if (*at == ',') *at = '\0';
  }
}

bool stats_configured() noexcept { return g_patterns[0] != '\0'; }

bool stats_wanted(const char* path) noexcept {
  for (const char* pattern = g_patterns; *pattern != '\0'; pattern += std::strlen(pattern) + 1) {
    if (fnmatch(pattern, path, 0) == 0) return true;
  }
  return false;
}

namespace {

struct Values {
  HostElements elements;
  Reductions reductions;
};

bool read_values(const void* impl, Values& found) noexcept {
  const TensorAccess& access = tensor_access();
  return access.elements != nullptr && access.elements(impl, found.elements) &&
         reduce_values(found.elements.data, found.elements.dtype, found.elements.count, found.reductions);
}

// A matrix, or some; what has less dimensions is a row.
bool mask_shape(const TensorFacts& facts, std::uint64_t elements, MaskShape& shape) noexcept {
  const std::int64_t columns = facts.ndim == 0 ? 1 : facts.dims[facts.ndim - 1];
  const std::int64_t rows = facts.ndim < 2 ? 1 : facts.dims[facts.ndim - 2];
  shape = {0, static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(columns)};
  if (rows > 0 && columns > 0) shape.slices = elements / (shape.rows * shape.columns);
  return (facts.flags & kTensorNoSizes) == 0;
}

}  // namespace

void note_stats(std::string_view label, const void* impl) noexcept {
  Values values;
  const bool readable = read_values(impl, values);
  Callback callback;
  if (!callback) return;
  TensorFacts facts;
  if (!readable || g_tensor_facts == nullptr || !g_tensor_facts(callback.capture(), impl, facts)) {
    callback.capture().memory.count(Counter::kValuesNotRecorded);
    return;
  }
  write_tensor_stats(callback.capture(), callback.state(), label, facts, values.reductions, "module_output");
}

void note_mask(std::string_view label, const void* impl) noexcept {
  Values values;
  const bool readable = read_values(impl, values) && values.elements.in_order;
  Callback callback;
  if (!callback) return;
  TensorFacts facts;
  MaskShape shape;
  MaskSummary mask;
  if (!readable || g_tensor_facts == nullptr || !g_tensor_facts(callback.capture(), impl, facts) ||
      !mask_shape(facts, values.elements.count, shape) ||
      !summarize_mask(values.elements.data, values.elements.dtype, shape, mask)) {
    callback.capture().memory.count(Counter::kValuesNotRecorded);
    return;
  }
  write_tensor_stats(callback.capture(), callback.state(), label, facts, values.reductions, "mask", &mask);
}

}  // namespace tensortap::probe
