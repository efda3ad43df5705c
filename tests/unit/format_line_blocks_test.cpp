// Blocks are whole lines, and together they are the text.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "format/line_blocks.h"
#include "format_files.h"

namespace tensortap::format {
namespace {

class LineBlocksTest : public TempFolder {
 protected:
  LineBlocks open(std::string_view text, std::size_t block_bytes, std::size_t most_line_bytes) const {
    write("f", text);
    auto source = ByteSource::open(path("f"));
    EXPECT_TRUE(source.ok());
    return LineBlocks(std::move(*source), block_bytes, most_line_bytes);
  }
};

TEST_F(LineBlocksTest, EveryBlockEndsAtALineAndTogetherTheyAreTheText) {
  std::string text;
  for (std::size_t i = 0; i < 3000; ++i)
    text += std::string(i * 7919 % 211, static_cast<char>('a' + i % 26)) + "\n";
  for (const std::string& whole : {text, text + "no LF at its end", std::string("\n"), std::string("x")}) {
    for (const std::size_t block_bytes : {1, 16, 211, 212, 1000, 1 << 20}) {
      LineBlocks blocks = open(whole, block_bytes, 1 << 20);
      std::string all;
      std::string_view block;
      while (blocks.next(block)) {
        ASSERT_FALSE(block.empty());
        all += block;
        ASSERT_TRUE(block.back() == '\n' || all.size() == whole.size());
        // What is promised to be readable is: the sanitizer would tell.
        if (blocks.readable_behind() > 0)
          (void)*static_cast<const volatile char*>(block.end() + blocks.readable_behind() - 1);
      }
      ASSERT_TRUE(all == whole) << block_bytes;
      ASSERT_FALSE(blocks.next(block) || blocks.error() || blocks.truncated());
    }
  }
}

TEST_F(LineBlocksTest, ALineWithoutEndIsAnErrorBeforeItFillsTheMemory) {
  LineBlocks blocks = open("first\n" + std::string(100000, 'x'), 64, 4096);
  std::string_view block;
  ASSERT_TRUE(blocks.next(block));
  EXPECT_EQ(block, "first\n");
  EXPECT_FALSE(blocks.next(block));
  EXPECT_FALSE(blocks.next(block)) << "the end stays the end";
  ASSERT_TRUE(blocks.error());
  EXPECT_EQ(blocks.error()->code, ErrorCode::kMalformed);
  EXPECT_EQ(blocks.error()->file, path("f"));
}

}  // namespace
}  // namespace tensortap::format
