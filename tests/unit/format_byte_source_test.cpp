// Any way of storing a text yields the text; what is cut or damaged yields what came before, and says so.
#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <string>

#include "format/byte_source.h"
#include "format_files.h"

namespace tensortap::format {
namespace {

std::string zstd_frame(std::string_view text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

const std::string kSkippable("\x5F\x2A\x4D\x18\x03\0\0\0abc", 11);

// A text that does not compress to nothing, several input buffers long.
std::string some_text(std::size_t lines) {
  std::string text;
  for (std::size_t i = 0; i < lines; ++i)
    text += "line " + std::to_string(i * 7919 % 100003) + std::string(i % 50, 'x') + "\n";
  return text;
}

struct Read {
  std::string text;
  bool truncated = false;
  std::optional<Error> error;
  std::uint64_t stored = 0;
};

class ByteSourceTest : public TempFolder {
 protected:
  Read all(std::string_view stored, std::size_t room = 65536) const {
    write("f", stored);
    auto source = ByteSource::open(path("f"));
    EXPECT_TRUE(source.ok());
    Read read;
    std::string buffer(room, '\0');
    while (const std::size_t got = source->read(buffer.data(), room)) read.text.append(buffer, 0, got);
    EXPECT_EQ(source->read(buffer.data(), room), 0u) << "the end stays the end";
    read.truncated = source->truncated();
    read.error = source->error();
    read.stored = source->stored_bytes();
    return read;
  }
};

TEST_F(ByteSourceTest, EveryWayOfStoringYieldsTheText) {
  const std::string text = some_text(60000), half = text.substr(0, text.size() / 3);
  const std::string rest = text.substr(half.size());
  for (const std::string& stored :
       {text, zstd_frame(text),
        kSkippable + zstd_frame(half) + kSkippable + zstd_frame("") + zstd_frame(rest),
        zstd_frame(text) + kSkippable, gzip_member(text),
        gzip_member(half) + gzip_member("") + gzip_member(rest)}) {
    for (const std::size_t room : {std::size_t{1000}, std::size_t{1} << 20}) {
      const Read read = all(stored, room);
      EXPECT_TRUE(read.text == text);
      EXPECT_FALSE(read.error || read.truncated);
      EXPECT_EQ(read.stored, stored.size());
    }
  }
}

TEST_F(ByteSourceTest, ShortTextsAreTextWhateverTheyBeginWith) {
  for (const std::string& text : {std::string(), std::string("a"), std::string("\x28\xB5\x2F"),
                                  std::string("\x1F"), std::string("{}\n")}) {
    const Read read = all(text);
    EXPECT_EQ(read.text, text);
    EXPECT_FALSE(read.error || read.truncated);
  }
}

TEST_F(ByteSourceTest, CutAnywhereItYieldsAPrefixAndSaysThatItIsCut) {
  const std::string text = some_text(60);
  for (const std::string& stored :
       {zstd_frame(text.substr(0, 500)) + kSkippable + zstd_frame(text.substr(500)),
        gzip_member(text.substr(0, 500)) + gzip_member(text.substr(500))}) {
    int whole = 0;
    for (std::size_t cut = 4; cut < stored.size(); ++cut) {
      const Read read = all(std::string_view(stored).substr(0, cut));
      ASSERT_FALSE(read.error) << cut;
      ASSERT_EQ(read.text, text.substr(0, read.text.size())) << cut;
      if (!read.truncated) ++whole;  // between two frames
    }
    EXPECT_LE(whole, 2);
  }
}

TEST_F(ByteSourceTest, DamageEndsTheTextWithTheStoredPlace) {
  const std::string text = some_text(3000);
  for (const auto& [first, kind] :
       {std::pair{zstd_frame(text), "zstd"}, std::pair{gzip_member(text), "gzip"}}) {
    const Read read = all(first + "this is no frame and no member");
    EXPECT_EQ(read.text, text);
    EXPECT_FALSE(read.truncated);
    ASSERT_TRUE(read.error);
    EXPECT_EQ(read.error->code, ErrorCode::kMalformed);
    EXPECT_EQ(read.error->file, path("f"));
    EXPECT_NE(read.error->message.find(kind), std::string::npos);
    EXPECT_NE(read.error->message.find("near byte " + std::to_string(read.stored)), std::string::npos);
    EXPECT_GE(read.stored, first.size());
    EXPECT_LE(read.stored, first.size() + 10);
  }
}

// A frame whose header asks for a window of 2 GiB, and one whose content claims 2^63 bytes.
TEST_F(ByteSourceTest, FramesThatClaimMoreThanTheyHoldAreRefusedWithoutRoomForIt) {
  const Read window = all(std::string("\x28\xB5\x2F\xFD\x00\xA8\x01\0\0", 9));
  ASSERT_TRUE(window.error);
  const Read content = all(std::string("\x28\xB5\x2F\xFD\xE0\0\0\0\0\0\0\0\x80\x01\0\0", 16));
  ASSERT_TRUE(content.error);
  EXPECT_EQ(content.text, "");
}

}  // namespace
}  // namespace tensortap::format
