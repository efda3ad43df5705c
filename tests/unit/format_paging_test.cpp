// Tables that are longer than the memory they may use: nothing is lost, and the disk is used.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "format/paging/id_index.h"
#include "format/paging/paged_array.h"
#include "format/paging/sorter.h"

namespace tensortap::format {
namespace {

// For a test: temporary files cannot be made.
class NoTemporaryFolder {
 public:
  NoTemporaryFolder() {
    if (const char* set = std::getenv("TMPDIR")) before_ = set;
    ::setenv("TMPDIR", "/nonexistent/folder", 1);
  }
  ~NoTemporaryFolder() {
    if (before_.empty()) {
      ::unsetenv("TMPDIR");
    } else {
      ::setenv("TMPDIR", before_.c_str(), 1);
    }
  }

 private:
  std::string before_;
};

std::size_t open_files() {
  std::size_t count = 0;
  for (int fd = 0; fd < 256; ++fd) count += ::lseek(fd, 0, SEEK_CUR) >= 0 ? 1 : 0;
  return count;
}

void fill_and_check(PagedArray<std::uint64_t>& array) {
  constexpr std::size_t kCount = 300000;
  for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(array.push_back(i * 3), i);
  std::mt19937_64 random(7);
  std::map<std::size_t, std::uint64_t> changed;
  for (int i = 0; i < 20000; ++i) {
    const std::size_t at = random() % kCount;
    if (i % 2 == 0) {
      changed[at] = random();
      array.edit(at) = changed[at];
    } else {
      const auto known = changed.find(at);
      ASSERT_EQ(array[at], known == changed.end() ? at * 3 : known->second) << at;
    }
  }
  std::size_t seen = 0;
  array.for_each([&](std::uint64_t value) {
    const auto known = changed.find(seen);
    EXPECT_EQ(value, known == changed.end() ? seen * 3 : known->second);
    ++seen;
  });
  EXPECT_EQ(seen, kCount);
}

TEST(PagedArray, KeepsWhatDoesNotFit) {
  const std::size_t before = open_files();
  PagedArray<std::uint64_t> array(64 * 1024);
  fill_and_check(array);
  EXPECT_EQ(open_files(), before + 1) << "a small budget must use the disk";
}

TEST(PagedArray, StaysInMemoryWithinItsBudget) {
  const std::size_t before = open_files();
  PagedArray<std::uint64_t> array(64 << 20);
  fill_and_check(array);
  EXPECT_EQ(open_files(), before);
}

TEST(PagedArray, StaysInMemoryWithoutDiskSpace) {
  const NoTemporaryFolder none;
  PagedArray<std::uint64_t> array(64 * 1024);
  fill_and_check(array);
}

struct Pair {
  std::uint32_t key = 0, order = 0;
};
struct ByKey {
  bool operator()(const Pair& a, const Pair& b) const { return a.key < b.key; }
};

void sort_and_check(std::size_t budget) {
  Sorter<Pair, ByKey> sorter(ByKey{}, budget);
  std::mt19937 random(11);
  std::vector<Pair> all;
  for (std::uint32_t i = 0; i < 100000; ++i) {
    all.push_back({static_cast<std::uint32_t>(random() % 5000), i});
    sorter.add(all.back());
  }
  std::stable_sort(all.begin(), all.end(), ByKey{});
  for (int round = 0; round < 2; ++round) {
    std::size_t at = 0;
    sorter.for_each([&](const Pair& pair) {
      ASSERT_LT(at, all.size());
      ASSERT_EQ(pair.key, all[at].key);
      ASSERT_EQ(pair.order, all[at].order) << "equal records must keep their order";
      ++at;
    });
    EXPECT_EQ(at, all.size());
  }
}

TEST(Sorter, SortsInMemory) { sort_and_check(64 << 20); }
TEST(Sorter, SortsWhatDoesNotFit) { sort_and_check(10000); }
TEST(Sorter, SortsInMemoryWithoutDiskSpace) {
  const NoTemporaryFolder none;
  sort_and_check(10000);
}

TEST(Sorter, TakesMoreAfterItWasRead) {
  Sorter<int> sorter(std::less<int>{}, 64);
  for (int i = 100; i > 0; --i) sorter.add(i);
  sorter.for_each([](int) {});
  sorter.add(0);
  std::vector<int> all;
  sorter.for_each([&](int i) { all.push_back(i); });
  ASSERT_EQ(all.size(), 101u);
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));
}

TEST(IdIndex, TellsIdsApartThatLookAlike) {
  IdIndex index;
  const std::vector<std::string> ids = {"s1",
                                        "s10",
                                        "s01",
                                        "s001",
                                        "s0",
                                        "s",
                                        "",
                                        "0",
                                        "1",
                                        "01",
                                        "00",
                                        "s1.",
                                        "s1.0",
                                        "1s",
                                        "s18446744073709551615",
                                        "s18446744073709551616",
                                        "s999999999999999999",
                                        "s9999999999999999999",
                                        "é1",
                                        "tensor/1",
                                        "a/op/0"};
  for (std::uint32_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(index.find(ids[i]), IdIndex::kNone) << ids[i];
    bool is_new = false;
    EXPECT_EQ(index.add(ids[i], &is_new), i) << ids[i];
    EXPECT_TRUE(is_new);
  }
  for (std::uint32_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(index.find(ids[i]), i);
    EXPECT_EQ(index.text(i), ids[i]);
    bool is_new = true;
    EXPECT_EQ(index.add(ids[i], &is_new), i);
    EXPECT_FALSE(is_new);
  }
}

TEST(IdIndex, ManyIdsInLittleMemoryAndInOrder) {
  IdIndex index(256 * 1024);
  std::vector<std::string> ids;
  for (int i = 0; i < 60000; ++i) ids.push_back("s" + std::to_string(i % 3) + "." + std::to_string(i / 3));
  for (int i = 0; i < 500; ++i) ids.push_back("a-long-common-beginning-" + std::to_string(i));
  for (std::uint32_t i = 0; i < ids.size(); ++i) ASSERT_EQ(index.add(ids[i]), i);
  for (std::uint32_t i = 0; i < ids.size(); i += 7) ASSERT_EQ(index.text(i), ids[i]);
  std::vector<std::string> sorted = ids;
  std::sort(sorted.begin(), sorted.end());
  std::size_t at = 0;
  index.for_each_in_order([&](std::uint32_t id) {
    ASSERT_LT(at, sorted.size());
    ASSERT_EQ(index.text(id), sorted[at]);
    ++at;
  });
  EXPECT_EQ(at, sorted.size());
}

}  // namespace
}  // namespace tensortap::format
