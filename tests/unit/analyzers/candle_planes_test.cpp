// The rules of logical and physical memory and device timing, one by one, and the whole against a naive
// model.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tests/conformance/candle/planes_document.h"

namespace tensortap::analyzers::candle {
namespace {

constexpr std::uint64_t kMost = ~std::uint64_t{0};
using format::MemoryAction;
using format::MemoryCategory;

format::Memory memory(std::uint64_t at, MemoryAction action, const char* storage, std::uint64_t bytes,
                      const char* device = "cpu", const char* tensor = "t0") {
  format::Memory event;
  event.timestamp_ns = at;
  event.action = action;
  event.storage_id = storage;
  event.bytes = bytes;
  event.device = device;
  event.tensor_id = tensor;
  event.span_id = "r";
  event.dtype = "f32";
  return event;
}
constexpr auto kAlloc = MemoryAction::kAlloc;
constexpr auto kFree = MemoryAction::kFree;

// A logical plane of these records.
struct Logical {
  explicit Logical(const std::vector<format::Memory>& events) {
    for (const format::Memory& event : events) plane.on_memory(event, {});
    plane.finish();
  }
  std::vector<std::uint64_t> timeline() const {
    std::vector<std::uint64_t> bytes;
    plane.for_each_point([&](const LogicalMemory::Live& live) {
      bytes.push_back(live.live_bytes);
      return true;
    });
    return bytes;
  }
  std::vector<std::string> storages() const {
    std::vector<std::string> ids;
    plane.for_each_lifetime([&](std::uint64_t, const Lifetime& life) {
      ids.push_back(std::string(tables.names.text(life.device)) + '/' + tables.storages.text(life.storage));
    });
    return ids;
  }
  std::vector<std::string> tensors(std::uint64_t index, std::uint64_t until_ns = kMost) const {
    std::vector<std::string> ids;
    plane.for_each_tensor(
        plane.lifetime(index), [&](std::uint32_t tensor) { ids.push_back(tables.tensors.text(tensor)); },
        until_ns);
    return ids;
  }
  TraceTables tables;
  LogicalMemory plane{tables};
};

TEST(LogicalMemory, WhatComesAndGoesWithinATimestampNeverShows) {
  const Logical it({memory(5, kAlloc, "a", 10), memory(7, kAlloc, "b", 100), memory(7, kFree, "b", 100)});
  EXPECT_EQ(it.timeline(), (std::vector<std::uint64_t>{10, 10}));
  EXPECT_EQ(it.plane.totals().peak->timestamp_ns, 5u);
  EXPECT_EQ(it.plane.totals().allocated_bytes, 110u);
  EXPECT_EQ(it.plane.totals().frees, 1u);
}

TEST(LogicalMemory, OfEqualPeaksTheEarliestStays) {
  const Logical it({memory(1, kAlloc, "a", 10), memory(2, kFree, "a", 10), memory(3, kAlloc, "b", 10)});
  EXPECT_EQ(it.plane.totals().peak->timestamp_ns, 1u);
  EXPECT_EQ(it.plane.at_peak()->timestamp_ns, 1u);
}

TEST(LogicalMemory, RecordsAreAppliedByTimeAndThenInStreamOrder) {
  const Logical it({memory(9, kFree, "a", 10), memory(2, kAlloc, "a", 10), memory(9, kAlloc, "a", 4)});
  EXPECT_EQ(it.timeline(), (std::vector<std::uint64_t>{10, 4}));
}

TEST(LogicalMemory, AnAliasAddsItsTensorAndNothingElse) {
  auto alias = memory(2, kAlloc, "a", 99, "cpu", "t9");
  alias.category = MemoryCategory::kGradient;
  const Logical it({memory(1, kAlloc, "a", 10), alias, memory(3, kAlloc, "a", 10, "cpu", "t1"),
                    memory(4, kAlloc, "a", 10, "cpu", "t9"), memory(5, kFree, "a", 10, "cpu", "t10")});
  EXPECT_EQ(it.plane.totals().allocations, 1u);
  EXPECT_EQ(it.timeline(), (std::vector<std::uint64_t>{10, 10, 10, 10, 0}));
  EXPECT_EQ(it.plane.lifetime(0).category, MemoryCategory::kOther);
  EXPECT_EQ(it.tensors(0), (std::vector<std::string>{"t0", "t1", "t10", "t9"}));
  EXPECT_EQ(it.tensors(0, 2), (std::vector<std::string>{"t0", "t9"}));
}

TEST(LogicalMemory, TheSameStorageOnTwoDevicesIsTwoStorages) {
  const Logical it({memory(1, kAlloc, "a", 10, "cuda:0"), memory(2, kAlloc, "a", 5, "cpu"),
                    memory(3, kFree, "a", 10, "cuda:0"), memory(3, kAlloc, "a", 7, "cuda:1")});
  EXPECT_EQ(it.timeline(), (std::vector<std::uint64_t>{10, 15, 12}));
  EXPECT_EQ(it.storages(), (std::vector<std::string>{"cuda:0/a", "cpu/a", "cuda:1/a"}));
  ASSERT_EQ(it.plane.devices().size(), 3u);
  EXPECT_EQ(it.tables.names.text(it.plane.devices()[0].name), "cpu");
  EXPECT_EQ(it.plane.devices()[1].peak->live_bytes, 10u);
}

TEST(LogicalMemory, LifetimesAreOrderedByStartThenDeviceThenStorageId) {
  const Logical it({memory(1, kAlloc, "s9", 1), memory(1, kAlloc, "s10", 1), memory(1, kAlloc, "s", 1, "b"),
                    memory(1, kAlloc, "s", 1, "a"), memory(0, kAlloc, "z", 1, "z")});
  EXPECT_EQ(it.storages(), (std::vector<std::string>{"z/z", "a/s", "b/s", "cpu/s10", "cpu/s9"}));
}

TEST(LogicalMemory, AFreeOfAnUnknownStorageDoesNothingButTakesAPoint) {
  const Logical it({memory(3, kFree, "a", 10, "cuda:7"), memory(4, kAlloc, "b", 2)});
  EXPECT_EQ(it.timeline(), (std::vector<std::uint64_t>{0, 2}));
  EXPECT_EQ(it.plane.totals().frees, 0u);
  ASSERT_EQ(it.plane.devices().size(), 2u);
  const LogicalMemory::Device& only_frees = it.plane.devices()[1];
  EXPECT_EQ(it.tables.names.text(only_frees.name), "cuda:7");
  EXPECT_FALSE(only_frees.peak.has_value());
  EXPECT_EQ(only_frees.allocations + only_frees.frees + only_frees.allocated_bytes, 0u);
}

TEST(LogicalMemory, WithoutAnAllocationThereIsNoPeak) {
  const Logical it({memory(3, kFree, "a", 10)});
  EXPECT_TRUE(it.plane.observed());
  EXPECT_FALSE(it.plane.totals().peak.has_value());
  EXPECT_FALSE(it.plane.at_peak().has_value());
  EXPECT_FALSE(Logical({}).plane.observed());
}

TEST(LogicalMemory, APeakOfZeroBytesIsAPeak) {
  const Logical it({memory(3, kAlloc, "a", 10), memory(3, kFree, "a", 10)});
  EXPECT_EQ(it.plane.totals().peak->live_bytes, 0u);
  EXPECT_EQ(it.plane.devices()[0].peak->timestamp_ns, 3u);
  EXPECT_TRUE(it.plane.at_peak()->by_device.empty());
}

TEST(LogicalMemory, AStorageOfNoBytesIsLive) {
  const Logical it({memory(3, kAlloc, "a", 0)});
  EXPECT_EQ(it.plane.at_peak()->by_device.at(0), 0u);
  EXPECT_EQ(it.plane.at_peak()->by_category[static_cast<std::size_t>(MemoryCategory::kOther)], 0u);
  EXPECT_FALSE(it.plane.at_peak()->by_category[0].has_value());
}

TEST(LogicalMemory, SumsSaturateAndComeBack) {
  const Logical it({memory(1, kAlloc, "a", kMost), memory(2, kAlloc, "b", 5), memory(3, kFree, "a", kMost)});
  EXPECT_EQ(it.timeline(), (std::vector<std::uint64_t>{kMost, kMost, 5}));
  EXPECT_EQ(it.plane.totals().allocated_bytes, kMost);
  EXPECT_EQ(it.plane.totals().peak->timestamp_ns, 1u);
}

TEST(LogicalMemory, AnEndAtTheLastNanosecondIsNotOpen) {
  const Logical it({memory(1, kAlloc, "a", 3), memory(kMost, kFree, "a", 3), memory(kMost, kAlloc, "b", 1)});
  EXPECT_FALSE(it.plane.lifetime(0).open);
  EXPECT_EQ(it.plane.lifetime(0).end_ns, kMost);
  EXPECT_TRUE(it.plane.lifetime(1).open);
}

TEST(PhysicalMemory, ExtremesAreTheEarliestOfEqualOnesWhateverTheOrder) {
  TraceTables tables;
  PhysicalMemory plane(tables);
  for (const std::uint64_t at : {30u, 10u, 20u}) {
    format::DeviceMemory event;
    event.timestamp_ns = at;
    event.device = "cuda:0";
    event.used_bytes = 7;
    event.free_bytes = at == 20 ? 1 : 2;
    plane.on_device_memory(event, {});
  }
  const PhysicalMemory::Device device = plane.devices().at(0);
  EXPECT_EQ(device.peak_used->timestamp_ns, 10u);
  EXPECT_EQ(device.least_free->timestamp_ns, 20u);
  EXPECT_EQ(device.observed[PhysicalMemory::kUsed], 3u);
  EXPECT_FALSE(device.peak_reserved || device.capacity);
}

TEST(PhysicalMemory, SamplesAreOrderedByTimeThenDevice) {
  TraceTables tables;
  PhysicalMemory plane(tables);
  const std::vector<std::pair<std::uint64_t, const char*>> samples = {{2, "b"}, {2, "a"}, {1, "c"}};
  for (const auto& [at, name] : samples) {
    format::DeviceMemory event;
    event.timestamp_ns = at;
    event.device = name;
    plane.on_device_memory(event, {});
  }
  std::string order;
  plane.for_each_sample([&](const PhysicalMemory::Sample& s) { order += tables.names.text(s.device); });
  EXPECT_EQ(order, "cab");
}

// Intervals of one span on one device and clock, as (stream, start, duration).
DeviceTiming::SpanRow busy(
    const std::vector<std::tuple<const char*, std::uint64_t, std::uint64_t>>& intervals) {
  TraceTables tables;
  DeviceTiming timing(tables);
  for (const auto& [stream, start, duration] : intervals) {
    format::DeviceInterval event;
    event.span_id = "s";
    event.device = "cuda:0";
    event.clock_id = "c";
    event.stream_id = stream;
    event.backend = "cupti";
    event.start_ns = start;
    event.duration_ns = duration;
    timing.on_device_interval(event, {});
  }
  timing.finish();
  DeviceTiming::SpanRow row;
  timing.for_each_row_of(0, [&](const DeviceTiming::SpanRow& found) { row = found; });
  EXPECT_EQ(timing.clocks().at(0).busy_ns, row.busy_ns);
  row.streams = static_cast<ShapeId>(tables.shapes.get(row.streams).size());
  return row;
}

TEST(DeviceTiming, IntervalsOfAllStreamsAreOneUnion) {
  const auto row = busy({{"2", 180, 20}, {"1", 100, 80}, {"1", 150, 10}, {"2", 300, 10}});
  EXPECT_EQ(row.busy_ns, 110u);
  EXPECT_EQ(row.interval_count, 4u);
  EXPECT_EQ(row.streams, 2u);
}

TEST(DeviceTiming, EndsSaturateAndEmptyIntervalsCountForNothing) {
  EXPECT_EQ(busy({{"1", kMost - 3, 100}}).busy_ns, 3u);
  EXPECT_EQ(busy({{"1", 5, 0}, {"1", 9, 0}}).busy_ns, 0u);
  EXPECT_EQ(busy({{"1", 0, kMost}, {"1", 5, kMost}}).busy_ns, kMost);
}

TEST(DeviceTiming, RowsAreOrderedByTheTextOfSpanDeviceAndClock) {
  TraceTables tables;
  DeviceTiming timing(tables);
  const std::vector<std::array<const char*, 3>> keys = {
      {"s9", "d", "c"}, {"s10", "d", "c"}, {"s10", "d", "b"}, {"s10", "a", "z"}};
  for (const auto& [span, device, clock] : keys) {
    format::DeviceInterval event;
    event.span_id = span;
    event.device = device;
    event.clock_id = clock;
    event.duration_ns = 1;
    timing.on_device_interval(event, {});
  }
  timing.finish();
  std::string order;
  timing.for_each_span_row([&](const DeviceTiming::SpanRow& row) {
    order += tables.spans.text(row.span);
    order += tables.names.text(row.device);
    order += std::string(tables.names.text(row.clock)) + ' ';
  });
  EXPECT_EQ(order, "s10az s10db s10dc s9dc ");
  std::size_t of_s10 = 0;
  timing.for_each_row_of(tables.spans.find("s10"), [&](const DeviceTiming::SpanRow&) { ++of_s10; });
  EXPECT_EQ(of_s10, 3u);
  timing.for_each_row_of(12345, [&](const DeviceTiming::SpanRow&) { ADD_FAILURE(); });
}

TEST(DeviceTiming, AnIntervalRaisesTheDeclaredCoverageToPartial) {
  TraceTables tables;
  DeviceTiming timing(tables);
  EXPECT_EQ(timing.coverage(format::Coverage::kNone), format::Coverage::kNone);
  timing.on_device_interval({}, {});
  EXPECT_EQ(timing.coverage(format::Coverage::kNone), format::Coverage::kPartial);
  EXPECT_EQ(timing.coverage(format::Coverage::kComplete), format::Coverage::kComplete);
}

TEST(JsonOut, LaysADocumentOutAsThePeerDoes) {
  std::ostringstream out;
  JsonOut json(out);
  json.begin_object();
  json.member("a", "ä\n\"");
  json.key("b");
  json.begin_array();
  json.null();
  json.begin_object();
  json.end_object();
  json.real(1e16);
  json.boolean(false);
  json.end_array();
  json.key("c");
  json.numbers({});
  json.member("d", kMost);
  json.end_object();
  json.finish();
  EXPECT_EQ(out.str(),
            "{\n  \"a\": \"ä\\n\\\"\",\n  \"b\": [\n    null,\n    {},\n    1e+16,\n    false\n  ],\n"
            "  \"c\": [],\n  \"d\": 18446744073709551615\n}\n");
}

TEST(NumberLists, KeepsEveryListAlsoBeyondTheOnesItKnowsAgain) {
  NumberLists lists(1);
  std::vector<ShapeId> ids;
  for (std::uint64_t i = 0; i < 100000; ++i) ids.push_back(lists.add(std::array<std::uint64_t, 2>{i, i * i}));
  EXPECT_EQ(lists.add({}), NumberLists::kEmpty);
  for (std::uint64_t i = 0; i < ids.size(); i += 997) {
    const auto list = lists.get(ids[i]);
    ASSERT_EQ(std::vector<std::uint64_t>(list.begin(), list.end()), (std::vector<std::uint64_t>{i, i * i}));
  }
  EXPECT_EQ(lists.add(std::array<std::uint64_t, 2>{1, 1}), ids[1]);
}

// --- the whole against a naive model
// -------------------------------------------------------------------------

struct Model {
  using Key = std::pair<std::string, std::string>;
  struct Life {
    Key key;
    std::uint64_t start = 0, end = kMost, bytes = 0;
    bool open = true;
    std::set<std::string> tensors;
  };
  std::vector<Life> lives;  // document order
  std::vector<std::uint64_t> timeline;
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> peaks;  // by device: bytes, time

  explicit Model(std::vector<format::Memory> events) {
    std::stable_sort(events.begin(), events.end(),
                     [](const auto& a, const auto& b) { return a.timestamp_ns < b.timestamp_ns; });
    std::map<Key, std::size_t> live;
    std::set<std::string> allocated;
    for (std::size_t i = 0; i < events.size(); ++i) {
      const format::Memory& e = events[i];
      const Key key{std::string(e.device), std::string(e.storage_id)};
      const auto found = live.find(key);
      if (e.action == kAlloc && found == live.end()) {
        live[key] = lives.size();
        allocated.insert(key.first);
        lives.push_back({key, e.timestamp_ns, kMost, e.bytes, true, {std::string(e.tensor_id)}});
      } else if (found != live.end()) {
        lives[found->second].tensors.insert(std::string(e.tensor_id));
        if (e.action == kFree) {
          lives[found->second].open = false;
          lives[found->second].end = e.timestamp_ns;
          live.erase(found);
        }
      }
      if (i + 1 < events.size() && events[i + 1].timestamp_ns == e.timestamp_ns) continue;
      std::map<std::string, std::uint64_t> bytes;
      std::uint64_t all = 0;
      for (const auto& [live_key, life] : live) {
        all += lives[life].bytes;
        bytes[live_key.first] += lives[life].bytes;
      }
      timeline.push_back(all);
      for (const std::string& device : allocated) {
        const auto peak = peaks.find(device);
        if (peak == peaks.end() || bytes[device] > peak->second.first)
          peaks[device] = {bytes[device], e.timestamp_ns};
      }
    }
    std::stable_sort(lives.begin(), lives.end(), [](const Life& a, const Life& b) {
      return std::tie(a.start, a.key) < std::tie(b.start, b.key);
    });
  }
};

TEST(LogicalMemory, AgreesWithANaiveModel) {
  const std::vector<std::string> ids = {"s1", "s2",  "s10", "s3",     "s30",
                                        "x",  "s01", "cpu", "cuda:0", "cuda:1"};
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
    std::vector<format::Memory> events(below(80));
    const std::uint32_t horizon = 1 + below(30);
    for (format::Memory& event : events) {
      event = memory(below(horizon), below(3) == 0 ? kFree : kAlloc, ids[below(7)].c_str(), below(5),
                     ids[7 + below(3)].c_str(), ids[below(6)].c_str());
    }
    const Logical it(events);
    const Model model(events);
    ASSERT_EQ(it.timeline(), model.timeline) << seed;
    ASSERT_EQ(it.plane.lifetime_count(), model.lives.size()) << seed;
    for (std::size_t i = 0; i < model.lives.size(); ++i) {
      const Lifetime life = it.plane.lifetime(i);
      const Model::Life& expected = model.lives[i];
      ASSERT_EQ(it.storages()[i], expected.key.first + '/' + expected.key.second) << seed;
      ASSERT_EQ(std::tie(life.start_ns, life.bytes, life.open),
                std::tie(expected.start, expected.bytes, expected.open))
          << seed;
      if (!life.open) {
        ASSERT_EQ(life.end_ns, expected.end) << seed;
      }
      ASSERT_EQ(it.tensors(i), std::vector<std::string>(expected.tensors.begin(), expected.tensors.end()));
    }
    for (const LogicalMemory::Device& device : it.plane.devices()) {
      const auto peak = model.peaks.find(std::string(it.tables.names.text(device.name)));
      ASSERT_EQ(device.peak.has_value(), peak != model.peaks.end()) << seed;
      if (device.peak) {
        ASSERT_EQ(std::pair(device.peak->live_bytes, device.peak->timestamp_ns), peak->second) << seed;
      }
    }
  }
}

}  // namespace
}  // namespace tensortap::analyzers::candle
