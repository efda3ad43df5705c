// The path to the disk: tells what a line is by its kind alone. The full walk is the analyzers' business.
//
//   LineGate gate;
//   switch (gate.classify(line)) { case LineKind::kRecord: … }
//
// Thread rules: one gate per owner, one thread at a time.
#pragma once

#include <cstdint>
#include <string_view>

#include "format/line_reader.h"

namespace tensortap::collector {

enum class LineKind : std::uint8_t {
  kBlank,
  kMeta,
  kRecord,  // any other record of trace/10 but the terminal
  kTerminal,
  kHello,
  kBatch,
  kNote,  // what a probe's job says of its run: for the meta line
  kControl,
  kState,   // of a probe: what it does
  kCounts,  // of a probe: always-on
  kBad,     // no JSON object, or a kind that nobody knows
};

class LineGate {
 public:
  LineKind classify(std::string_view line);

 private:
  format::KindReader reader_;
};

// Calls `use(line)` for each line of `text`, without its LF. `text` ends with LF.
template <class Use>
void for_each_line(std::string_view text, Use&& use) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    use(text.substr(0, end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

}  // namespace tensortap::collector
