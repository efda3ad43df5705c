#include "collector/store.h"

#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>

#include "tests/unit/collector/fixtures.h"

namespace tensortap::collector {
namespace {

using namespace test;

TEST(Store, OneDaemonForOneStateFolder) {
  const StateFolder state;
  const auto first = state.open();
  const auto second = Store::open(state.path() + "/state");
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, format::ErrorCode::kRejected);
  EXPECT_NE(second.error().message.find("pid " + std::to_string(::getpid())), std::string::npos)
      << second.error().message;
  EXPECT_NE(second.error().message.find("--state"), std::string::npos);
}

TEST(Store, AFolderThatCannotBeMadeIsABadArgument) {
  const StateFolder state;
  std::ofstream(state.path() + "/file") << "x";
  const auto store = Store::open(state.path() + "/file/state");
  ASSERT_FALSE(store.ok());
  EXPECT_EQ(store.error().code, format::ErrorCode::kInvalidArgument);
}

TEST(Store, ForeignFoldersAndBrokenRunFilesAreLeftAlone) {
  const StateFolder state;
  state.open();
  const std::string runs = state.path() + "/state/runs";
  std::filesystem::create_directories(runs + "/notes");
  std::filesystem::create_directories(runs + "/broken");
  std::ofstream(runs + "/broken/run.json") << "{\"kind\":\"run\"";
  std::ofstream(runs + "/file") << "x";
  EXPECT_TRUE(state.open()->list().empty());
  EXPECT_TRUE(std::filesystem::exists(runs + "/broken/run.json"));
}

TEST(Store, ARunHasOneOwnerAtATime) {
  const StateFolder state;
  const auto store = state.open();
  RunInfo info;
  info.run = "r-1";
  info.exe = "/bin/x";
  auto run = store->create(info);
  ASSERT_TRUE(run.ok());
  EXPECT_FALSE(store->create(info).ok()) << "the name is taken";
  EXPECT_EQ(store->claim("r-1").state, Store::Claim::State::kBusy);
  const Store::Ticket first = store->park(std::move(*run));
  auto claim = store->claim("r-1");
  ASSERT_EQ(claim.state, Store::Claim::State::kClaimed);
  const Store::Ticket second = store->park(std::move(claim.run));
  EXPECT_EQ(store->claim_parked("r-1", first), nullptr)
      << "an old watch does not take what was resumed since";
  auto parked = store->claim_parked("r-1", second);
  ASSERT_NE(parked, nullptr);
  store->finish(std::move(parked), {"over"});
  EXPECT_EQ(store->claim("r-1").state, Store::Claim::State::kClosed);
  EXPECT_EQ(store->claim("r-2").state, Store::Claim::State::kUnknown);
}

TEST(Store, RunFilesSurviveARoundTrip) {
  RunInfo info;
  info.run = "r-1";
  info.state = RunState::kFailed;
  info.reason = "why \"not\"";
  info.folder = "/x";
  info.probe = true;
  info.pid = 71;
  info.start_time = 18446744073709551615u;
  info.command = {"a", "b c"};
  info.rank = 3;
  info.memfd_bytes = 5;
  info.ledger.offered = 7;
  info.ledger.stored = 4;
  info.ledger.dropped = {{"ring_full", 3}};
  info.ledger.unknown_tail_bytes_max.reset();
  info.diagnostics = {{"cut_at_stop", 2}};
  const auto back = parse_run_json(boost::json::serialize(run_json(info)));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(run_json(*back), run_json(info));
}

}  // namespace
}  // namespace tensortap::collector
