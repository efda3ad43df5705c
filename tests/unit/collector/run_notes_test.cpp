#include "collector/run_notes.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "collector/limits.h"
#include "collector/session.h"
#include "tests/unit/collector/fixtures.h"
#include "tests/unit/collector/ring_memory.h"

namespace tensortap::collector {
namespace {

using namespace test;
namespace json = boost::json;

std::string tag(const std::string& key, const std::string& value) {
  return R"({"kind":"note","tags":{")" + key + R"(":")" + value + R"("}})";
}

const std::string kIdentity =
    R"("workload_id":"w","model_id":"m","config_id":"c","data_id":"d","seed_policy":"s","precision":"p",)"
    R"("device_state":"x","physical_batch":8,"accumulation_steps":1)";

std::string identity(const std::string& fields) {
  return R"({"kind":"note","comparison_identity":{)" + fields + "}}";
}

json::object merged(RunNotes& notes) {
  auto line = notes.merged(meta_line("p-1"));
  EXPECT_TRUE(line.ok());
  return line ? json::parse(*line).as_object() : json::object();
}

TEST(RunNotes, TheLastTagOfAKeyCounts) {
  RunNotes notes;
  EXPECT_FALSE(notes.pending());
  EXPECT_TRUE(notes.take(tag("a", "1")));
  EXPECT_TRUE(notes.take(tag("b", "2")));
  EXPECT_TRUE(notes.take(tag("a", "3")));
  EXPECT_TRUE(notes.pending());
  const json::object meta = merged(notes);
  EXPECT_FALSE(notes.pending());
  EXPECT_EQ(meta.at("tags"), (json::value{{"a", "3"}, {"b", "2"}}));
  EXPECT_EQ(meta.at("run_id"), "p-1");
  EXPECT_FALSE(meta.contains("comparison_identity"));
}

TEST(RunNotes, AnIdentityIsTakenOnlyWhole) {
  RunNotes notes;
  EXPECT_FALSE(notes.take(identity(R"("workload_id":"w")")));
  EXPECT_FALSE(notes.take(identity(R"("precision":"p")")));
  std::string without_batch = kIdentity;
  without_batch.replace(without_batch.find(":8"), 2, ":0");
  EXPECT_FALSE(notes.take(identity(without_batch)));
  EXPECT_FALSE(notes.pending());
  EXPECT_TRUE(notes.take(identity(kIdentity + R"(,"pair_id":"q","implementation_id":" ")")));
  const json::object meta = merged(notes);
  const json::object& found = meta.at("comparison_identity").as_object();
  EXPECT_EQ(found.at("physical_batch").to_number<int>(), 8);
  EXPECT_EQ(found.at("pair_id"), "q");
  EXPECT_FALSE(found.contains("implementation_id")) << "a blank one would make the trace invalid";
}

TEST(RunNotes, WhatSaysNothingOrTooMuchIsRefused) {
  RunNotes notes;
  for (const char* line : {"{}", R"({"kind":"note"})", R"({"kind":"note","tags":{"a":1}})", "no json",
                           R"({"kind":"note","tags":["a"]})"}) {
    EXPECT_FALSE(notes.take(line)) << line;
  }
  EXPECT_FALSE(notes.take(tag("long", std::string(kMaxNoteBytes, 'x'))));
  const std::string large(10 * 1024, 'x');
  EXPECT_TRUE(notes.take(tag("a", large)));
  EXPECT_TRUE(notes.take(tag("b", large)));
  EXPECT_FALSE(notes.take(tag("c", large)));
  EXPECT_TRUE(notes.take(tag("a", "short"))) << "it makes room";
  EXPECT_TRUE(notes.take(tag("c", large)));
  EXPECT_EQ(merged(notes).at("tags").as_object().size(), 3u);
}

const std::string kPlace =
    R"({"kind":"note","process_group":{"rank":1,"world_size":2,"rank_source":"process_group","backend":"gloo"}})";

TEST(RunNotes, APlaceInTheProcessGroupStandsInExtBesideWhatIsThere) {
  RunNotes notes;
  EXPECT_FALSE(notes.place().rank);
  EXPECT_FALSE(notes.take(R"({"kind":"note","process_group":{"world_size":2}})"));
  EXPECT_FALSE(notes.take(R"({"kind":"note","process_group":[1,2]})"));
  EXPECT_TRUE(notes.take(kPlace));
  EXPECT_EQ(notes.place().rank, 1);
  const json::object ext = merged(notes).at("ext").as_object();
  EXPECT_EQ(ext.at("producer"), "test");
  EXPECT_EQ(ext.at("rank"), 1);
  EXPECT_EQ(ext.at("world_size"), 2);
  EXPECT_EQ(ext.at("rank_source"), "process_group");
  EXPECT_EQ(ext.at("backend"), "gloo");
}

// The way through a session: from the line to the file.
class NotesOfARun : public ::testing::Test {
 protected:
  std::string batch(const std::vector<std::string>& lines, int seq) {
    std::string text;
    for (const std::string& line : lines) {
      memory_.put_line(0, line, time_++);
      text += line + "\n";
    }
    return text + R"({"kind":"batch","seq":)" + std::to_string(seq) + R"(,"cursors":[[0,)" +
           std::to_string(memory_.ring(0).head) + "]]}\n";
  }
  void feed(const std::string& bytes) {
    Replies replies;
    session_->feed(bytes, replies);
    ::usleep(60000);
    session_->commit_due(replies);
    session_->work();
  }
  void connect() {
    session_ = std::make_unique<Session>(*store_, peer_, held_);
    session_->take_fd(memory_.share());
    feed(R"({"kind":"hello","protocol":1,"run":"p-1","resume":false,"pid":1,"exe":"/usr/bin/python3",)"
         R"("command":["python3"],"torch":"1.13.1","memfd_bytes":1})"
         "\n");
  }
  json::object stored_meta() {
    return json::parse(stored_lines(only_run(*store_).folder).front()).as_object();
  }

  StateFolder state_;
  std::unique_ptr<Store> store_ = state_.open();
  Peer peer_ = own_peer();
  MemoryBudget held_{std::size_t{512} << 20};
  RingMemory memory_{16};
  std::uint64_t time_ = 1;
  std::unique_ptr<Session> session_;
  const std::string meta_ = meta_line("p-1");
};

TEST_F(NotesOfARun, StandInTheStoredMetaWhileItStillRuns) {
  connect();
  feed(batch({meta_, tag("a", "1"), kRoot}, 1));
  EXPECT_EQ(stored_meta().at("tags"), (json::value{{"a", "1"}}));
  feed(batch({op_line(1), tag("b", "2")}, 2));
  EXPECT_EQ(stored_meta().at("tags"), (json::value{{"a", "1"}, {"b", "2"}}));
  feed(batch({kRootEnd, kTerminal}, 3));
  const auto lines = stored_lines(only_run(*store_).folder);
  EXPECT_EQ(json::parse(lines.front()).at("tags"), (json::value{{"a", "1"}, {"b", "2"}}));
  EXPECT_EQ(lines.size(), 5u) << "the notes themselves are no records";
}

TEST_F(NotesOfARun, AreFoundInADeadProducersRings) {
  connect();
  feed(batch({meta_, kRoot}, 1));
  memory_.put_line(0, tag("late", "word"), time_++);
  memory_.put_line(0, identity(kIdentity), time_++);
  session_->close_run("died");
  const json::object meta = stored_meta();
  EXPECT_EQ(meta.at("tags"), (json::value{{"late", "word"}}));
  EXPECT_EQ(meta.at("comparison_identity").at("model_id"), "m");
}

TEST_F(NotesOfARun, TellWhichRankTheProcessTurnedOutToBe) {
  connect();
  EXPECT_FALSE(session_->take_news()->who.rank);
  feed(batch({meta_, kPlace, kRoot}, 1));
  const auto producer = session_->take_news();
  ASSERT_TRUE(producer);
  EXPECT_EQ(producer->who.rank, 1);
  EXPECT_EQ(producer->who.world_size, 2);
  EXPECT_EQ(stored_meta().at("ext").at("backend"), "gloo");
  // It does not come again when this daemon ends here.
  const auto stored = read_run_json(only_run(*store_).folder);
  ASSERT_TRUE(stored.ok());
  EXPECT_EQ(stored->rank, 1);
  EXPECT_EQ(stored->rank_source, "process_group");
  feed(batch({kRootEnd, kTerminal}, 2));
  EXPECT_EQ(only_run(*store_).rank, 1);
}

TEST_F(NotesOfARun, ThatAreRefusedAreCounted) {
  connect();
  feed(batch({meta_, kRoot, R"({"kind":"note","tags":{"a":1}})"}, 1));
  EXPECT_EQ(session_->run()->info().diagnostics.at("note_refused"), 1u);
}

}  // namespace
}  // namespace tensortap::collector
