#include "probe/core/protocol_lines.h"

#include <gtest/gtest.h>

namespace tensortap::probe {
namespace {

TEST(ProtocolLinesTest, ReadsWhatTheDaemonWrites) {
  const std::string line =
      R"({"kind":"welcome","protocol":1,"run":"run-1-2-ab","cursors":[[0,512],[7,1234567890123]]})";
  EXPECT_EQ(text_member(line, "kind"), "welcome");
  EXPECT_EQ(text_member(line, "run"), "run-1-2-ab");
  EXPECT_EQ(number_member(line, "protocol"), 1u);
  const Cursors expected = {{0, 512, 0}, {7, 1234567890123, 0}};
  EXPECT_EQ(cursor_member(line, "cursors"), expected);
}

TEST(ProtocolLinesTest, WhatIsNotThereYieldsNothing) {
  EXPECT_EQ(text_member("{}", "kind"), "");
  EXPECT_EQ(text_member(R"({"kind":"a\"b"})", "kind"), "");
  EXPECT_EQ(number_member(R"({"seq":"7"})", "seq"), 0u);
  EXPECT_TRUE(cursor_member(R"({"cursors":[[1,]]})", "cursors").empty());
  EXPECT_TRUE(cursor_member(R"({"cursors":[]})", "cursors").empty());
}

TEST(ProtocolLinesTest, BatchLineCarriesItsCursors) {
  std::string line;
  append_batch_line(line, 3, 7, {{0, 8, 1}, {2, 4096, 40}});
  EXPECT_EQ(line, "{\"kind\":\"batch\",\"seq\":3,\"lines\":7,\"cursors\":[[0,8,1],[2,4096,40]]}\n");
}

}  // namespace
}  // namespace tensortap::probe
