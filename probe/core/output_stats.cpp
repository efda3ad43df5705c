#include "probe/core/output_stats.h"

#include <fnmatch.h>

#include <cstdlib>
#include <cstring>

#include "probe/core/capture_state.h"
#include "probe/core/evidence.h"
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

void note_stats(std::string_view label, const void* impl) noexcept {
  const TensorAccess& access = tensor_access();
  HostElements elements;
  Reductions values;
  const bool readable = access.elements != nullptr && access.elements(impl, elements) &&
                        reduce_values(elements.data, elements.dtype, elements.count, values);
  Callback callback;
  if (!callback) return;
  TensorFacts facts;
  if (!readable || g_tensor_facts == nullptr || !g_tensor_facts(callback.capture(), impl, facts)) {
    callback.capture().memory.count(Counter::kValuesNotRecorded);
    return;
  }
  write_tensor_stats(callback.capture(), callback.state(), label, facts, values, "module_output");
}

}  // namespace tensortap::probe
