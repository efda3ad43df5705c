#include "probe/core/capture_plan.h"

#include <cstdlib>
#include <cstring>
#include <limits>

namespace tensortap::probe {

namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

bool take_prefix(std::string_view& text, std::string_view prefix) noexcept {
  if (text.substr(0, prefix.size()) != prefix) return false;
  text.remove_prefix(prefix.size());
  return true;
}

bool take_number(std::string_view& text, std::uint64_t& number) noexcept {
  std::size_t digits = 0;
  number = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') {
    const auto digit = static_cast<std::uint64_t>(text[digits] - '0');
    if (number > (kMax - digit) / 10) return false;
    number = number * 10 + digit;
    ++digits;
  }
  text.remove_prefix(digits);
  return digits != 0;
}

// `10:15`, `10:` or `10`.
bool parse_steps(std::string_view text, CapturePlan& plan) noexcept {
  plan.begin = CapturePlan::Begin::kStep;
  if (!take_number(text, plan.first_step)) return false;
  plan.steps = 1;
  if (text.empty()) return true;
  if (!take_prefix(text, ":")) return false;
  plan.steps = 0;
  if (text.empty()) return true;
  std::uint64_t last = 0;
  if (!take_number(text, last) || !text.empty() || last < plan.first_step || last == kMax) return false;
  plan.steps = last - plan.first_step + 1;
  return true;
}

bool parse_duration(std::string_view text, CapturePlan& plan) noexcept {
  struct Unit {
    std::string_view name;
    std::uint64_t ns;
  };
  static constexpr Unit kUnits[] = {{"ns", 1},          {"us", 1000},          {"ms", 1000000},
                                    {"s", 1000000000u}, {"m", 60000000000ull}, {"h", 3600000000000ull}};
  plan.begin = CapturePlan::Begin::kBorder;
  std::uint64_t number = 0;
  if (!take_number(text, number) || number == 0) return false;
  for (const Unit& unit : kUnits) {
    if (text != unit.name) continue;
    if (number > kMax / unit.ns) return false;
    plan.duration_ns = number * unit.ns;
    return true;
  }
  return false;
}

// A share of the calls: 0 < share <= 1.
bool parse_share(std::string_view text, double& share) noexcept {
  char copy[32];
  if (text.empty() || text.size() >= sizeof copy) return false;
  std::memcpy(copy, text.data(), text.size());
  copy[text.size()] = '\0';
  char* end = nullptr;
  share = std::strtod(copy, &end);
  return *end == '\0' && share > 0 && share <= 1;
}

}  // namespace

bool parse_capture_order(std::string_view text, CaptureOrder& order) noexcept {
  order = CaptureOrder{};
  if (text == "now") return true;
  if (text == "idle") {
    order.mode = CaptureOrder::Mode::kIdle;
    return true;
  }
  if (take_prefix(text, "steps=")) return parse_steps(text, order.plan);
  if (take_prefix(text, "duration=")) return parse_duration(text, order.plan);
  if (take_prefix(text, "next=")) {
    order.plan.begin = CapturePlan::Begin::kBorder;
    return take_number(text, order.plan.steps) && text.empty() && order.plan.steps != 0;
  }
  if (take_prefix(text, "always-on")) {
    order.mode = CaptureOrder::Mode::kAlwaysOn;
    return text.empty() || (take_prefix(text, "=") && parse_share(text, order.sampled_share));
  }
  return false;
}

}  // namespace tensortap::probe
