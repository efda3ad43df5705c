// Words for the codes that reports show: structural problems, diagnostics of the probe and the daemon, causes
// of loss.
#pragma once

#include <string_view>

namespace tensortap::analyzers {

struct Explanation {
  std::string_view text;
  // Diagnostics: a plain number about the run, nothing that was missed. Issues: no fault of the trace, or
  // said in another part of the report.
  bool is_fact = false;
};

Explanation explain_issue(std::string_view code);
Explanation explain_diagnostic(std::string_view code);
std::string_view explain_drop(std::string_view cause);

}  // namespace tensortap::analyzers
