// A run's stored meta line, changed: read as the typed record, written again.
//
//   Result<std::string> line = changed_meta_line(stored, [&](format::Meta& meta) { meta.tags["commit"] =
//   "39db95d"; });
//
// Errors: the reader's own; kMalformed when the line is another record. Thread rules: pure.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "format/event.h"
#include "format/result.h"

namespace tensortap::collector {

format::Result<std::string> changed_meta_line(std::string_view line,
                                              const std::function<void(format::Meta&)>& change);

}  // namespace tensortap::collector
