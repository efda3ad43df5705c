#include "probe/launch/always_on.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "probe/launch/flat_json.h"

namespace tensortap::probe {
namespace {

constexpr std::size_t kShown = 10;

double number(std::string_view text) { return std::strtod(std::string(text).c_str(), nullptr); }

std::string time_text(double ns) {
  char text[32];
  if (ns < 1e3) {
    std::snprintf(text, sizeof text, "%.0f ns", ns);
  } else if (ns < 1e6) {
    std::snprintf(text, sizeof text, "%.3g us", ns / 1e3);
  } else if (ns < 1e9) {
    std::snprintf(text, sizeof text, "%.3g ms", ns / 1e6);
  } else {
    std::snprintf(text, sizeof text, "%.3g s", ns / 1e9);
  }
  return text;
}

struct Operator {
  std::string name;
  double calls = 0, total_ns = 0;
  std::vector<std::pair<double, double>> histogram;  // least duration of a bucket, calls in it
};

// The buckets are a quarter of an octave: the middle of the one in which the quantile lies.
double quantile_ns(const Operator& op, double share) {
  double below = 0;
  for (const auto& [begin, calls] : op.histogram) {
    below += calls;
    if (below >= share * op.calls) return begin * 1.1;
  }
  return 0;
}

// `[[1024,7],[1280,1]]`
std::vector<std::pair<double, double>> parse_histogram(std::string_view text) {
  std::vector<std::pair<double, double>> buckets;
  const std::string copy(text);
  const char* at = copy.c_str();
  for (const char* open; (open = std::strchr(at, '[')) != nullptr;) {
    if (open[1] == '[') ++open;
    char* end = nullptr;
    const double begin = std::strtod(open + 1, &end);
    if (*end != ',') break;
    const double calls = std::strtod(end + 1, &end);
    buckets.emplace_back(begin, calls);
    at = end;
  }
  return buckets;
}

}  // namespace

std::string always_on_table(std::string_view counts) {
  const auto object = parse_flat_object(counts);
  if (!object || member(*object, "kind") != "counts") return {};
  const double share = number(member(*object, "share"));
  if (share <= 0) return {};
  std::vector<Operator> operators;
  for (const FlatObject& entry : parse_objects(member(*object, "operators"))) {
    operators.push_back({std::string(member(entry, "name")), number(member(entry, "calls")),
                         number(member(entry, "total_ns")), parse_histogram(member(entry, "histogram"))});
  }
  std::sort(operators.begin(), operators.end(),
            [](const Operator& a, const Operator& b) { return a.total_ns > b.total_ns; });
  char line[256];
  std::snprintf(line, sizeof line, "  always-on  %s counted, 1 call of %.3g looked at%s\n",
                time_text(number(member(*object, "counted_ns"))).c_str(), 1 / share,
                share < 1 ? ": calls and totals are estimates" : "");
  std::string text = line;
  std::snprintf(line, sizeof line, "    %-40s %12s %10s %10s %10s %10s\n", "operator", "calls", "total",
                "mean", "p50", "p99");
  text += line;
  for (std::size_t i = 0; i < operators.size() && i < kShown; ++i) {
    const Operator& op = operators[i];
    std::string name = op.name.substr(0, 40);
    for (char& c : name) c = static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
    std::snprintf(line, sizeof line, "    %-40s %s%11.0f %10s %10s %10s %10s\n", name.c_str(),
                  share < 1 ? "~" : " ", op.calls / share, time_text(op.total_ns / share).c_str(),
                  time_text(op.total_ns / op.calls).c_str(), time_text(quantile_ns(op, 0.5)).c_str(),
                  time_text(quantile_ns(op, 0.99)).c_str());
    text += line;
  }
  if (operators.size() > kShown)
    text += "    ... and " + std::to_string(operators.size() - kShown) + " more\n";
  return text;
}

}  // namespace tensortap::probe
