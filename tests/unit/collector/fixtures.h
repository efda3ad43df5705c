// What the collector's tests share: a state folder of their own, trace lines, a peer.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "collector/peer.h"
#include "collector/store.h"
#include "format/trace_reader.h"

namespace tensortap::collector::test {

inline std::string meta_line(const std::string& run) {
  return R"({"kind":"meta","schema":"candle-graph/trace/10","run_id":")" + run +
         R"(","correlation_id":"c","entrypoint":"test","phase":"infer","timestamp":"2026-01-01T00:00:00Z","capture_step":1,)"
         R"("warmup_steps":0,"device":"cpu","measured_region_device_synchronized":false,"timing_mode":"host",)"
         R"("capture_contract":{"measurement_scope":"unknown","operations":"none","logical_memory":"none",)"
         R"("physical_memory":"none","device_timing":"none"},"tags":{},"ext":{"producer":"test"}})";
}
inline const std::string kRoot =
    R"({"kind":"span_start","id":"s0.1","parent_id":null,"name":"root","start_ns":0,"span_kind":"function","measured":true})";
inline std::string op_line(int n) {
  const std::string time = std::to_string(n * 10);
  return R"({"kind":"op","span_id":"s0.1","op_name":"aten::op)" + std::to_string(n) +
         R"(","inputs":[],"shape":[2],"dtype":"f32","device":"cpu","duration_ns":5,"timestamp_ns":)" + time +
         R"(,"input_dense_bytes":0})";
}
inline const std::string kRootEnd = R"({"kind":"span_end","id":"s0.1","duration_ns":1000000})";
inline const std::string kTerminal = R"({"kind":"terminal","outcome":"complete","timestamp_ns":1000000})";

// kTerminal as it is stored: with the daemon's ledger.
inline std::string terminal_with(const std::string& ledger) {
  return kTerminal.substr(0, kTerminal.size() - 1) + R"(,"ext":{"ledger":{)" + ledger +
         R"(,"unknown_tail_bytes_max":0}}})";
}

class StateFolder {
 public:
  StateFolder() {
    char pattern[] = "/tmp/tt-collector-XXXXXX";
    path_ = ::mkdtemp(pattern);
  }
  ~StateFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }
  std::unique_ptr<Store> open() const {
    auto store = Store::open(path_ + "/state");
    if (!store) {
      ADD_FAILURE() << store.error().to_string();
      std::abort();
    }
    return std::move(*store);
  }

 private:
  std::string path_;
};

// This test's own process as the peer: it lives, and the kernel knows it.
inline Peer own_peer() {
  Peer peer;
  peer.pid = ::getpid();
  peer.uid = ::getuid();
  peer.start_time = process_start_time(peer.pid);
  peer.exe = process_exe(peer.pid);
  return peer;
}

inline std::vector<std::string> stored_lines(const std::string& folder) {
  std::vector<std::string> lines;
  auto reader = format::TraceReader::open(folder + "/trace.jsonl.zst");
  if (!reader) return lines;
  std::string_view line;
  format::Place place;
  while (reader->next_line(line, place)) {
    if (line.find_first_not_of(' ') == std::string_view::npos) continue;
    lines.emplace_back(line.substr(0, line.find_last_not_of(' ') + 1));
  }
  return lines;
}

inline boost::json::object json_file(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  boost::json::error_code error;
  boost::json::value value = boost::json::parse(text.str(), error);
  return value.is_object() ? value.get_object() : boost::json::object();
}

inline RunInfo only_run(const Store& store) {
  const auto runs = store.list();
  EXPECT_EQ(runs.size(), 1u);
  return runs.empty() ? RunInfo() : runs.front();
}

}  // namespace tensortap::collector::test
