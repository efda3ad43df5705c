#include "probe/core/process_memory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

namespace tensortap::probe {
namespace {

constexpr std::uint64_t kMachine = 1000000;

// A tree of groups in a folder of its own.
class Groups : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/tt-groups-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    root_ = folder;
  }
  void TearDown() override { ASSERT_EQ(std::system(("rm -r '" + root_ + "'").c_str()), 0); }
  void put(const std::string& path, const std::string& name, const std::string& text) {
    for (std::size_t at = path.find('/', 1);; at = path.find('/', at + 1)) {
      mkdir((root_ + path.substr(0, at)).c_str(), 0700);
      if (at == std::string::npos) break;
    }
    std::ofstream(root_ + path + "/" + name) << text;
  }
  std::uint64_t limit(const std::string& groups) { return least_limit(kMachine, groups, root_); }

  std::string root_;
};

TEST_F(Groups, TheLeastLimitOnTheWayUpCounts) {
  put("/a", "memory.max", "600000\n");
  put("/a/b", "memory.max", "max\n");
  put("/a/b/c", "memory.max", "700000\n");
  EXPECT_EQ(limit("0::/a/b/c\n"), 600000u);
  EXPECT_EQ(limit("0::/a/b\n"), 600000u);
  put("/a/b/c", "memory.max", "500000\n");
  EXPECT_EQ(limit("0::/a/b/c\n"), 500000u);
  EXPECT_EQ(limit("0::/a\n"), 600000u);
}

TEST_F(Groups, TheMachinesMemoryIsTheLimitOfWhatHasNone) {
  EXPECT_EQ(limit(""), kMachine);
  EXPECT_EQ(limit("0::/\n"), kMachine);
  EXPECT_EQ(limit("0::/not/here\n"), kMachine);
  EXPECT_EQ(limit("0::/../../elsewhere\n"), kMachine);
  EXPECT_EQ(limit("no group\n:\n"), kMachine);
  put("/a", "memory.max", "9223372036854771712\n");
  EXPECT_EQ(limit("0::/a\n"), kMachine);
  put("/a", "memory.max", "");
  EXPECT_EQ(limit("0::/a\n"), kMachine);
}

TEST_F(Groups, AContainersOwnRootIsSeen) {
  put("", "memory.max", "400000\n");
  EXPECT_EQ(limit("0::/\n"), 400000u);
  EXPECT_EQ(limit("0::/docker/not-seen-from-inside\n"), 400000u);
}

TEST_F(Groups, TheFirstVersionIsKnownToo) {
  put("/memory/a/b", "memory.limit_in_bytes", "300000\n");
  put("/memory/a", "memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(limit("4:memory:/a/b\n"), 300000u);
  EXPECT_EQ(limit("4:cpu,memory,io:/a/b\n"), 300000u);
  EXPECT_EQ(limit("4:memoryless:/a/b\n"), kMachine);
  put("/c", "memory.max", "200000\n");
  EXPECT_EQ(limit("4:memory:/a/b\n0::/c\n"), 200000u);
}

TEST(ProcessMemory, TheResidentSetGrowsWithWhatIsTouched) {
  const std::uint64_t before = resident_bytes();
  constexpr std::size_t kBytes = 64 << 20;
  const std::unique_ptr<char[]> held(new char[kBytes]);
  for (std::size_t at = 0; at < kBytes; at += 4096) held[at] = 1;
  const std::uint64_t after = resident_bytes();
  EXPECT_GT(before, 0u);
  EXPECT_GE(after, before + kBytes * 9 / 10);
  EXPECT_LE(after, memory_limit_bytes());
  const auto machine =
      static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  EXPECT_LE(memory_limit_bytes(), machine);
}

}  // namespace
}  // namespace tensortap::probe
