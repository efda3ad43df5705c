// Logical memory: how much was live, when it was most, and who held it then; and the greatest sampled use of
// devices.
//
// Records come nearly in time order; they wait in a window of the disorder that the producer states
// (`disorder_ns` in the meta's ext), else until there are kMostWaiting of them. What still comes too late is
// applied late, and counted.
//
// Memory: live storages and the window. Thread rules: one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "analyzers/analyzer.h"
#include "analyzers/memory/live_set.h"

namespace tensortap::analyzers {

class MemoryAnalyzer : public Analyzer {
 public:
  static constexpr std::size_t kMostWaiting = 262144;
  static constexpr std::size_t kMostListed = 20;

  explicit MemoryAnalyzer(const CallTree& tree) : tree_(tree) {}
  std::string_view name() const override { return "memory"; }
  void on_meta(const format::Meta& event, const format::Place& place) override;
  void on_memory(const format::Memory& event, const format::Place& place) override;
  void on_device_memory(const format::DeviceMemory& event, const format::Place& place) override;
  boost::json::object report(const ReportContext& context) const override;

 private:
  // Copied as a whole to make a report while the run goes on.
  struct Timeline {
    std::vector<MemoryEvent> waiting;  // a heap, earliest on top
    LiveSet live;
    std::uint64_t newest_ns = 0;
    std::uint64_t applied_ns = 0;
    std::uint64_t late = 0;

    void apply_earliest();
    void finish();
  };
  struct Sampled {
    std::uint64_t samples = 0;
    std::optional<std::uint64_t> used_bytes, reserved_bytes, capacity_bytes;  // greatest
    std::uint64_t used_ns = 0;
  };

  boost::json::object peak(const LiveSet& live, FigureStatus status) const;
  boost::json::object by_device(const LiveSet& live, FigureStatus status) const;
  boost::json::object sampled(const ReportContext& context) const;

  const CallTree& tree_;
  NameTable names_;  // devices, operators, modules
  Timeline timeline_;
  std::optional<std::uint64_t> disorder_ns_;
  std::map<std::string, Sampled, std::less<>> sampled_;
  std::uint64_t events_ = 0;
};

}  // namespace tensortap::analyzers
