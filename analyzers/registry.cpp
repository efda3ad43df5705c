#include "analyzers/analyzer.h"
#include "analyzers/counts/counts.h"
#include "analyzers/health/health.h"
#include "analyzers/memory/memory.h"
#include "analyzers/timing/timing.h"

namespace tensortap::analyzers {

std::vector<std::unique_ptr<Analyzer>> make_analyzers(const CallTree& tree) {
  std::vector<std::unique_ptr<Analyzer>> analyzers;
  analyzers.push_back(std::make_unique<HealthAnalyzer>(tree));
  analyzers.push_back(std::make_unique<TimingAnalyzer>(tree));
  analyzers.push_back(std::make_unique<MemoryAnalyzer>(tree));
  analyzers.push_back(std::make_unique<CountsAnalyzer>(tree));
  return analyzers;
}

}  // namespace tensortap::analyzers
