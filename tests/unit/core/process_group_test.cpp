#include "probe/core/process_group.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "probe/core/process_facts.h"

namespace tensortap::probe {
namespace {

// What is known is known for a process's life: each case is a process of its own.
void in_a_process(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    group_after_fork();
    body();
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

void expect_group(int rank, int world_size, const char* backend) {
  const ProcessGroup group = process_group();
  EXPECT_EQ(group.rank, rank);
  EXPECT_EQ(group.world_size, world_size);
  EXPECT_STREQ(group.backend, backend);
}

TEST(ProcessGroup, TheFirstConstructedIsTheDefaultOne) {
  in_a_process([] {
    EXPECT_EQ(group_version(), 0u);
    expect_group(-1, -1, "");
    group_constructed(1, 4, "");
    group_constructed(1, 4, "gloo");  // what carries it out
    const std::uint32_t version = group_version();
    group_constructed(0, 2, "gloo");  // a part of it
    group_constructed(1, 4, "mpi");
    EXPECT_EQ(group_version(), version);
    expect_group(1, 4, "gloo");
  });
}

TEST(ProcessGroup, WhatIsNoPlaceIsNotTaken) {
  in_a_process([] {
    group_constructed(-1, 4, "gloo");
    group_constructed(4, 4, "gloo");
    group_looked_up(0, 0, "gloo");
    group_looked_up(-1, -1, "");
    EXPECT_EQ(group_version(), 0u);
  });
}

TEST(ProcessGroup, ALookReplacesWhatWasKnown) {
  in_a_process([] {
    group_constructed(0, 2, "gloo");
    group_looked_up(1, 2, "cpu:gloo,cuda:nccl");
    expect_group(1, 2, "cpu:gloo,cuda:nccl");
    const std::uint32_t version = group_version();
    group_looked_up(1, 2, "cpu:gloo,cuda:nccl");
    group_looked_up_none();  // destroyed: it was there
    EXPECT_EQ(group_version(), version);
  });
}

TEST(ProcessGroup, OfAJobThatRanBeforeNothingConstructedCountsUntilSomebodyLooked) {
  in_a_process([] {
    group_may_be_older();
    group_constructed(0, 2, "gloo");  // perhaps a part of an older one
    EXPECT_EQ(group_version(), 0u);
    group_looked_up_none();
    group_constructed(3, 8, "gloo");
    expect_group(3, 8, "gloo");
  });
}

TEST(ProcessGroup, AForkedChildMakesItsOwn) {
  in_a_process([] {
    group_constructed(0, 2, "gloo");
    in_a_process([] {
      expect_group(0, 2, "gloo");
      group_constructed(1, 3, "gloo");
      expect_group(1, 3, "gloo");
      group_constructed(0, 1, "gloo");
      expect_group(1, 3, "gloo");
    });
  });
}

TEST(ProcessGroup, ALongNameIsCut) {
  in_a_process([] {
    group_looked_up(0, 1, std::string(500, 'x'));
    EXPECT_EQ(std::string(process_group().backend), std::string(kMaxGroupBackend, 'x'));
  });
}

TEST(ProcessGroup, CountsForMoreThanTheEnvironment) {
  in_a_process([] {
    setenv("RANK", "5", 1);
    setenv("WORLD_SIZE", "6", 1);
    ProcessFacts facts = read_process_facts("2.0", "");
    EXPECT_EQ(facts.rank, 5);
    EXPECT_EQ(facts.rank_source, "environment");
    EXPECT_FALSE(adopt_process_group(facts));
    group_constructed(1, 2, "gloo");
    EXPECT_TRUE(adopt_process_group(facts));
    EXPECT_FALSE(adopt_process_group(facts));
    EXPECT_EQ(rank_note_line(facts),
              R"({"kind":"note","process_group":{"rank":1,"world_size":2,"rank_source":"process_group",)"
              R"("backend":"gloo"}})"
              "\n");
    EXPECT_EQ(read_process_facts("2.0", "").rank, 1);
  });
}

}  // namespace
}  // namespace tensortap::probe
