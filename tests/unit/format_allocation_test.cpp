// Writing a line allocates nothing once the text has grown: every allocation of this program is counted.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <string>

#include "format/line_writer.h"
#include "format_events.h"
#include "tests/support/ring_samples.h"

namespace {
std::uint64_t allocations = 0;
}  // namespace

// Not inlined: GCC takes a malloc that it sees for the wrong partner of a delete.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* room = std::malloc(size == 0 ? 1 : size)) return room;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* room) noexcept { std::free(room); }
[[gnu::noinline]] void operator delete(void* room, std::size_t) noexcept { std::free(room); }

namespace tensortap::format {
namespace {

// How many allocations the second of two equal calls makes.
template <class Write>
std::uint64_t allocations_once_warm(std::string& out, Write write) {
  write();
  out.clear();
  const std::uint64_t before = allocations;
  write();
  return allocations - before;
}

TEST(Allocations, TheCountCounts) {
  std::string out;
  const std::uint64_t before = allocations;
  out.assign(1000, 'x');
  EXPECT_EQ(allocations, before + 1);
}

TEST(Allocations, NoLineOfAnyKindAllocatesOnceTheTextHasGrown) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    RandomEvents random(seed);
    random.each_kind([&](const auto& event) {
      std::string out;
      LineWriter writer(out);
      EXPECT_EQ(allocations_once_warm(out, [&] { writer.write(event); }), 0u) << out;
    });
  }
}

TEST(Allocations, NoRingRecordAllocatesOnceTheRendererIsWarm) {
  const RingSamples samples = ring_samples();
  std::string out;
  RecordRenderer renderer(out);
  EXPECT_EQ(allocations_once_warm(out,
                                  [&] {
                                    for (const std::string& record : samples.records) {
                                      renderer.append(bytes_of(record), record.size(), 1, samples.table());
                                    }
                                  }),
            0u)
      << out;
}

}  // namespace
}  // namespace tensortap::format
