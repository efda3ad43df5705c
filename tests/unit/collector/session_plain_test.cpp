#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>

#include "collector/limits.h"
#include "collector/session.h"
#include "tests/unit/collector/fixtures.h"

namespace tensortap::collector {
namespace {

using namespace test;

class PlainSession : public ::testing::Test {
 protected:
  Replies feed(Session& session, const std::string& bytes) {
    Replies replies;
    session.feed(bytes, replies);
    session.work();
    return replies;
  }
  Replies feed(const std::string& bytes) { return feed(session_, bytes); }

  StateFolder state_;
  std::unique_ptr<Store> store_ = state_.open();
  Peer peer_ = own_peer();
  MemoryBudget held_{std::size_t{512} << 20};
  Session session_{*store_, peer_, held_};
};

TEST_F(PlainSession, StoresLinesAsTheyCameAndReports) {
  const std::string text =
      meta_line("r-1") + "\n" + kRoot + "\n" + op_line(1) + "\n" + kRootEnd + "\n" + kTerminal + "\n";
  for (const char c : text) feed(std::string(1, c));  // any cut of the stream is as good
  const RunInfo info = only_run(*store_);
  EXPECT_EQ(info.run, "r-1");
  EXPECT_EQ(info.state, RunState::kComplete);
  EXPECT_EQ(
      stored_lines(info.folder),
      (std::vector<std::string>{meta_line("r-1"), kRoot, op_line(1), kRootEnd,
                                terminal_with(R"("unit":"line","offered":5,"stored":5,"dropped":{})")}));
  EXPECT_EQ(info.ledger.offered, 5u);
  EXPECT_EQ(info.ledger.stored, 5u);
  EXPECT_EQ(json_file(info.folder + "/run.json")["state"], "complete");
  EXPECT_TRUE(json_file(info.folder + "/report.json").contains("health"));
  EXPECT_TRUE(std::filesystem::file_size(info.folder + "/report.txt") > 0);
}

TEST_F(PlainSession, SkipsBadLinesAndCountsThem) {
  feed(meta_line("r-1") + "\nnot json\n{\"kind\":\"novelty\"}\n[1]\n{\"a\":1}\n\n" + kRoot + "\n" +
       meta_line("r-1") + "\n" + kRootEnd + "\n" + kTerminal + "\n" + op_line(1) + "\n");
  const RunInfo info = only_run(*store_);
  EXPECT_EQ(info.state, RunState::kComplete);
  EXPECT_EQ(info.diagnostics, (Counts{{"bad_line", 4}, {"repeated_meta", 1}, {"line_after_terminal", 1}}));
  EXPECT_EQ(stored_lines(info.folder).size(), 4u);
  EXPECT_EQ(info.ledger.offered, 10u);
  EXPECT_EQ(info.ledger.stored, 4u);
  EXPECT_TRUE(info.ledger.adds_up());
  const auto report = json_file(info.folder + "/report.json");
  EXPECT_EQ(report.at("run").at("ledger").at("stages").at("daemon").at("bad_line"), 4);
}

TEST_F(PlainSession, WhatAProducerSaysOfItsOwnLossesStaysAndOursAreAdded) {
  feed(meta_line("r-1") + "\n" + kRoot + "\n" + kRootEnd + "\nnot json\n" +
       R"({"kind":"terminal","outcome":"complete","timestamp_ns":1000000,"mine":1.5,"ext":{"ledger":)"
       R"({"offered":9,"stored":7,"dropped":{"ring_full":2}},"exit_status":3}})"
       "\n");
  const auto terminal = boost::json::parse(stored_lines(only_run(*store_).folder).back()).as_object();
  EXPECT_EQ(terminal.at("mine"), 1.5) << "unknown members stay";
  EXPECT_EQ(terminal.at("ext").at("exit_status"), 3);
  EXPECT_EQ(boost::json::serialize(terminal.at("ext").at("ledger")),
            R"({"offered":10,"stored":7,"dropped":{"bad_line":1,"ring_full":2}})");
}

TEST_F(PlainSession, ClaimsOfCompletenessFallWithTheFirstLineThatIsLost) {
  std::string meta = meta_line("r-1");
  const std::string none = R"("operations":"none")", complete = R"("operations":"complete")";
  meta.replace(meta.find(none), none.size(), complete);
  const auto operations_after = [&](const std::string& lines) {
    StateFolder state;
    const auto store = state.open();
    Session session(*store, peer_, held_);
    feed(session, meta + "\n" + lines);
    session.close_run("the connection ended");
    return std::string(boost::json::parse(stored_lines(only_run(*store).folder).front())
                           .at("capture_contract")
                           .at("operations")
                           .as_string());
  };
  const std::string whole = kRoot + "\n" + kRootEnd + "\n";
  EXPECT_EQ(operations_after(whole + kTerminal + "\n"), "complete");
  EXPECT_EQ(operations_after(whole + "not json\n" + kTerminal + "\n"), "partial");
  EXPECT_EQ(operations_after(whole), "partial") << "it did not close its run";
}

TEST_F(PlainSession, EndsAsFailedWithoutATerminalAndKeepsWhatIsWhole) {
  feed(meta_line("r-1") + "\n" + kRoot + "\n" + op_line(7) + "\n{\"kind\":\"op\",\"cut");
  session_.close_run("the connection ended");
  const RunInfo info = only_run(*store_);
  EXPECT_EQ(info.state, RunState::kFailed);
  EXPECT_EQ(info.reason, "the connection ended");
  EXPECT_EQ(info.diagnostics, (Counts{{"unfinished_line", 1}}));
  const auto lines = stored_lines(info.folder);
  ASSERT_EQ(lines.size(), 4u);
  const auto terminal = boost::json::parse(lines.back()).as_object();
  EXPECT_EQ(terminal.at("outcome"), "failed");
  EXPECT_EQ(terminal.at("reason"), "the connection ended");
  EXPECT_EQ(terminal.at("timestamp_ns"), 75);  // the operator's end: the latest time in the stream
  EXPECT_EQ(terminal.at("ext").at("written_by"), "collectord");
  EXPECT_EQ(terminal.at("ext").at("ledger").at("dropped").at("unfinished_line"), 1);
  EXPECT_EQ(lines.front(), meta_line("r-1")) << "a plain producer's claims are its own";
}

TEST_F(PlainSession, CommitsAfterAQuietMoment) {
  feed(meta_line("r-1") + "\n" + kRoot + "\n");
  const std::string folder = session_.run()->info().folder;
  EXPECT_TRUE(stored_lines(folder).empty());
  ASSERT_TRUE(session_.deadline());
  EXPECT_LE(*session_.deadline(), Session::Clock::now() + kPlainQuiet);
  ::usleep(220000);
  Replies replies;
  session_.commit_due(replies);
  EXPECT_EQ(stored_lines(folder).size(), 2u);
  EXPECT_FALSE(session_.deadline());
}

TEST_F(PlainSession, CommitsWhenThereIsEnough) {
  std::string text = meta_line("r-1") + "\n" + kRoot + "\n";
  for (int i = 0; i < 3000; ++i) text += op_line(i) + "\n";
  feed(text);
  EXPECT_GT(stored_lines(session_.run()->info().folder).size(), 1000u);
}

TEST_F(PlainSession, CannotTakeTheNameOfAnotherRun) {
  feed(meta_line("r-1") + "\n" + kRoot + "\n");
  Session second(*store_, peer_, held_);
  feed(second, meta_line("r-1") + "\n" + kRoot + "\n");
  ASSERT_NE(second.run(), nullptr);
  EXPECT_NE(second.run()->info().run, "r-1");
  Session third(*store_, peer_, held_);
  feed(third, meta_line("../../etc") + "\n");
  EXPECT_EQ(third.run()->info().run.rfind("plain-", 0), 0u);
  EXPECT_EQ(third.run()->info().folder.find(".."), std::string::npos);
}

TEST_F(PlainSession, ARefusedFirstLineSaysWhatIsWanted) {
  for (const std::string& first : {op_line(1), std::string("GET / HTTP/1.1"), std::string("{}"), kTerminal}) {
    Session session(*store_, peer_, held_);
    const Replies replies = feed(session, first + "\n");
    EXPECT_TRUE(replies.close) << first;
    EXPECT_NE(replies.text.find("\"refused\""), std::string::npos);
    EXPECT_NE(replies.text.find("first line"), std::string::npos);
  }
  EXPECT_TRUE(store_->list().empty());
}

TEST_F(PlainSession, ALineThatIsTooLongCostsItsProducer) {
  feed(meta_line("r-1") + "\n" + kRoot + "\n");
  const Replies replies = feed(std::string(kMaxLineBytes + 1, 'x'));
  EXPECT_TRUE(replies.close);
  const RunInfo info = only_run(*store_);
  EXPECT_EQ(info.state, RunState::kFailed);
  EXPECT_EQ(stored_lines(info.folder).size(), 3u) << "what came before is kept";
  EXPECT_LT(held_.used(), std::size_t{4} << 20);
}

TEST_F(PlainSession, AFolderThatVanishesFailsTheRunAndNotTheDaemon) {
  feed(meta_line("r-1") + "\n");
  const std::string folder = session_.run()->info().folder;
  std::filesystem::remove_all(folder);
  feed(kRoot + "\n" + op_line(1) + "\n" + kRootEnd + "\n" + kTerminal + "\n");
  const RunInfo info = only_run(*store_);
  EXPECT_EQ(info.state, RunState::kFailed);
  EXPECT_NE(info.reason.find("could not write"), std::string::npos) << info.reason;
  EXPECT_EQ(info.ledger.dropped, (Counts{{"write_failed", 5}}));
  EXPECT_EQ(info.ledger.offered, 5u);
}

TEST_F(PlainSession, AControlClientAsksOnce) {
  feed("{\"kind\":\"ctl\",\"command\":\"wait\",\"launch\":\"L\",\"timeout_ms\":1500}\n");
  const auto request = session_.take_control_request();
  ASSERT_TRUE(request);
  EXPECT_EQ(request->command, ControlRequest::Command::kWait);
  EXPECT_EQ(request->selector.launch, "L");
  EXPECT_EQ(request->timeout.count(), 1500);
  EXPECT_FALSE(session_.take_control_request());
  Session other(*store_, peer_, held_);
  EXPECT_TRUE(feed(other, "{\"kind\":\"ctl\",\"command\":\"dance\"}\n").close);
}

TEST_F(PlainSession, AnOrderNamesItsProbesAndSaysWhatToCapture) {
  feed("{\"kind\":\"ctl\",\"command\":\"start\",\"capture\":\"next=3\",\"pid\":71,\"name\":\"train.py\"}\n");
  const auto request = session_.take_control_request();
  ASSERT_TRUE(request);
  EXPECT_EQ(request->command, ControlRequest::Command::kStart);
  EXPECT_EQ(request->capture, "next=3");
  EXPECT_EQ(request->selector.pid, 71);
  EXPECT_FALSE(request->selector.rank);
  Session other(*store_, peer_, held_);
  EXPECT_TRUE(feed(other, "{\"kind\":\"ctl\",\"command\":\"start\"}\n").close) << "says not what";
}

}  // namespace
}  // namespace tensortap::collector
