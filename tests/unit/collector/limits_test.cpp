// Memory, quotas, rates and retention: what one may use of the daemon.
#include <gtest/gtest.h>

#include "collector/memory_budget.h"
#include "collector/retention.h"
#include "collector/session.h"
#include "collector/user_account.h"
#include "tests/unit/collector/fixtures.h"

namespace tensortap::collector {
namespace {

using namespace test;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(MemoryBudget, WhoHoldsMoreThanItsPartWaitsAndTheOthersDoNot) {
  MemoryBudget budget(100);
  MemoryBudget::Share hog(budget), modest(budget), idle(budget);
  hog.set(90);
  EXPECT_TRUE(hog.may_grow()) << "nobody else needs it";
  modest.set(20);
  EXPECT_FALSE(hog.may_grow());
  EXPECT_TRUE(modest.may_grow());
  EXPECT_TRUE(idle.may_grow());
  hog.set(10);
  EXPECT_TRUE(hog.may_grow());
  EXPECT_EQ(budget.used(), 30u);
}

TEST(MemoryBudget, WhatIsLetGoIsFree) {
  MemoryBudget budget(100);
  { MemoryBudget::Share(budget).set(500); }
  EXPECT_EQ(budget.used(), 0u);
}

TEST(UserAccount, ABucketOfOneSecondAndThenTheRate) {
  UserAccount account;
  const UserAccount::Clock::time_point start(seconds(1000));
  EXPECT_EQ(account.take(1 << 30, 0, start).count(), 0) << "no limit";
  EXPECT_EQ(account.take(600, 1000, start).count(), 0);
  EXPECT_EQ(account.take(400, 1000, start).count(), 0);
  const milliseconds wait = account.take(500, 1000, start);
  EXPECT_GE(wait.count(), 500);
  EXPECT_LE(wait.count(), 501);
  EXPECT_EQ(account.take(0, 1000, start + milliseconds(500)).count(), 0) << "the debt is paid";
  EXPECT_GT(account.take(1001, 1000, start + seconds(500)).count(), 0) << "a long rest saves one second's";
  EXPECT_GT(account.take(1, 1000, start).count(), 0) << "a clock that falls back gives nothing";
}

Retention keeping(std::uint64_t keep, std::uint64_t max_bytes) { return {seconds(keep), max_bytes}; }

TEST(Retention, TheOldestFinishedRunsGoFirstAndAnOpenOneNever) {
  const std::vector<KeptRun> runs = {
      {"new", 900, 40, false}, {"old", 100, 40, false}, {"open", 0, 100, true}, {"middle", 500, 40, false}};
  using Names = std::vector<std::string>;
  EXPECT_EQ(runs_to_remove(runs, keeping(0, 0), 1000), Names());
  EXPECT_EQ(runs_to_remove(runs, keeping(600, 0), 1000), (Names{"old"}));
  EXPECT_EQ(runs_to_remove(runs, keeping(0, 180), 1000), (Names{"old"}));
  EXPECT_EQ(runs_to_remove(runs, keeping(0, 1), 1000), (Names{"old", "middle", "new"}));
}

TEST(Retention, AStepOfTheClockRemovesNothingThatIsNotOld) {
  const std::vector<KeptRun> runs = {{"from the future", 5000, 40, false}, {"now", 1000, 40, false}};
  EXPECT_TRUE(runs_to_remove(runs, keeping(600, 0), 1000).empty());
  EXPECT_EQ(parse_utc("1970-01-01T00:16:40Z"), 1000);
  EXPECT_EQ(parse_utc("yesterday"), 0);
}

class Limits : public ::testing::Test {
 protected:
  void open(const Settings& settings) {
    auto store = Store::open(state_.path() + "/state", settings);
    ASSERT_TRUE(store.ok()) << store.error().to_string();
    store_ = std::move(*store);
  }
  // A whole run of about `bytes` bytes that do not compress.
  Replies run(const std::string& name, std::size_t bytes, bool close = true) {
    session_ = std::make_unique<Session>(*store_, peer_, budget_);
    std::string text = meta_line(name) + "\n" + kRoot + "\n";
    std::uint32_t noise = 1;
    while (bytes > 0) {
      std::string word(2000, ' ');
      for (char& c : word) c = static_cast<char>('!' + (noise = noise * 1664525 + 1013904223) % 90 / 1);
      for (char& c : word) c = c == '"' || c == '\\' ? '-' : c;
      std::string line = op_line(1);
      line.insert(line.find("aten::"), word);
      text += line + "\n";
      bytes -= std::min(bytes, line.size());
    }
    if (close) text += kRootEnd + "\n" + kTerminal + "\n";
    Replies replies;
    for (std::size_t at = 0; at < text.size() && !replies.close; at += kReadBytes) {
      session_->feed(std::string_view(text).substr(at, kReadBytes), replies);
    }
    session_->work();
    return replies;
  }
  bool kept(const std::string& name) const { return store_->find(name).has_value(); }

  StateFolder state_;
  std::unique_ptr<Store> store_;
  Peer peer_ = own_peer();
  MemoryBudget budget_{std::size_t{64} << 20};
  std::unique_ptr<Session> session_;
};

TEST_F(Limits, ARunBeyondTheQuotaOfRunsIsRefusedWithItsName) {
  Settings settings;
  settings.quota.runs = 1;
  open(settings);
  run("r-1", 0, false);
  auto first = std::move(session_);
  const Replies refused = run("r-2", 0);
  EXPECT_TRUE(refused.close);
  EXPECT_NE(refused.text.find("--quota-runs"), std::string::npos) << refused.text;
  EXPECT_EQ(store_->metrics().snapshot().refusals, (Counts{{"quota_runs", 1}}));
  first->close_run("over");
  EXPECT_FALSE(run("r-3", 0).close) << "a finished run makes room";
}

TEST_F(Limits, BeyondTheQuotaOfBytesARunEndsAndTheLedgerSaysHowMuchIsMissing) {
  Settings settings;
  settings.quota.bytes = 1000000;
  open(settings);
  const Replies refused = run("r-1", 3000000);
  EXPECT_TRUE(refused.close);
  EXPECT_NE(refused.text.find("--quota-bytes"), std::string::npos) << refused.text;
  const RunInfo info = *store_->find("r-1");
  EXPECT_EQ(info.state, RunState::kFailed);
  EXPECT_NE(info.reason.find("--quota-bytes"), std::string::npos) << info.reason;
  EXPECT_GT(info.ledger.dropped.at("quota_bytes"), 100u);
  EXPECT_TRUE(info.ledger.adds_up());
  EXPECT_EQ(info.ledger.stored + 1, stored_lines(info.folder).size()) << "and a terminal of ours";
  EXPECT_TRUE(run("r-2", 0).close) << "nothing more of this user";
  EXPECT_FALSE(kept("r-2"));
}

TEST_F(Limits, TheRetentionRemovesFoldersOldestFirstAndFreesTheQuota) {
  Settings settings;
  settings.retention.max_bytes = 1500000;
  settings.quota.bytes = 100000000;
  open(settings);
  run("r-1", 0, false);
  auto still_open = std::move(session_);
  run("r-2", 700000);
  const std::string folder = store_->find("r-2")->folder;
  ::sleep(1);  // run.json knows seconds
  run("r-3", 700000);
  EXPECT_TRUE(kept("r-2"));
  const std::uint64_t before = store_->account(peer_.uid)->stored_bytes;
  run("r-4", 700000);
  EXPECT_FALSE(kept("r-2"));
  EXPECT_FALSE(std::filesystem::exists(folder));
  EXPECT_TRUE(kept("r-1")) << "open";
  EXPECT_TRUE(kept("r-3") && kept("r-4"));
  EXPECT_EQ(store_->metrics().snapshot().runs_removed, 1u);
  EXPECT_LT(store_->account(peer_.uid)->stored_bytes, before + 100000);
}

TEST_F(Limits, WhatIsKeptCountsAgainAfterTheDaemonWasStartedAnew) {
  open({});
  run("r-1", 700000);
  const std::uint64_t stored = store_->account(peer_.uid)->stored_bytes;
  EXPECT_EQ(stored, std::filesystem::file_size(store_->find("r-1")->folder + "/trace.jsonl.zst"));
  session_.reset();
  store_.reset();
  open({});
  EXPECT_EQ(store_->account(peer_.uid)->stored_bytes, stored);
}

TEST_F(Limits, StorageOnlyMakesNoReportsAndTheSameTrace) {
  Settings settings;
  settings.analyze = false;
  open(settings);
  run("r-1", 1000);
  const RunInfo info = *store_->find("r-1");
  EXPECT_EQ(info.state, RunState::kComplete);
  EXPECT_FALSE(std::filesystem::exists(info.folder + "/report.json"));
  run("r-2", 1000, false);
  session_->close_run("died");
  const auto terminal = boost::json::parse(stored_lines(store_->find("r-2")->folder).back());
  EXPECT_GT(terminal.at("timestamp_ns").to_number<std::uint64_t>(), 0u) << "the time of the last record";
}

TEST_F(Limits, AnOpenRunIsReportedAgainAndAgainAndTheLastReportIsThatOfTheFile) {
  Settings settings;
  settings.report_every = seconds(1);
  open(settings);
  run("r-1", 1000, false);
  const std::string folder = store_->find("r-1")->folder;
  EXPECT_FALSE(std::filesystem::exists(folder + "/report.json"));
  Replies replies;
  for (int i = 0; i < 300 && !std::filesystem::exists(folder + "/report.json"); ++i) {
    ::usleep(10000);
    session_->commit_due(replies);
    session_->work();
  }
  const auto live = json_file(folder + "/report.json");
  EXPECT_EQ(live.at("run").at("outcome"), "unknown");
  EXPECT_EQ(live.at("run").at("ledger").at("stored"), 3);
  EXPECT_EQ(json_file(folder + "/run.json").at("ledger").at("stored"), 3) << "saved with it";
  session_->feed(op_line(2) + "\n" + kRootEnd + "\n" + kTerminal + "\n", replies);
  session_->work();
  analyzers::Analysis offline;
  auto reader = format::TraceReader::open(folder + "/trace.jsonl.zst");
  offline.consume(*reader);
  EXPECT_EQ(json_file(folder + "/report.json"), offline.report());
}

TEST_F(Limits, EachDurabilityKeepsItsPromise) {
  const auto syncs_of = [&](Durability durability) {
    Settings settings;
    settings.durability = durability;
    open(settings);
    run("r-" + std::to_string(static_cast<int>(durability)), 600000, false);  // two frames
    Metrics::Snapshot open_run = store_->metrics().snapshot();
    EXPECT_EQ(session_->run()->sync_deadline().has_value(), durability == Durability::kSecond);
    session_->close_run("over");
    const std::uint64_t at_end = store_->metrics().snapshot().syncs - open_run.syncs;
    session_.reset();
    store_.reset();
    return std::pair(open_run.syncs >= open_run.frames_written && open_run.frames_written > 0, at_end > 0);
  };
  EXPECT_EQ(syncs_of(Durability::kNone), std::pair(false, false));
  EXPECT_EQ(syncs_of(Durability::kEnd), std::pair(false, true));
  EXPECT_EQ(syncs_of(Durability::kSecond), std::pair(false, true));
  EXPECT_EQ(syncs_of(Durability::kFrame), std::pair(true, true));
}

TEST_F(Limits, TheMetricsTellWhatWasDropped) {
  open({});
  Session session(*store_, peer_, budget_);
  Replies replies;
  session.feed(meta_line("r-1") + "\n" + kRoot + "\nnot json\n" + kRootEnd + "\n" + kTerminal + "\n",
               replies);
  session.work();
  const Metrics::Snapshot now = store_->metrics().snapshot();
  EXPECT_EQ(now.records_offered, 5u);
  EXPECT_EQ(now.records_stored, 4u);
  EXPECT_EQ(now.records_dropped, (Counts{{"bad_line", 1}}));
  EXPECT_EQ(now.runs_complete, 1u);
  EXPECT_EQ(now.lines_written, 4u);
  EXPECT_GT(now.bytes_written, 0u);
}

}  // namespace
}  // namespace tensortap::collector
