// The gradients that a run's probe wrote, and from them the gradient contract of its meta line (specification
// §2.3). The probe looks at every parameter of the root modules in every captured step, so what it wrote is
// the manifest, as long as it counted nothing that it left out; whoever settles the coverage checks that.
//
//   GradientManifest manifest;
//   manifest.take(lines);                        // whole lines, as they are stored
//   if (auto contract = manifest.contract()) …
//
// Thread rules: one thread at a time. Memory: the names of at most kMaxEntries gradients.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "format/event.h"

namespace tensortap::collector {

class GradientManifest {
 public:
  static constexpr std::size_t kMaxEntries = 5000;  // more would make a meta line of megabytes

  void take(std::string_view lines);
  // Nothing when there is none, when there are too many, when some came from elsewhere (SDK), or when a
  // parameter comes twice.
  std::optional<format::GradientContract> contract() const;
  void clear() { *this = GradientManifest(); }

 private:
  void take_line(std::string_view line);

  std::vector<format::GradientContract::Entry> entries_;
  bool usable_ = true;
};

}  // namespace tensortap::collector
