// How often each operator was called, and with what output shapes.
//
// `top_level` counts the calls that no other operator's call encloses, on whatever thread. Overloads of one
// name are one operator. At most kMostShapes output shapes are told apart per operator; further ones are
// counted together.
//
// Memory: distinct operators × shapes. Thread rules: one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>

#include "analyzers/analyzer.h"

namespace tensortap::analyzers {

class CountsAnalyzer : public Analyzer {
 public:
  static constexpr std::size_t kMostShapes = 32;

  explicit CountsAnalyzer(const CallTree& tree) : tree_(tree) {}
  std::string_view name() const override { return "counts"; }
  void on_operator(const OperatorCall& call) override;
  void on_became_top_level(NameId name, std::uint64_t thread, std::uint64_t duration_ns) override;
  boost::json::object report(const ReportContext& context) const override;

 private:
  struct Operator {
    std::uint64_t calls = 0;
    std::uint64_t top_level = 0;
    std::map<std::string, std::uint64_t, std::less<>> shapes;  // "f32[4,16]" → calls
    std::uint64_t further_shapes = 0;                          // calls with shapes beyond kMostShapes
  };

  const CallTree& tree_;
  std::unordered_map<NameId, Operator> operators_;
  std::uint64_t calls_ = 0;
  std::uint64_t top_level_ = 0;
  std::string label_;  // reused: no allocation per call
};

}  // namespace tensortap::analyzers
