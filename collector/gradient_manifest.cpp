#include "collector/gradient_manifest.h"

#include <boost/json/parse.hpp>
#include <string>

#include "collector/json_fields.h"
#include "collector/line_gate.h"
#include "format/health/gradient_contract.h"

namespace tensortap::collector {

namespace {

constexpr std::string_view kGradientLine = R"({"kind":"gradient",)";
// Every parameter has one rule: nobody said which of them must have a gradient.
constexpr const char* kFamily = "parameters";

std::string text_of(const boost::json::object& object, std::string_view name) {
  const boost::json::value* value = object.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : std::string();
}

}  // namespace

void GradientManifest::take(std::string_view lines) {
  if (lines.find(kGradientLine) == std::string_view::npos) return;
  for_each_line(lines, [&](std::string_view line) {
    if (usable_ && line.substr(0, kGradientLine.size()) == kGradientLine) take_line(line);
  });
}

void GradientManifest::take_line(std::string_view line) {
  const auto record = parse_object(line);
  const boost::json::object* ext = record ? find_object(*record, "ext") : nullptr;
  if (ext == nullptr || text_of(*ext, "source") != "probe" || entries_.size() == kMaxEntries) {
    usable_ = false;
    entries_.clear();
    return;
  }
  entries_.push_back({text_of(*record, "root"), text_of(*record, "key"), kFamily});
}

std::optional<format::GradientContract> GradientManifest::contract() const {
  if (!usable_ || entries_.empty()) return std::nullopt;
  format::GradientContract contract;
  contract.expected = entries_;
  contract.families.push_back({kFamily, format::Expectation::kDataConditional, 1});
  contract.manifest_sha256 = format::gradient_manifest_digest(contract.expected);
  if (format::gradient_contract_fault(contract)) return std::nullopt;  // a parameter that came twice
  return contract;
}

}  // namespace tensortap::collector
