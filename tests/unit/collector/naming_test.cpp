#include "collector/naming.h"

#include <gtest/gtest.h>

namespace tensortap::collector {
namespace {

TEST(RunIdentity, IsLettersDigitsAndDashes) {
  EXPECT_TRUE(is_run_identity("71-8812-a1B2"));
  EXPECT_TRUE(is_run_identity(std::string(120, 'a')));
  for (const std::string& bad :
       {std::string(), std::string(121, 'a'), std::string("../x"), std::string("a b"), std::string("a\0b", 3),
        std::string("a_b"), std::string("é")}) {
    EXPECT_FALSE(is_run_identity(bad)) << bad;
  }
}

TEST(DisplayName, IsTheProgramsBaseName) {
  EXPECT_EQ(display_name("/opt/bin/train_cpp", {"./train_cpp", "--steps", "3"}), "train_cpp");
  EXPECT_EQ(display_name("", {"/opt/other"}), "other");
  EXPECT_EQ(display_name("", {}), "job");
}

TEST(DisplayName, IsTheScriptsNameForAnInterpreter) {
  EXPECT_EQ(display_name("/usr/bin/python3.11", {"python3", "-u", "/home/me/train.py", "x"}), "train.py");
  EXPECT_EQ(display_name("/usr/bin/python3.11", {"python3", "-X", "importtime", "train.py"}), "train.py");
  EXPECT_EQ(display_name("/usr/bin/python3.11", {"python3", "-m", "torch.distributed.run", "train.py"}),
            "torch.distributed.run");
  EXPECT_EQ(display_name("/usr/bin/python3.11", {"python3", "-c", "import torch"}), "python3.11");
  EXPECT_EQ(display_name("/usr/bin/python3.11", {"python3"}), "python3.11");
  EXPECT_EQ(display_name("/opt/pythonlike", {"pythonlike", "a.py"}), "pythonlike");
}

TEST(DisplayName, CannotBecomeAPathOrAHiddenFile) {
  EXPECT_EQ(display_name("/usr/bin/python3", {"python3", "..."}), "python3");
  EXPECT_EQ(display_name("/x/..", {}), "job");
  EXPECT_EQ(display_name("/x/.a b\n$(c)\xC3\xA9", {}), "abc");
  EXPECT_EQ(display_name("/x/" + std::string(300, 'q'), {}), std::string(40, 'q'));
}

TEST(FolderName, SortsByTimeAndTellsPidAndChance) {
  EXPECT_EQ(folder_name(1772368496, "train.py", 71, 0x5f2c), "20260301-123456-train.py-71-00005f2c");
}

}  // namespace
}  // namespace tensortap::collector
