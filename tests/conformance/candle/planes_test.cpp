// Logical and physical memory and device timing of every public trace of trace/10: as expected.json says, and
// byte by byte as candle-graph's own documents have them.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "format/trace_reader.h"
#include "tests/conformance/candle/planes_document.h"

namespace tensortap::analyzers::candle {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

json::object document_of(const fs::path& trace) {
  auto reader = format::TraceReader::open(trace.string());
  EXPECT_TRUE(reader) << trace;
  Planes planes;
  EXPECT_EQ(reader->read_all(planes).bad_lines, 0u) << trace;
  planes.finish();
  return json::parse(planes.text()).as_object();
}

// expected.json says no more than the ids of the storages that are live at the peak, and null for a lifetime
// that is open.
json::value as_expected(json::object logical) {
  if (json::value* peak = logical.if_contains("peak")) {
    json::array storages;
    for (const json::value& life : peak->as_object().at("live_allocations").as_array())
      storages.push_back(life.at("storage_id"));
    peak->as_object().erase("live_allocations");
    peak->as_object()["live_storages"] = std::move(storages);
  }
  for (json::value& life : logical.at("lifetimes").as_array()) {
    json::object& members = life.as_object();
    if (!members.contains("end_timestamp_ns")) members["end_timestamp_ns"] = nullptr;
  }
  return logical;
}

json::value member(const json::object& document, const char* plane, const char* name) {
  const json::object& members = document.at(plane).as_object();
  const json::value* found = members.if_contains(name);
  return found != nullptr ? *found : json::value();
}

void expect_planes(const fs::path& trace, const json::object& expected) {
  const json::object document = document_of(trace);
  json::value logical = member(document, "memory", "logical");
  if (logical.is_object()) logical = as_expected(logical.as_object());
  json::value physical = member(document, "memory", "physical");
  if (physical.is_object()) physical = physical.at("by_device");
  json::object timing = document.at("timing").as_object();
  timing.erase("device_coverage");
  const auto compare = [&](const char* name, const json::value& ours, bool is_absent) {
    const json::value* theirs = expected.if_contains(name);
    if (theirs == nullptr) {
      EXPECT_TRUE(is_absent) << trace.filename() << " has a " << name << ": " << ours;
    } else {
      EXPECT_EQ(ours, *theirs) << trace.filename() << ' ' << name;
    }
  };
  compare("logical_memory", logical, logical.is_null());
  compare("physical_memory", physical, physical.is_null());
  compare("device_timing", timing, timing.at("device_spans").as_array().empty());
}

TEST(CandlePlanes, EveryValidTraceHasThePlanesThatExpectedJsonSays) {
  const json::object expected =
      json::parse(content(fs::path(TRACE10_FIXTURES) / "expected.json")).as_object();
  std::size_t traces = 0;
  for (const auto& [name, entry] : expected.at("valid").as_object()) {
    ++traces;
    expect_planes(fs::path(TRACE10_FIXTURES) / "valid" / std::string(name), entry.as_object());
  }
  EXPECT_EQ(traces, 27u);
}

// Of these expected.json holds no planes, but every one is read, whatever is wrong with it.
TEST(CandlePlanes, InvalidTracesHavePlanesToo) {
  for (const char* folder : {"invalid", "no-evidence"}) {
    for (const auto& file : fs::directory_iterator(fs::path(TRACE10_FIXTURES) / folder)) {
      const json::object document = document_of(file.path());
      EXPECT_TRUE(document.at("timing").is_object()) << file.path();
    }
  }
}

}  // namespace
}  // namespace tensortap::analyzers::candle
