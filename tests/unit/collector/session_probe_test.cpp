#include <gtest/gtest.h>

#include "collector/limits.h"
#include "collector/session.h"
#include "format/trace_index.h"
#include "tests/unit/collector/fixtures.h"
#include "tests/unit/collector/ring_memory.h"

namespace tensortap::collector {
namespace {

using namespace test;

// A probe whose ring 0 holds every line that it sends: the daemon can always take the rest.
class ProbeSession : public ::testing::Test {
 protected:
  std::string hello(bool resume, const std::string& run = "p-1", const std::string& more = "") {
    return R"({"kind":"hello","protocol":1,"run":")" + run + R"(","resume":)" + (resume ? "true" : "false") +
           R"(,"pid":1,"exe":"/usr/bin/python3","command":["python3","train.py"],"torch":"1.13.1","memfd_bytes":1)" +
           more + "}\n";
  }
  Replies feed(Session& session, const std::string& bytes) {
    Replies replies;
    session.feed(bytes, replies);
    return replies;
  }
  std::unique_ptr<Session> connect(bool resume, Replies& replies) {
    auto session = std::make_unique<Session>(*store_, peer_, held_);
    session->take_fd(memory_.share());
    replies = feed(*session, hello(resume));
    return session;
  }
  std::unique_ptr<Session> connect() {
    Replies replies;
    return connect(false, replies);
  }

  // Writes lines into the ring; yields them with their batch line.
  std::string batch(const std::vector<std::string>& lines, int seq) {
    std::string text;
    for (const std::string& line : lines) {
      memory_.put_line(0, line, time_++);
      text += line + "\n";
    }
    return text + R"({"kind":"batch","seq":)" + std::to_string(seq) + R"(,"cursors":[[0,)" +
           std::to_string(memory_.ring(0).head) + "]]}\n";
  }
  void put(const std::string& line) { memory_.put_line(0, line, time_++); }

  static std::string commit(Session& session) {
    ::usleep(60000);
    Replies replies;
    session.commit_due(replies);
    session.work();
    return replies.text;
  }

  StateFolder state_;
  std::unique_ptr<Store> store_ = state_.open();
  Peer peer_ = own_peer();
  MemoryBudget held_{std::size_t{512} << 20};
  RingMemory memory_{16};
  std::uint64_t time_ = 1;
  const std::string meta_ = meta_line("p-1");
};

TEST_F(ProbeSession, IsWelcomeWithNoCursorsAtFirst) {
  Replies replies;
  const auto session = connect(false, replies);
  EXPECT_EQ(replies.text, "{\"kind\":\"welcome\",\"protocol\":1,\"run\":\"p-1\",\"cursors\":[]}\n");
  EXPECT_NE(session->run()->info().folder.find("-python3-"), std::string::npos + 1);
  EXPECT_EQ(only_run(*store_).state, RunState::kOpen);
}

TEST_F(ProbeSession, HelloIsRefusedWithAReason) {
  const auto refusal = [&](const std::string& line, UniqueFd fd) {
    Session session(*store_, peer_, held_);
    if (fd) session.take_fd(std::move(fd));
    const Replies replies = feed(session, line);
    EXPECT_TRUE(replies.close);
    return replies.text;
  };
  EXPECT_NE(refusal(hello(false), UniqueFd()).find("memfd"), std::string::npos);
  EXPECT_NE(refusal(hello(false, "a/b"), memory_.share()).find("hello.run"), std::string::npos);
  EXPECT_NE(
      refusal("{\"kind\":\"hello\",\"protocol\":2,\"run\":\"p-1\"}\n", memory_.share()).find("protocol 2"),
      std::string::npos);
  EXPECT_NE(refusal(hello(true), memory_.share()).find("not known"), std::string::npos);
  RingMemory unsealed(4, false);
  EXPECT_NE(refusal(hello(false), unsealed.share()).find("F_SEAL_SHRINK"), std::string::npos);
  EXPECT_TRUE(store_->list().empty());
}

TEST_F(ProbeSession, LinesWaitForTheirBatchAndTheAckForTheWrite) {
  const auto session = connect();
  const std::string folder = session->run()->info().folder;
  feed(*session, meta_ + "\n" + kRoot + "\n");
  EXPECT_FALSE(session->deadline()) << "nothing is whole";
  EXPECT_EQ(commit(*session), "");
  EXPECT_TRUE(stored_lines(folder).empty());
  const Replies at_batch = feed(*session, R"({"kind":"batch","seq":7,"cursors":[[0,512],[3,64]]})"
                                          "\n" +
                                              op_line(1) + "\n");
  EXPECT_EQ(at_batch.text, "");
  EXPECT_EQ(commit(*session), "{\"kind\":\"ack\",\"seq\":7}\n");
  EXPECT_EQ(stored_lines(folder), (std::vector<std::string>{meta_, kRoot}));
  auto kept = format::TraceFileWriter::open_for_append(folder + "/trace.jsonl.zst");
  ASSERT_TRUE(kept.ok());
  EXPECT_EQ(kept->second.cursors, (std::vector<format::Cursor>{{0, 512}, {3, 64}}));
}

TEST_F(ProbeSession, ATerminalWithItsBatchFinishesTheRun) {
  const auto session = connect();
  const Replies replies = feed(*session, batch({meta_, kRoot, op_line(1), kRootEnd, kTerminal}, 1));
  EXPECT_EQ(replies.text, "{\"kind\":\"ack\",\"seq\":1}\n");
  session->work();
  const RunInfo info = only_run(*store_);
  EXPECT_EQ(info.state, RunState::kComplete);
  const auto meta = boost::json::parse(stored_lines(info.folder).front()).as_object();
  EXPECT_EQ(meta.at("capture_contract").at("operations"), "complete");
  EXPECT_EQ(meta.at("run_id"), "p-1");
  EXPECT_EQ(info.ledger.offered, 5u);
  const auto index = format::TraceIndex::open(info.folder + "/trace.jsonl.zst");
  ASSERT_TRUE(index.ok());
  EXPECT_TRUE(index->has_seek_table()) << "behind the last frame, and the meta line is the final one";
  EXPECT_FALSE(index->meta_is_damaged());
}

TEST_F(ProbeSession, TheRestIsTakenFromTheRingsOfADeadProducer) {
  const auto session = connect();
  feed(*session, batch({meta_, kRoot, op_line(1)}, 1));
  // Sent without a batch, and not sent at all: both are in the ring.
  put(op_line(2));
  feed(*session, op_line(2) + "\n{\"kind\":\"op\",\"half");
  put(op_line(3));
  session->close_run("process 71 died without closing its run");
  const RunInfo info = only_run(*store_);
  EXPECT_EQ(info.state, RunState::kFailed);
  const auto lines = stored_lines(info.folder);
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_EQ(std::vector<std::string>(lines.begin() + 1, lines.end() - 1),
            (std::vector<std::string>{kRoot, op_line(1), op_line(2), op_line(3)}));
  const auto terminal = boost::json::parse(lines.back()).as_object();
  EXPECT_EQ(terminal.at("ext").at("ledger").at("unknown_tail_bytes_max"), 0);
  EXPECT_EQ(boost::json::parse(lines.front()).at("capture_contract").at("operations"), "partial");
}

TEST_F(ProbeSession, ATerminalInTheRingMakesTheRunComplete) {
  const auto session = connect();
  for (const std::string& line : {meta_, kRoot, op_line(1), kRootEnd, kTerminal}) put(line);
  memory_.put_line(1, op_line(2), time_ - 1);  // at the terminal's time: it stays the last line all the same
  session->close_run("process 71 died without closing its run");
  const RunInfo info = only_run(*store_);
  EXPECT_EQ(info.state, RunState::kComplete) << info.reason;
  const auto lines = stored_lines(info.folder);
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_EQ(
      lines.back(),
      terminal_with(R"("unit":"record","offered":6,"stored":6,"dropped":{},)"
                    R"("threads":[{"ring":0,"offered":5,"stored":5},{"ring":1,"offered":1,"stored":1}],)"
                    R"("sequence":{"published":6,"on_disk":6,"recovered":6})"));
  EXPECT_EQ(json_file(info.folder + "/report.json").at("input").at("records"), 6) << "the report saw it, too";
}

TEST_F(ProbeSession, AProducerThatDiesBeforeItsFirstBatchLosesNothing) {
  const auto session = connect();
  put(meta_);
  put(kRoot);
  session->close_run("died");
  EXPECT_EQ(stored_lines(only_run(*store_).folder).size(), 3u);
}

TEST_F(ProbeSession, AProducerThatLeavesNothingIsAFailedRunWithoutATrace) {
  const auto session = connect();
  session->close_run("died");
  const RunInfo info = only_run(*store_);
  EXPECT_EQ(info.state, RunState::kFailed);
  EXPECT_NE(info.reason.find("nothing of it was stored"), std::string::npos);
}

TEST_F(ProbeSession, AResumedRunGoesOnAtTheLastGoodFrameWithNothingTwice) {
  auto session = connect();
  feed(*session, batch({meta_, kRoot, op_line(1)}, 1));
  const std::uint64_t committed = memory_.ring(0).head;
  feed(*session, op_line(2) + "\n");  // an uncommitted tail
  store_->park(session->release_run());
  session.reset();

  Replies replies;
  session = connect(true, replies);
  EXPECT_NE(replies.text.find("\"cursors\":[[0," + std::to_string(committed) + "]]"), std::string::npos)
      << replies.text;
  feed(*session, batch({op_line(2), kRootEnd, kTerminal}, 1));
  session->work();
  const auto lines = stored_lines(only_run(*store_).folder);
  EXPECT_EQ(std::vector<std::string>(lines.begin() + 1, lines.end()),
            (std::vector<std::string>{kRoot, op_line(1), op_line(2), kRootEnd,
                                      terminal_with(R"("unit":"record","offered":6,"stored":6,"dropped":{},)"
                                                    R"("threads":[{"ring":0,"offered":6,"stored":6}])")}));
}

TEST_F(ProbeSession, ARunIsResumedAfterTheDaemonWasStartedAnew) {
  auto session = connect();
  feed(*session, batch({meta_, kRoot, op_line(1)}, 1));
  commit(*session);
  session.reset();  // kill -9: nobody parks anything
  store_.reset();
  store_ = state_.open();
  ASSERT_EQ(store_->left_open().size(), 1u);

  Replies replies;
  session = connect(true, replies);
  EXPECT_NE(replies.text.find("\"welcome\""), std::string::npos) << replies.text;
  feed(*session, batch({op_line(2), kRootEnd, kTerminal}, 2));
  session->work();
  const RunInfo info = only_run(*store_);
  EXPECT_EQ(info.state, RunState::kComplete);
  EXPECT_EQ(stored_lines(info.folder).size(), 6u);
  const auto report = json_file(info.folder + "/report.json");
  EXPECT_EQ(report.at("input").at("records"), 6) << "the report covers what was stored before";
}

TEST_F(ProbeSession, TheMetaLineOfARunWithoutAFrameIsNotStoredTwice) {
  auto session = connect();
  const std::string folder = session->run()->info().folder;
  // The daemon died between the meta frame and the frame with the cursors.
  ASSERT_TRUE(format::TraceFileWriter::create(folder + "/trace.jsonl.zst", meta_ + "\n").ok());
  session.reset();
  store_.reset();
  store_ = state_.open();
  Replies replies;
  session = connect(true, replies);
  EXPECT_NE(replies.text.find("\"cursors\":[]"), std::string::npos);
  feed(*session, batch({meta_, kRoot, kRootEnd, kTerminal}, 1));
  session->work();
  EXPECT_EQ(stored_lines(only_run(*store_).folder).size(), 4u);
}

TEST_F(ProbeSession, AResumeWaitsForTheConnectionThatStillHoldsTheRun) {
  auto first = connect();
  bool asked = false;
  store_->set_evict("p-1", [&] { asked = true; });
  Replies replies;
  const auto second = connect(true, replies);
  EXPECT_TRUE(asked);
  EXPECT_TRUE(second->waits_for_run());
  EXPECT_EQ(replies.text, "");
  store_->park(first->release_run());
  second->retry_resume(replies, false);
  EXPECT_FALSE(second->waits_for_run());
  EXPECT_NE(replies.text.find("\"welcome\""), std::string::npos);
}

TEST_F(ProbeSession, AnotherProcessCannotResumeARun) {
  auto first = connect();
  store_->park(first->release_run());
  peer_.start_time += 1;  // the same pid, given anew
  Replies replies;
  connect(true, replies);
  EXPECT_NE(replies.text.find("another process"), std::string::npos) << replies.text;
  peer_.start_time -= 1;
  connect(true, replies);
  EXPECT_NE(replies.text.find("\"welcome\""), std::string::npos) << "and does not take it from its owner";
}

TEST_F(ProbeSession, AClosedRunIsNotResumed) {
  auto session = connect();
  session->close_run("died");
  Replies replies;
  connect(true, replies);
  EXPECT_NE(replies.text.find("is closed"), std::string::npos) << replies.text;
}

TEST_F(ProbeSession, NumbersOfRecordsProveTheLedgerAlsoAcrossADaemonStartedAnew) {
  auto session = connect();
  const auto numbered = [&](const std::vector<std::string>& lines, int seq, std::uint64_t records) {
    std::string text = batch(lines, seq);
    text.insert(text.rfind("]]}"), "," + std::to_string(records));
    text.insert(text.rfind("\"cursors\""), "\"lines\":" + std::to_string(lines.size()) + ",");
    return text;
  };
  feed(*session, numbered({meta_, kRoot, op_line(1)}, 1, 3));
  commit(*session);
  session.reset();  // kill -9
  store_.reset();
  store_ = state_.open();
  Replies replies;
  session = connect(true, replies);
  feed(*session, numbered({op_line(2), kRootEnd}, 2, 5));
  put(op_line(3));
  session->close_run("died");
  const RunInfo info = only_run(*store_);
  ASSERT_TRUE(info.ledger.sequence);
  EXPECT_EQ(info.ledger.sequence->published, 6u);
  EXPECT_EQ(info.ledger.sequence->on_disk, 6u);
  EXPECT_EQ(info.ledger.sequence->recovered, 1u);
  EXPECT_EQ(info.ledger.offered, 6u);
  EXPECT_TRUE(info.ledger.dropped.empty());
}

TEST_F(ProbeSession, LinesThatTheBatchSpeaksOfAndThatDidNotComeAreMissed) {
  const auto session = connect();
  std::string text = batch({meta_, kRoot}, 1);
  text.insert(text.rfind("\"cursors\""), "\"lines\":5,");
  feed(*session, text);
  session->close_run("died");
  const RunInfo info = only_run(*store_);
  EXPECT_EQ(info.ledger.dropped, (Counts{{"lines_missing", 2}})) << "of two records, at most";
  EXPECT_TRUE(info.ledger.adds_up());
}

TEST_F(ProbeSession, BadLinesOfAProbeAreInItsLedgerAndItsCoverage) {
  const auto session = connect();
  feed(*session, batch({meta_, kRoot, op_line(1), "not json", kRootEnd, kTerminal}, 1));
  session->work();
  const RunInfo info = only_run(*store_);
  EXPECT_EQ(info.state, RunState::kComplete);
  EXPECT_EQ(info.ledger.offered, 6u);
  EXPECT_EQ(info.ledger.stored, 5u);
  EXPECT_EQ(info.ledger.dropped, (Counts{{"bad_line", 1}}));
  const auto lines = stored_lines(info.folder);
  EXPECT_EQ(boost::json::parse(lines.front()).at("capture_contract").at("operations"), "partial");
  EXPECT_EQ(boost::json::parse(lines.back()).at("ext").at("ledger").at("stages").at("daemon").at("bad_line"),
            1);
}

TEST_F(ProbeSession, BrokenBatchesCostTheirProducer) {
  for (const std::string& bad :
       {std::string(R"({"kind":"batch"})"), std::string(R"({"kind":"batch","seq":1,"cursors":[[0]]})"),
        std::string(R"({"kind":"batch","seq":1,"cursors":[[4096,8]]})"),
        std::string(R"({"kind":"batch","seq":1,"cursors":[[0,-8]]})"),
        std::string(R"({"kind":"batch","seq":1,"cursors":[[0,16],[0,8]]})")}) {
    StateFolder state;
    const auto store = state.open();
    Session session(*store, peer_, held_);
    session.take_fd(memory_.share());
    feed(session, hello(false));
    const Replies replies = feed(session, bad + "\n");
    EXPECT_TRUE(replies.close) << bad;
    EXPECT_EQ(only_run(*store).state, RunState::kFailed);
  }
}

TEST_F(ProbeSession, AMetaLineOfAnotherRunIsRefused) {
  const auto session = connect();
  EXPECT_TRUE(feed(*session, meta_line("q-9") + "\n").close);
}

TEST_F(ProbeSession, TooManyUncommittedBytesAreRefused) {
  const auto session = connect();
  feed(*session, meta_ + "\n");
  std::string chunk;
  while (chunk.size() < kReadBytes) chunk += op_line(1) + "\n";
  bool refused = false;
  for (std::size_t sent = 0; sent < kMaxHeldBytes + 2 * kReadBytes && !refused; sent += chunk.size()) {
    refused = feed(*session, chunk).close;
  }
  EXPECT_TRUE(refused);
  EXPECT_LT(held_.used(), std::size_t{1} << 20) << "and let go";
}

TEST_F(ProbeSession, RunsFollowEachOtherOnOneConnection) {
  const auto session = connect();
  feed(*session, batch({meta_, kRoot, kRootEnd, kTerminal}, 1));
  RingMemory next(8);
  session->take_fd(next.share());
  const Replies replies = feed(*session, hello(false, "p-2"));
  EXPECT_NE(replies.text.find("\"run\":\"p-2\""), std::string::npos) << replies.text;
  EXPECT_EQ(store_->find("p-1")->state, RunState::kComplete);
  EXPECT_EQ(store_->find("p-2")->state, RunState::kOpen);
}

TEST_F(ProbeSession, AWorkersRunLiesInItsParentsFolder) {
  const auto parent = connect();
  RingMemory memory(8);
  Session worker(*store_, peer_, held_);
  worker.take_fd(memory.share());
  feed(worker, hello(false, "w-1", R"(,"parent_run":"p-1","launch":"L","rank":1,"world_size":4)"));
  const RunInfo info = *store_->find("w-1");
  EXPECT_EQ(info.folder.rfind(store_->find("p-1")->folder + "/workers/", 0), 0u) << info.folder;
  EXPECT_EQ(info.rank, 1);
  EXPECT_EQ(store_->list("L").size(), 1u);
}

}  // namespace
}  // namespace tensortap::collector
