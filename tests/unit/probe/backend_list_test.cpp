// backends.txt: parsing, and which backend fits which torch.
#include <gtest/gtest.h>

#include <string>
#include <vector>

extern "C" {
#include "probe/preload/backend_list.h"
}

namespace {

std::vector<std::string> files_of(const char* text) {
  std::vector<std::string> out;
  TtBackendLine line;
  for (const char* at = text; (at = tt_next_backend(at, &line)) != nullptr;) out.push_back(line.file);
  return out;
}

TtFit fit(const char* text, const char* build_id, const char* version) {
  TtBackendLine line;
  EXPECT_NE(tt_next_backend(text, &line), nullptr);
  return tt_backend_fit(&line, build_id, version);
}

TEST(BackendList, skips_comments_blank_and_broken_lines) {
  EXPECT_EQ(files_of("# list\n\n- 1.13.1\n- 1.13.1 a.so\r\n  \nabcd 2.15.0 b with blank.so"),
            (std::vector<std::string>{"a.so", "b with blank.so"}));
}

TEST(BackendList, skips_a_line_whose_words_are_too_long) {
  const std::string text = std::string(400, 'a') + " 1.13 a.so\n- 1.13 b.so\n";
  EXPECT_EQ(files_of(text.c_str()), std::vector<std::string>{"b.so"});
}

TEST(BackendFit, the_same_build_id_is_the_same_build_whatever_the_version) {
  EXPECT_EQ(fit("00c0ffee 1.13.1 a.so", "00c0ffee", ""), kTtSameBuild);
  EXPECT_EQ(fit("- 1.13.1 a.so", "", ""), kTtNoFit);
}

TEST(BackendFit, versions_agree_as_far_as_both_are_known) {
  EXPECT_EQ(fit("- 1.13.1 a.so", "", "1.13"), kTtSameVersion);
  EXPECT_EQ(fit("- 2.15.0 a.so", "", "2.15.0"), kTtSameVersion);
  EXPECT_EQ(fit("- 2.15.0+cpu a.so", "", "2.15.0"), kTtSameVersion);
  EXPECT_EQ(fit("- 2.15.0 a.so", "", "2.15.1"), kTtNoFit);
  EXPECT_EQ(fit("- 2.15.0 a.so", "", "2.1"), kTtNoFit);
}

TEST(BackendFit, a_major_version_alone_is_not_enough) {
  EXPECT_EQ(fit("- 2.15.0 a.so", "", "2"), kTtNoFit);
  EXPECT_EQ(fit("- 2.15.0 a.so", "", "unknown"), kTtNoFit);
}

}  // namespace
