// Statistics of the tensors that asked-for modules return (TENSORTAP_STATS: patterns of module paths,
// separated by commas, `*` and `?` as in a shell), and of the masks that attention modules among them are
// given. Reading values costs: nothing is read that was not asked for. Tensors that are not in contiguous
// host memory are counted (values_not_recorded) and left out.
//
//   if (stats_configured() && stats_wanted("encoder.layers.0")) note_stats("encoder.layers.0", impl);
#pragma once

#include <string_view>

namespace tensortap::probe {

// Reads the environment. Once, before the capture.
void stats_configure() noexcept;
bool stats_configured() noexcept;
bool stats_wanted(const char* path) noexcept;
// Not inside a Callback. `impl`: a TensorImpl that is alive during the call.
void note_stats(std::string_view label, const void* impl) noexcept;
// The same of an attention mask that such a module was given, with what it blocks (mask_summary.h).
void note_mask(std::string_view label, const void* impl) noexcept;

}  // namespace tensortap::probe
