#include "collector/listener.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "tests/unit/collector/fixtures.h"

namespace tensortap::collector {
namespace {

using format::ErrorCode;

TEST(Listener, MakesASocketForItsOwnerAndRemovesIt) {
  const test::StateFolder folder;
  const std::string path = folder.path() + "/s";
  {
    const auto listener = Listener::open(path);
    ASSERT_TRUE(listener.ok());
    struct stat status {};
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u);
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Listener, TakesTheLongestPathAndNoLonger) {
  const test::StateFolder folder;
  const std::string longest = folder.path() + "/" + std::string(107 - folder.path().size() - 1, 'x');
  EXPECT_TRUE(Listener::open(longest).ok());
  const auto longer = Listener::open(longest + "x");
  ASSERT_FALSE(longer.ok());
  EXPECT_EQ(longer.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(longer.error().message.find("107"), std::string::npos);
}

TEST(Listener, LeavesWhatIsNotItsOwn) {
  const test::StateFolder folder;
  const std::string taken = folder.path() + "/taken";
  const auto first = Listener::open(taken);
  const auto second = Listener::open(taken);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, ErrorCode::kRejected);
  EXPECT_TRUE(std::filesystem::exists(taken));

  const std::string file = folder.path() + "/file";
  std::ofstream(file) << "mine";
  EXPECT_FALSE(Listener::open(file).ok());
  EXPECT_TRUE(std::filesystem::exists(file));
}

TEST(Listener, ReplacesTheSocketOfADeadDaemon) {
  const test::StateFolder folder;
  const std::string path = folder.path() + "/s";
  {
    auto dead = Listener::open(path);
    ASSERT_TRUE(dead.ok());
    ASSERT_EQ(::rename(path.c_str(), (path + ".kept").c_str()), 0);
  }
  ASSERT_EQ(::rename((path + ".kept").c_str(), path.c_str()), 0);
  EXPECT_TRUE(Listener::open(path).ok());
}

TEST(Listener, SaysWhichFolderIsMissing) {
  const auto listener = Listener::open("/nonexistent/folder/s");
  ASSERT_FALSE(listener.ok());
  EXPECT_EQ(listener.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(listener.error().message.find("/nonexistent/folder/s"), std::string::npos);
}

}  // namespace
}  // namespace tensortap::collector
