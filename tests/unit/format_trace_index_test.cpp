// Where the frames of a file lie: the same from its seek table and from its frames, whatever became of its
// end.
#include <gtest/gtest.h>
#include <xxhash.h>

#include <string>
#include <vector>

#include "format/container.h"
#include "format/little_endian.h"
#include "format/trace_index.h"
#include "format/trace_reader.h"
#include "format_files.h"

namespace tensortap::format {
namespace {

std::string op_line(std::uint64_t time) {
  return R"({"kind":"op","span_id":"s","op_name":"o","shape":[],"dtype":"f32","device":"cpu","duration_ns":1,"timestamp_ns":)" +
         std::to_string(time) + ",\"input_dense_bytes\":0}\n";
}

std::string step_line(std::uint64_t number, std::uint64_t time) {
  const std::string digits = std::to_string(number);
  return R"({"kind":"span_start","id":"p)" + digits + R"(","name":"step-)" +
         std::string(12 - digits.size(), '0') + digits + R"(","start_ns":)" + std::to_string(time) +
         R"(,"span_kind":"function"})" + "\n";
}

// The FrameInfo (with its header) that the first version would have written.
std::string old_frame_info(const std::string& now) {
  std::string payload = now.substr(8, now.size() - 8 - kFrameInfoSumBytes - kFrameRangeBytes);
  const auto bytes = static_cast<std::uint32_t>(payload.size() + kFrameInfoSumBytes);
  for (int i = 0; i < 4; ++i) payload[4 + i] = static_cast<char>(bytes >> 8 * i);
  payload.replace(36, 4, 4, '\0');
  std::string info = now.substr(0, 4);
  put(info, bytes);
  info += payload;
  put(info, static_cast<std::uint64_t>(XXH64(payload.data(), payload.size(), 0)));
  return info;
}

// Three frames that differ in everything, and one that has only cursors.
const std::vector<std::string>& frames() {
  static const std::vector<std::string> all{
      step_line(3, 100) + op_line(150) + op_line(120) + "\n", "", span_end_line(4) + "no record\n",
      step_line(4, 200) + step_line(5, 220) + op_line(210) + terminal_line()};
  return all;
}

class TraceIndexTest : public TempFolder {
 protected:
  std::string file() const { return path("t.jsonl.zst"); }
  std::string bytes() const { return read("t.jsonl.zst"); }
  void put(std::string_view all) const { write("t.jsonl.zst", all); }
  // One byte of the file as it is.
  void patch(std::uint64_t at, char byte) const {
    std::fstream out(file(), std::ios::binary | std::ios::in | std::ios::out);
    out.seekp(static_cast<std::streamoff>(at));
    out.put(byte);
  }

  TraceFileWriter make(bool finished) const {
    std::filesystem::remove(file());
    auto writer = TraceFileWriter::create(file(), meta_line("run"));
    EXPECT_TRUE(writer.ok());
    for (const std::string& lines : frames()) EXPECT_TRUE(writer->append(lines, {{1, 5}}).ok());
    if (finished) {
      EXPECT_TRUE(writer->finish().ok());
    }
    return std::move(*writer);
  }

  std::string text_of(const TraceIndex& index) const {
    std::string text = index.meta_line();
    FrameCodec codec;
    for (const FrameEntry& frame : index.frames()) {
      const auto lines = index.read(frame, codec);
      EXPECT_TRUE(lines.ok()) << lines.error().to_string();
      if (lines) text += *lines;
    }
    return text;
  }
};

const std::string& text() {
  static const std::string all = meta_line("run") + frames()[0] + frames()[2] + frames()[3];
  return all;
}

TEST_F(TraceIndexTest, TheTableAndTheFramesTellTheSame) {
  make(false);
  const auto hopped = TraceIndex::open(file());
  ASSERT_TRUE(hopped.ok());
  EXPECT_FALSE(hopped->has_seek_table());
  EXPECT_EQ(hopped->rest(), std::filesystem::file_size(file()));
  make(true);
  const auto read = TraceIndex::open(file());
  ASSERT_TRUE(read.ok());
  EXPECT_TRUE(read->has_seek_table());
  EXPECT_EQ(read->rest(), read->file_bytes());
  EXPECT_EQ(read->frames(), hopped->frames());
  EXPECT_EQ(text_of(*read), text());
}

TEST_F(TraceIndexTest, AFrameTellsTimesStepsAndKindsOfItsLines) {
  make(true);
  const auto index = TraceIndex::open(file());
  const auto kind = [](RecordKind k) { return std::uint64_t{1} << static_cast<unsigned>(k); };
  ASSERT_EQ(index->frames().size(), 4u);
  const FrameEntry& first = index->frames()[0];
  EXPECT_EQ(first.range, (FrameRange{100, 150, 3, 3, kind(RecordKind::kOp) | kind(RecordKind::kSpanStart)}));
  EXPECT_EQ(first.lines, 4u);
  EXPECT_EQ(first.first_line, 2u);
  EXPECT_EQ(first.raw_offset, 65536u);
  EXPECT_EQ(index->frames()[1].range, FrameRange{});
  EXPECT_EQ(index->frames()[2].range, (FrameRange{FrameRange::kNothing, 0, FrameRange::kNothing, 0,
                                                  kind(RecordKind::kSpanEnd) | FrameRange::kUnknownKind}));
  EXPECT_EQ(index->frames()[2].first_line, 6u);
  EXPECT_EQ(index->frames()[2].raw_offset, 65536u + frames()[0].size());
  EXPECT_EQ(index->frames()[3].range,
            (FrameRange{5, 220, 4, 5,
                        kind(RecordKind::kSpanStart) | kind(RecordKind::kOp) | kind(RecordKind::kTerminal)}));
}

TEST_F(TraceIndexTest, AZstdReaderSeesNoTable) {
  make(true);
  auto reader = TraceReader::open(file());
  std::string all;
  std::string_view line;
  Place place;
  while (reader->next_line(line, place)) (all += line) += '\n';
  EXPECT_FALSE(reader->truncated() || reader->stream_error());
  const std::size_t lf = all.find('\n');
  all.erase(meta_line("run").size() - 1, lf - (meta_line("run").size() - 1));
  EXPECT_EQ(all, text());
}

TEST_F(TraceIndexTest, AnAppendCutsTheTableOffAndSoDoesOpening) {
  TraceFileWriter writer = make(true);
  ASSERT_TRUE(writer.append(op_line(999), {}).ok());
  EXPECT_EQ(std::filesystem::file_size(file()), writer.stored_bytes());
  EXPECT_EQ(text_of(*TraceIndex::open(file())), text() + op_line(999));
  ASSERT_TRUE(writer.finish().ok());
  ASSERT_TRUE(writer.finish().ok()) << "again: nothing changes";
  EXPECT_TRUE(TraceIndex::open(file())->has_seek_table());
  EXPECT_EQ(TraceIndex::open(file())->frames().size(), 5u);

  auto opened = TraceFileWriter::open_for_append(file());
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ(opened->second.cut_bytes, 0u) << "a table is no torn frame";
  EXPECT_EQ(opened->second.lines, 12u);
  EXPECT_EQ(std::filesystem::file_size(file()), opened->first.stored_bytes());
  EXPECT_FALSE(TraceIndex::open(file())->has_seek_table());
}

TEST_F(TraceIndexTest, ANewMetaLineCutsTheTableOff) {
  TraceFileWriter writer = make(true);
  ASSERT_TRUE(writer.rewrite_meta(meta_line("other")).ok());
  EXPECT_FALSE(TraceIndex::open(file())->has_seek_table());
  ASSERT_TRUE(writer.finish().ok());
  EXPECT_TRUE(TraceIndex::open(file())->has_seek_table());
  EXPECT_FALSE(TraceIndex::open(file())->meta_is_damaged());
  EXPECT_EQ(TraceIndex::open(file())->meta_line(), meta_line("other"));
  const std::string longer = meta_line(std::string(100000, 'm'));
  ASSERT_TRUE(writer.rewrite_meta(longer).ok());
  EXPECT_FALSE(TraceIndex::open(file())->has_seek_table());
  ASSERT_TRUE(writer.finish().ok());
  EXPECT_TRUE(TraceIndex::open(file())->has_seek_table());
  EXPECT_EQ(text_of(*TraceIndex::open(file())), longer + text().substr(meta_line("run").size()));
}

TEST_F(TraceIndexTest, AFileCutAnywhereHasItsWholeFrames) {
  make(true);
  const std::string whole = bytes();
  const auto all = TraceIndex::open(file());
  const std::uint64_t first = all->frames()[0].offset;
  for (std::uint64_t cut = whole.size() - 1; cut >= first; --cut) {
    std::filesystem::resize_file(file(), cut);
    const auto index = TraceIndex::open(file());
    ASSERT_TRUE(index.ok()) << cut;
    std::size_t kept = 0;
    while (kept < all->frames().size() && all->frames()[kept].end() <= cut) ++kept;
    ASSERT_EQ(index->frames().size(), kept) << cut;
    ASSERT_FALSE(index->has_seek_table()) << cut;
    ASSERT_EQ(index->rest(), kept == 0 ? first : all->frames()[kept - 1].end()) << cut;
    ASSERT_EQ(text_of(*index), text().substr(0, text_of(*index).size())) << cut;
  }
  for (const std::uint64_t cut : {std::uint64_t{0}, std::uint64_t{8}, std::uint64_t{500}, first - 1}) {
    put(whole.substr(0, cut));
    const auto index = TraceIndex::open(file());
    ASSERT_FALSE(index.ok()) << cut;
    EXPECT_EQ(index.error().code, ErrorCode::kTruncated) << cut;
  }
}

// Whatever byte is wrong, no other text is handed out for good: it is an error, or a file of fewer frames.
TEST_F(TraceIndexTest, ADamagedByteIsAnErrorOrCostsNothing) {
  make(true);
  const std::string whole = bytes();
  const auto good = TraceIndex::open(file());
  int same = 0, refused = 0, shorter = 0;
  for (std::uint64_t at = good->frames()[0].offset; at < whole.size(); ++at) {
    for (const int flip : {0x01, 0x80, 0xFF}) {
      patch(at, static_cast<char>(whole[at] ^ flip));
      const auto index = TraceIndex::open(file());
      ASSERT_TRUE(index.ok()) << at;
      FrameCodec codec;
      for (std::size_t i = 0; i < index->frames().size(); ++i) {
        ASSERT_LT(i, good->frames().size());
        ASSERT_EQ(index->frames()[i], good->frames()[i]) << at;
        const auto lines = index->read(index->frames()[i], codec);
        if (lines) {
          ASSERT_EQ(*lines, frames()[i]) << at;
          ++same;
        } else {
          ++refused;
          EXPECT_NE(lines.error().message.find("byte " + std::to_string(good->frames()[i].offset)),
                    std::string::npos);
        }
      }
      if (index->frames().size() < good->frames().size()) {
        ++shorter;
        ASSERT_LT(index->rest(), index->file_bytes()) << at;
      }
    }
    patch(at, whole[at]);
  }
  EXPECT_GT(same, 0);
  EXPECT_GT(refused, 0);
  // The table makes FrameInfos superfluous: only when it is damaged they are asked, and then they are good.
  EXPECT_EQ(shorter, 0);
}

TEST_F(TraceIndexTest, DamageInTheMetaFrameIsAnErrorOrInItsPadding) {
  make(true);
  const std::string whole = bytes();
  for (std::uint64_t at = 0; at < 12 + 65536; at += at < 700 ? 1 : 997) {
    patch(at, static_cast<char>(whole[at] ^ 0x41));
    const auto index = TraceIndex::open(file());
    if (index) {
      EXPECT_EQ(index->frames().size(), 4u) << at;
      EXPECT_TRUE(index->meta_is_damaged() || index->meta_line() == meta_line("run")) << at;
      EXPECT_EQ(check_meta_line(file()).ok(), !index->meta_is_damaged()) << at;
    } else {
      EXPECT_TRUE(index.error().code == ErrorCode::kMalformed || index.error().code == ErrorCode::kTruncated);
    }
    patch(at, whole[at]);
  }
}

// FrameInfos and tables that are well-formed and lie: sizes up to 2^64 must cost no memory.
TEST_F(TraceIndexTest, SizesThatCannotBeAreRefusedBeforeTheyCostMemory) {
  make(false);
  const TraceIndex index = std::move(*TraceIndex::open(file()));
  FrameCodec codec;
  for (const std::uint64_t claim :
       {std::uint64_t{1} << 28, std::uint64_t{1} << 40, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    FrameEntry frame = index.frames()[0];
    frame.raw_bytes = claim;
    EXPECT_FALSE(index.read(frame, codec).ok());
    std::vector<FrameEntry> entries = index.frames();
    for (std::uint64_t FrameSize::*field :
         {&FrameSize::compressed_bytes, &FrameSize::raw_bytes, &FrameSize::lines}) {
      entries[1] = index.frames()[1];
      entries[1].*field = claim;
      if (field == &FrameSize::raw_bytes && claim <= kFrameMaxRawBytes) continue;
      const std::uint64_t first = index.frames()[0].offset;
      EXPECT_FALSE(decode_seek_table(encode_seek_table({entries, 0}), first, 65536, index.rest()));
    }
  }
  std::string table = encode_seek_table({index.frames(), 0});
  const std::uint64_t first = index.frames()[0].offset;
  ASSERT_TRUE(decode_seek_table(table, first, 65536, index.rest()));
  EXPECT_FALSE(decode_seek_table(table, first + 1, 65536, index.rest()));
  EXPECT_FALSE(decode_seek_table(table, first, 65536, index.rest() + 1));
  EXPECT_FALSE(decode_seek_table(table.substr(0, table.size() - 1), first, 65536, index.rest()));
}

// A file as the first version wrote it: FrameInfos of cursors only.
TEST_F(TraceIndexTest, FramesOfTheFirstVersionAreReadAndHaveNoRange) {
  make(false);
  const TraceIndex now = std::move(*TraceIndex::open(file()));
  const std::string whole = bytes();
  std::string old = whole.substr(0, now.frames()[0].offset);
  for (const FrameEntry& frame : now.frames()) {
    const std::string info = old_frame_info(whole.substr(frame.offset, frame.info_bytes));
    old += info + whole.substr(frame.data(), frame.compressed_bytes);
  }
  put(old);
  const auto index = TraceIndex::open(file());
  ASSERT_TRUE(index.ok());
  ASSERT_EQ(index->frames().size(), 4u);
  for (const FrameEntry& frame : index->frames()) EXPECT_FALSE(frame.range);
  EXPECT_EQ(text_of(*index), text());
  const auto opened = TraceFileWriter::open_for_append(file());
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ(opened->second.cut_bytes, 0u);
  EXPECT_EQ(opened->second.cursors, (std::vector<Cursor>{{1, 5}}));
}

TEST_F(TraceIndexTest, WhatIsNotOursIsSaidToBeNot) {
  put("{\"kind\":\"meta\"}\n");
  EXPECT_FALSE(TraceIndex::open(file()).ok());
  EXPECT_EQ(TraceIndex::open(path("none")).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(TraceIndex::open("/dev/null").error().code, ErrorCode::kMalformed);
}

}  // namespace
}  // namespace tensortap::format
