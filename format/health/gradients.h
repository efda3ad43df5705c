// Gradient records by themselves and against the capture's contract (internal to format/health; §3.3).
//
//   GradientChecks gradients;
//   gradients.add(gradient, place);
//   gradients.report(issues, contract, meta_place);
//
// Memory: pages; ids without a number at their end stay in memory. Thread rules: one thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "format/event.h"
#include "format/health/issue_list.h"
#include "format/paging/id_index.h"
#include "format/paging/paged_array.h"

namespace tensortap::format {

class GradientChecks {
 public:
  void add(const Gradient& gradient, const Place& place);

  // `contract`: null when there is no meta; then the records alone are judged.
  void report(IssueList& issues, const CaptureContract* contract, const Place& meta_place) const;

 private:
  // One (root, key).
  struct Key {
    Place first, second;
    std::uint64_t records = 0;
    GradientState first_state = GradientState::kMissing;
  };
  struct Finding {
    Place place;
    std::uint32_t key = 0, event = 0;
    GradientState state = GradientState::kMissing;
    bool blank_event = false, blank_key = false, repeated_event = false, odd_norm = false;
  };
  struct Family {
    std::uint64_t members = 0, recorded = 0, present = 0;
    std::optional<Place> non_finite, leak;
  };

  static std::string id_of(std::uint32_t root, std::string_view key);
  std::uint32_t find(const GradientContract::Entry& entry) const;
  std::string root_text(std::uint32_t key) const;
  std::string key_text(std::uint32_t key) const;
  std::string named(std::uint32_t key) const;

  void report_records(IssueList& issues) const;
  void report_keys(IssueList& issues, const GradientContract& contract) const;
  void report_missing(IssueList& issues, const GradientContract& contract, const Place& meta_place) const;
  void report_family(IssueList& issues, const GradientContract::Family& rule, const Family& family,
                     const Place& meta_place) const;

  IdIndex events_, roots_{0}, ids_;  // ids_: "<number of the root>/<key>"
  PagedArray<Key> keys_;             // by the number in ids_
  PagedArray<Finding> findings_;
};

}  // namespace tensortap::format
