// The memory and timing members of a trace's documents, as trace-analyze makes them: for tests and benches.
#pragma once

#include <sstream>
#include <string>

#include "analyzers/candle/plane_json.h"
#include "format/event.h"

namespace tensortap::analyzers::candle {

struct Planes final : format::EventVisitor {
  TraceTables tables;
  LogicalMemory logical{tables};
  PhysicalMemory physical{tables};
  DeviceTiming timing{tables};
  format::Coverage declared = format::Coverage::kNone;

  void on_meta(const format::Meta& e, const format::Place&) override {
    declared = e.capture_contract.device_timing;
  }
  void on_memory(const format::Memory& e, const format::Place& at) override { logical.on_memory(e, at); }
  void on_device_memory(const format::DeviceMemory& e, const format::Place& at) override {
    physical.on_device_memory(e, at);
  }
  void on_device_interval(const format::DeviceInterval& e, const format::Place& at) override {
    timing.on_device_interval(e, at);
  }
  void finish() {
    logical.finish();
    timing.finish();
  }

  // {"memory": …, "timing": …}
  void write(std::ostream& out) const {
    JsonOut json(out);
    json.begin_object();
    json.key("memory");
    write_memory(json, logical, physical);
    json.key("timing");
    write_timing(json, timing, declared);
    json.end_object();
    json.finish();
  }
  std::string text() const {
    std::ostringstream out;
    write(out);
    return out.str();
  }
};

}  // namespace tensortap::analyzers::candle
