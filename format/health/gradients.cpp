#include "format/health/gradients.h"

#include <cmath>
#include <unordered_map>

#include "format/event_names.h"
#include "format/health/gradient_contract.h"
#include "format/paging/sorter.h"
#include "format/text.h"

namespace tensortap::format {
namespace {

// §2.10: what `norm` may be in each state.
bool norm_fits(GradientState state, const std::optional<double>& norm) {
  switch (state) {
    case GradientState::kPresent:
      return norm && std::isfinite(*norm) && *norm > 0;
    case GradientState::kZero:
      return norm && *norm == 0 && !std::signbit(*norm);
    default:
      return !norm;
  }
}

}  // namespace

std::string GradientChecks::id_of(std::uint32_t root, std::string_view key) {
  return std::to_string(root) + '/' + std::string(key);
}

std::uint32_t GradientChecks::find(const GradientContract::Entry& entry) const {
  const std::uint32_t root = roots_.find(entry.root);
  return root == IdIndex::kNone ? IdIndex::kNone : ids_.find(id_of(root, entry.key));
}

std::string GradientChecks::root_text(std::uint32_t key) const {
  return roots_.text(static_cast<std::uint32_t>(std::stoul(ids_.text(key))));
}

std::string GradientChecks::key_text(std::uint32_t key) const {
  const std::string id = ids_.text(key);
  return id.substr(id.find('/') + 1);
}

std::string GradientChecks::named(std::uint32_t key) const {
  return "gradient " + in_quotes(root_text(key)) + ", " + in_quotes(key_text(key));
}

void GradientChecks::add(const Gradient& gradient, const Place& place) {
  bool is_new = false;
  Finding finding;
  finding.place = place;
  finding.state = gradient.state;
  finding.event = events_.add(gradient.event_id, &is_new);
  finding.repeated_event = !is_new;
  finding.blank_event = is_blank(gradient.event_id);
  finding.blank_key = is_blank(gradient.root) || is_blank(gradient.key);
  finding.odd_norm = !norm_fits(gradient.state, gradient.norm);
  finding.key = ids_.add(id_of(roots_.add(gradient.root), gradient.key), &is_new);
  if (is_new) keys_.push_back({place, {}, 0, gradient.state});
  Key& key = keys_.edit(finding.key);
  if (++key.records == 2) key.second = place;
  if (finding.repeated_event || finding.blank_event || finding.blank_key || finding.odd_norm) {
    findings_.push_back(finding);
  }
}

void GradientChecks::report_records(IssueList& issues) const {
  findings_.for_each([&](const Finding& finding) {
    if (finding.blank_event) {
      issues.error("empty_gradient_event_id", finding.place,
                   [] { return "the gradient record's event_id is blank"; });
    }
    if (finding.blank_key) {
      issues.error("empty_gradient_parameter_key", finding.place,
                   [&] { return named(finding.key) + ": root and key must not be blank"; });
    }
    if (finding.repeated_event) {
      issues.error("duplicate_gradient_event_id", finding.place,
                   [&] { return "event_id " + in_quotes(events_.text(finding.event)) + " was used before"; });
    }
    if (finding.odd_norm) {
      issues.error("gradient_state_norm_inconsistent", finding.place, [&] {
        static constexpr std::string_view kWanted[] = {"needs a finite norm above 0", "may have no norm",
                                                       "needs the norm 0.0", "may have no norm"};
        return named(finding.key) + ": the state " + std::string(enum_name(finding.state)) + ' ' +
               std::string(kWanted[static_cast<std::size_t>(finding.state)]);
      });
    }
  });
}

void GradientChecks::report_keys(IssueList& issues, const GradientContract& contract) const {
  std::vector<bool> declared(keys_.size());
  for (const GradientContract::Entry& entry : contract.expected) {
    if (const std::uint32_t key = find(entry); key != IdIndex::kNone) declared[key] = true;
  }
  const auto less = [this](std::uint32_t a, std::uint32_t b) {
    const int by_root = root_text(a).compare(root_text(b));
    return by_root != 0 ? by_root < 0 : key_text(a) < key_text(b);
  };
  Sorter<std::uint32_t, decltype(less)> offenders(less);
  for (std::uint32_t key = 0; key < keys_.size(); ++key) {
    if (!declared[key] || keys_[key].records > 1) offenders.add(key);
  }
  offenders.for_each([&](std::uint32_t key) {
    const Key row = keys_[key];
    if (row.records > 1) {
      issues.error("gradient_manifest_duplicate_key", row.second,
                   [&] { return named(key) + " has " + std::to_string(row.records) + " records"; });
    }
    if (!declared[key]) {
      issues.error("gradient_manifest_undeclared_key", row.first,
                   [&] { return named(key) + " is not in the contract's manifest"; });
    }
  });
}

void GradientChecks::report_missing(IssueList& issues, const GradientContract& contract,
                                    const Place& meta_place) const {
  for (const GradientContract::Entry& entry : contract.expected) {
    if (find(entry) != IdIndex::kNone) continue;
    issues.error_unless_failed("gradient_manifest_missing_key", meta_place, [&] {
      return "gradient " + in_quotes(entry.root) + ", " + in_quotes(entry.key) +
             " of the contract's manifest has no record";
    });
  }
}

void GradientChecks::report_family(IssueList& issues, const GradientContract::Family& rule,
                                   const Family& family, const Place& meta_place) const {
  const auto named = [&] { return "gradient family " + in_quotes(rule.family); };
  if (family.non_finite) {
    issues.error("gradient_family_non_finite", family.non_finite,
                 [&] { return named() + " has a gradient that is not finite"; });
  }
  // While members may be missing because the capture failed, there is no minimum.
  const bool counts = !issues.failed() || family.recorded == family.members;
  const bool below = counts && family.present < rule.min_present;
  const auto numbers = [&] {
    return named() + ": " + std::to_string(family.present) + " of " + std::to_string(family.members) +
           " gradients are present, at least " + std::to_string(rule.min_present) + " must be";
  };
  switch (rule.expectation) {
    case Expectation::kActive:
      if (below) issues.error("gradient_active_family_below_minimum", meta_place, numbers);
      return;
    case Expectation::kInactive:
      if (family.leak) {
        issues.error("gradient_inactive_family_leakage", family.leak,
                     [&] { return named() + " is inactive and has a gradient"; });
      }
      return;
    case Expectation::kDataConditional:
      if (below && family.present != 0) {
        issues.error("gradient_conditional_family_below_minimum", meta_place, numbers);
      }
      return;
  }
}

void GradientChecks::report(IssueList& issues, const CaptureContract* contract,
                            const Place& meta_place) const {
  report_records(issues);
  if (contract == nullptr) return;
  const bool complete = contract->gradients == Coverage::kComplete;
  if (complete && !contract->gradient_contract) {
    return issues.error("gradient_contract_missing", meta_place,
                        [] { return "gradients are claimed complete without a gradient contract"; });
  }
  if (!contract->gradient_contract) return;
  if (!complete) {
    return issues.error("gradient_contract_without_complete_coverage", meta_place, [] {
      return "there is a gradient contract, and gradients are not claimed complete";
    });
  }
  const GradientContract& gradients = *contract->gradient_contract;
  if (const auto fault = gradient_contract_fault(gradients)) {
    return issues.error("gradient_contract_invalid", meta_place,
                        [&] { return "the gradient contract is not valid: " + *fault; });
  }
  report_keys(issues, gradients);
  report_missing(issues, gradients, meta_place);

  std::unordered_map<std::string_view, Family> families;
  for (const GradientContract::Entry& entry : gradients.expected) {
    Family& family = families[entry.family];
    ++family.members;
    const std::uint32_t key = find(entry);
    if (key == IdIndex::kNone) continue;
    const Key row = keys_[key];
    ++family.recorded;
    if (row.first_state == GradientState::kPresent) ++family.present;
    if (row.first_state == GradientState::kNonFinite && !family.non_finite) family.non_finite = row.first;
    if (row.first_state != GradientState::kMissing && !family.leak) family.leak = row.first;
  }
  for (const GradientContract::Family& rule : gradients.families) {
    report_family(issues, rule, families[rule.family], meta_place);
  }
}

}  // namespace tensortap::format
