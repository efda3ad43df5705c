// The two frame shapes of the trace file, as bytes (drawn in container.h): coded here, kept on disk by
// container.cpp.
//
// Decoding believes nothing: every length is checked, every checksum compared.
// Thread rules: a FrameCodec belongs to one thread; the free functions have no state. Not for the job's
// process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/container.h"
#include "format/line_facts.h"

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace tensortap::format {

// ---- meta frame: a zstd frame of raw blocks, so that its content can be rewritten in place.
inline constexpr std::size_t kMetaBlockBytes =
    64 * 1024;  // content is a multiple of it; one block unless outgrown
inline constexpr std::size_t kMetaMaxBytes = 64 * 1024 * 1024;
inline constexpr std::size_t kMetaHeaderBytes = 9;  // magic, descriptor, content size
inline constexpr std::size_t kBlockHeaderBytes = 3;

// The size of the frame whose content is `content_bytes` (a multiple of kMetaBlockBytes).
std::size_t meta_frame_bytes(std::size_t content_bytes);
// The content that a meta line (with its LF) needs; 0 when it is too long.
std::size_t meta_content_bytes(std::size_t line_bytes);
// The frame, `meta_line` (with its LF) padded with blanks before the LF to `content_bytes`.
std::string encode_meta_frame(std::string_view meta_line, std::size_t content_bytes);
// The content size that the first kMetaHeaderBytes bytes declare; nothing when they begin no meta frame.
std::optional<std::size_t> parse_meta_header(std::string_view bytes);
// The meta line with its LF and without its padding; nothing when the frame's blocks are not as they must be.
std::optional<std::string> decode_meta_frame(std::string_view frame, std::size_t content_bytes);

// ---- FrameInfo
inline constexpr std::size_t kSkippableHeaderBytes = 8;  // magic, payload bytes
inline constexpr std::size_t kFrameInfoFixedBytes = 40;  // before the cursors
inline constexpr std::size_t kCursorBytes = 16;
inline constexpr std::size_t kFrameRangeBytes = 40;  // behind the cursors; not in the first version's files
inline constexpr std::size_t kFrameInfoSumBytes = 8;
inline constexpr std::size_t kFrameInfoMaxBytes = 1024 * 1024;  // 65 thousand cursors: beyond any session

inline constexpr std::uint64_t kFrameMaxRawBytes = std::uint64_t{1} << 28;

struct FrameSize {
  std::uint64_t raw_bytes = 0;
  std::uint64_t compressed_bytes = 0;
  std::uint64_t lines = 0;
};

// What the lines of a frame are about (line_facts.h). Empty when first > last.
struct FrameRange {
  std::uint64_t first_ns = kNothing, last_ns = 0;      // host times, both ends included
  std::uint64_t first_step = kNothing, last_step = 0;  // iterations whose spans begin here
  std::uint64_t kinds = 0;  // bit i: lines of RecordKind i; bit 63: of none of them
  static constexpr std::uint64_t kNothing = ~std::uint64_t{0};
  static constexpr std::uint64_t kUnknownKind = std::uint64_t{1} << 63;

  void add(const LineFacts& facts);
  friend bool operator==(const FrameRange&, const FrameRange&) = default;
};

struct FrameInfo : FrameSize {
  std::vector<Cursor> cursors;
  std::optional<FrameRange> range;  // none in files of the first version
};

// The payload size that the first kSkippableHeaderBytes bytes declare; nothing when they begin no FrameInfo.
std::optional<std::size_t> parse_skippable_header(std::string_view bytes);
std::optional<FrameInfo> decode_frame_info(std::string_view payload);

void put_range(std::string& out, const FrameRange& range);
FrameRange take_range(const char* from);  // kFrameRangeBytes of them

// ---- frames of lines
class FrameCodec {
 public:
  FrameCodec();

  // FrameInfo and compressed lines, ready for one write. Borrows from the codec until the next call.
  Result<std::string_view> encode(std::string_view lines, const std::vector<Cursor>& cursors);

  // The lines of a frame whose bytes must be what `size` says. Borrows from the codec until the next call.
  std::optional<std::string_view> decode(const FrameSize& size, std::string_view compressed);

 private:
  struct FreeCompressor {
    void operator()(ZSTD_CCtx_s*) const;
  };
  struct FreeDecompressor {
    void operator()(ZSTD_DCtx_s*) const;
  };
  std::unique_ptr<ZSTD_CCtx_s, FreeCompressor> compressor_;
  std::unique_ptr<ZSTD_DCtx_s, FreeDecompressor> decompressor_;
  FrameRange range_of(std::string_view lines);

  FactReader facts_;
  std::string buffer_;
};

}  // namespace tensortap::format
