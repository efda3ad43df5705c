#include "collector/producers.h"

#include <gtest/gtest.h>

namespace tensortap::collector {
namespace {

Producer producer(std::int64_t pid, std::vector<std::string> command, std::optional<std::int64_t> rank = {}) {
  Producer it;
  it.who.pid = pid;
  it.who.exe = "/usr/bin/python3.11";
  it.who.command = std::move(command);
  it.who.rank = rank;
  it.who.launch = pid < 10 ? "L" : "";
  it.state = "idle";
  return it;
}

std::vector<std::int64_t> pids(const std::vector<Producer>& producers) {
  std::vector<std::int64_t> all;
  for (const Producer& each : producers) all.push_back(each.who.pid);
  return all;
}

TEST(Producers, EverySelectorThatIsGivenMustFit) {
  Producers all;
  all.add(producer(1, {"python3", "/home/me/train.py", "--lr", "1"}, 0), {});
  all.add(producer(2, {"python3", "train.py"}, 1), {});
  all.add(producer(30, {"python3", "serve.py"}), {});
  EXPECT_EQ(pids(all.list({})), (std::vector<std::int64_t>{1, 2, 30}));
  EXPECT_EQ(pids(all.list({.pid = 2, .rank = {}, .name = {}, .launch = {}})), std::vector<std::int64_t>{2});
  EXPECT_EQ(pids(all.list({.pid = {}, .rank = 1, .name = {}, .launch = {}})), std::vector<std::int64_t>{2});
  EXPECT_EQ(pids(all.list({.pid = {}, .rank = {}, .name = "train.py", .launch = {}})),
            (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(pids(all.list({.pid = {}, .rank = {}, .name = "python3.11", .launch = "L"})),
            (std::vector<std::int64_t>{1, 2}));
  EXPECT_TRUE(all.list({.pid = {}, .rank = 0, .name = "serve.py", .launch = {}}).empty());
}

TEST(Producers, AnOrderGoesToThoseItNamesAndToNobodyWhoLeft) {
  Producers all;
  std::string first, second;
  const auto ticket = all.add(producer(1, {"a"}), [&](const std::string& line) { first += line; });
  all.add(producer(2, {"b"}), [&](const std::string& line) { second += line; });
  EXPECT_EQ(pids(all.order({.pid = 1, .rank = {}, .name = {}, .launch = {}}, "x\n")),
            std::vector<std::int64_t>{1});
  all.remove(ticket);
  EXPECT_EQ(pids(all.order({}, "y\n")), std::vector<std::int64_t>{2});
  EXPECT_EQ(first, "x\n");
  EXPECT_EQ(second, "y\n");
}

TEST(Producers, WhatAProbeSaysIsTextAndNeverStructure) {
  Producer it = producer(1, {"a\"b\n"});
  it.state = "cap\"turing";
  it.always_on = "{\"kind\":\"counts\"";  // not whole: left out
  const std::string line = producer_line(it);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_NE(line.find(R"("command":["a\"b\n"])"), std::string::npos) << line;
  EXPECT_EQ(line.find("always_on"), std::string::npos);
}

}  // namespace
}  // namespace tensortap::collector
