// Collects issues in report order (internal to format/health): of each code only so many are kept with their
// message, all are counted.
//
//   IssueList issues(10000, failed);
//   issues.error("open_span", place, [&] { return "span " + in_quotes(id) + " never ended"; });
//
// Thread rules: plain values.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "format/health/health.h"

namespace tensortap::format {

class IssueList {
 public:
  // `failed`: the capture failed, which lowers some errors to warnings (§3.5).
  IssueList(std::size_t most_per_code, bool failed) : most_(most_per_code), failed_(failed) {}

  bool failed() const { return failed_; }

  // `message` is called only when the issue is kept. `code` is a constant.
  template <class Message>
  void error(std::string_view code, std::optional<Place> place, Message message) {
    add(Severity::kError, code, place, message);
  }
  template <class Message>
  void warning(std::string_view code, std::optional<Place> place, Message message) {
    add(Severity::kWarning, code, place, message);
  }
  // An error, or a warning when the capture failed.
  template <class Message>
  void error_unless_failed(std::string_view code, std::optional<Place> place, Message message) {
    add(failed_ ? Severity::kWarning : Severity::kError, code, place, message);
  }

  Health take() && { return std::move(health_); }

 private:
  template <class Message>
  void add(Severity severity, std::string_view code, const std::optional<Place>& place, Message& message) {
    HealthTotal& total = total_of(code);
    ++(severity == Severity::kError ? total.errors : total.warnings);
    ++(severity == Severity::kError ? health_.errors : health_.warnings);
    if (place && (!total.first || place->index < total.first->index)) total.first = place;
    if (total.listed >= most_) return;
    ++total.listed;
    health_.issues.push_back({severity, code, message(), place});
  }

  HealthTotal& total_of(std::string_view code) {
    for (HealthTotal& total : health_.totals) {
      if (total.code.data() == code.data() || total.code == code) return total;
    }
    HealthTotal total;
    total.code = code;
    return health_.totals.emplace_back(total);
  }

  std::size_t most_;
  bool failed_;
  Health health_;
};

}  // namespace tensortap::format
