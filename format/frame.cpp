#include "format/frame.h"

#include <xxhash.h>
#include <zstd.h>

#include <algorithm>
#include <new>

#include "format/little_endian.h"
#include "format/text.h"

namespace tensortap::format {
namespace {

constexpr std::uint32_t kZstdMagic = 0xFD2FB528u;
constexpr unsigned char kMetaDescriptor =
    0xA0;  // single segment, 4-byte content size, no checksum, no dictionary
constexpr std::uint32_t kSkippableMagic = 0x184D2A50u + 4;
constexpr std::uint32_t kFrameInfoMagic = 0x31465454u;  // "TTF1"
constexpr int kCompressionLevel = 3;
// zstd's best: a block of 128 KiB from 4 bytes. What claims more is not believed, and costs no memory.
constexpr std::uint64_t kMostGrowth = 32 * 1024;

std::uint32_t raw_block_header(bool last) {
  return static_cast<std::uint32_t>(kMetaBlockBytes << 3) | (last ? 1u : 0u);
}

std::uint64_t count_lines(std::string_view text) {
  std::uint64_t lines = 0;  // by searching: std::count looks at each byte
  for (std::size_t at = text.find('\n'); at != std::string_view::npos; at = text.find('\n', at + 1)) ++lines;
  return lines;
}

}  // namespace

std::size_t meta_frame_bytes(std::size_t content_bytes) {
  return kMetaHeaderBytes + content_bytes + content_bytes / kMetaBlockBytes * kBlockHeaderBytes;
}

std::size_t meta_content_bytes(std::size_t line_bytes) {
  if (line_bytes > kMetaMaxBytes) return 0;
  return (line_bytes + kMetaBlockBytes - 1) / kMetaBlockBytes * kMetaBlockBytes;
}

std::string encode_meta_frame(std::string_view meta_line, std::size_t content_bytes) {
  std::string content(meta_line.substr(0, meta_line.size() - 1));
  content.resize(content_bytes - 1, ' ');
  content += '\n';

  std::string frame;
  frame.reserve(meta_frame_bytes(content_bytes));
  put(frame, kZstdMagic);
  put(frame, kMetaDescriptor);
  put(frame, static_cast<std::uint32_t>(content_bytes));
  for (std::size_t at = 0; at < content_bytes; at += kMetaBlockBytes) {
    put(frame, raw_block_header(at + kMetaBlockBytes == content_bytes), kBlockHeaderBytes);
    frame.append(content, at, kMetaBlockBytes);
  }
  return frame;
}

std::optional<std::size_t> parse_meta_header(std::string_view bytes) {
  if (bytes.size() < kMetaHeaderBytes || take<std::uint32_t>(bytes.data()) != kZstdMagic) return std::nullopt;
  if (static_cast<unsigned char>(bytes[4]) != kMetaDescriptor) return std::nullopt;
  const std::size_t content = take<std::uint32_t>(bytes.data() + 5);
  if (content == 0 || content > kMetaMaxBytes || content % kMetaBlockBytes != 0) return std::nullopt;
  return content;
}

std::optional<std::string> decode_meta_frame(std::string_view frame, std::size_t content_bytes) {
  if (frame.size() != meta_frame_bytes(content_bytes)) return std::nullopt;
  std::string content;
  content.reserve(content_bytes);
  frame.remove_prefix(kMetaHeaderBytes);
  while (!frame.empty()) {
    const bool last = frame.size() == kBlockHeaderBytes + kMetaBlockBytes;
    if (take<std::uint32_t>(frame.data(), kBlockHeaderBytes) != raw_block_header(last)) return std::nullopt;
    content += frame.substr(kBlockHeaderBytes, kMetaBlockBytes);
    frame.remove_prefix(kBlockHeaderBytes + kMetaBlockBytes);
  }
  if (content.back() != '\n' || content.find('\n') != content.size() - 1) return std::nullopt;
  content.erase(content.find_last_not_of(" \n") + 1);  // npos + 1 == 0: all blank
  if (content.empty() || content.front() != '{') return std::nullopt;
  content += '\n';
  return content;
}

std::optional<std::size_t> parse_skippable_header(std::string_view bytes) {
  if (bytes.size() < kSkippableHeaderBytes || take<std::uint32_t>(bytes.data()) != kSkippableMagic) {
    return std::nullopt;
  }
  const std::size_t payload = take<std::uint32_t>(bytes.data() + 4);
  if (payload < kFrameInfoFixedBytes + kFrameInfoSumBytes || payload > kFrameInfoMaxBytes)
    return std::nullopt;
  return payload;
}

std::optional<FrameInfo> decode_frame_info(std::string_view payload) {
  if (payload.size() < kFrameInfoFixedBytes + kFrameInfoSumBytes) return std::nullopt;
  const std::size_t summed = payload.size() - kFrameInfoSumBytes;
  if (XXH64(payload.data(), summed, 0) != take<std::uint64_t>(payload.data() + summed)) return std::nullopt;

  const char* p = payload.data();
  if (take<std::uint32_t>(p) != kFrameInfoMagic || take<std::uint32_t>(p + 4) != payload.size())
    return std::nullopt;
  FrameInfo info;
  info.raw_bytes = take<std::uint64_t>(p + 8);
  info.compressed_bytes = take<std::uint64_t>(p + 16);
  info.lines = take<std::uint64_t>(p + 24);
  const std::size_t cursors = take<std::uint32_t>(p + 32);
  const std::size_t more = take<std::uint32_t>(p + 36);
  if (summed != kFrameInfoFixedBytes + cursors * kCursorBytes + more) return std::nullopt;
  if (more >= kFrameRangeBytes) info.range = take_range(p + kFrameInfoFixedBytes + cursors * kCursorBytes);
  info.cursors.reserve(cursors);
  for (std::size_t i = 0; i < cursors; ++i) {
    const char* cursor = p + kFrameInfoFixedBytes + i * kCursorBytes;
    info.cursors.push_back(
        {take<std::uint32_t>(cursor), take<std::uint64_t>(cursor + 8), take<std::uint32_t>(cursor + 4)});
  }
  return info;
}

void put_range(std::string& out, const FrameRange& range) {
  for (const std::uint64_t value :
       {range.first_ns, range.last_ns, range.first_step, range.last_step, range.kinds}) {
    put(out, value);
  }
}

FrameRange take_range(const char* from) {
  FrameRange range;
  for (std::uint64_t* value :
       {&range.first_ns, &range.last_ns, &range.first_step, &range.last_step, &range.kinds}) {
    *value = take<std::uint64_t>(from);
    from += sizeof *value;
  }
  return range;
}

void FrameRange::add(const LineFacts& facts) {
  kinds |= facts.kind ? std::uint64_t{1} << static_cast<unsigned>(*facts.kind) : kUnknownKind;
  if (facts.time_ns) {
    first_ns = std::min(first_ns, *facts.time_ns);
    last_ns = std::max(last_ns, *facts.time_ns);
  }
  if (facts.step) {
    first_step = std::min(first_step, *facts.step);
    last_step = std::max(last_step, *facts.step);
  }
}

void FrameCodec::FreeCompressor::operator()(ZSTD_CCtx_s* context) const { ZSTD_freeCCtx(context); }
void FrameCodec::FreeDecompressor::operator()(ZSTD_DCtx_s* context) const { ZSTD_freeDCtx(context); }

FrameCodec::FrameCodec() : compressor_(ZSTD_createCCtx()), decompressor_(ZSTD_createDCtx()) {
  if (!compressor_ || !decompressor_) throw std::bad_alloc();
  ZSTD_CCtx_setParameter(compressor_.get(), ZSTD_c_compressionLevel, kCompressionLevel);
  ZSTD_CCtx_setParameter(compressor_.get(), ZSTD_c_checksumFlag, 1);
}

Result<std::string_view> FrameCodec::encode(std::string_view lines, const std::vector<Cursor>& cursors) {
  const std::size_t payload =
      kFrameInfoFixedBytes + cursors.size() * kCursorBytes + kFrameRangeBytes + kFrameInfoSumBytes;
  if (payload > kFrameInfoMaxBytes) {
    return Error{ErrorCode::kInvalidArgument,
                 "a frame cannot carry " + std::to_string(cursors.size()) + " cursors"};
  }
  if (lines.size() > kFrameMaxRawBytes) {
    return Error{ErrorCode::kInvalidArgument, "a frame cannot hold " + std::to_string(lines.size()) +
                                                  " bytes of lines; append them in parts of at most 256 MiB"};
  }
  // Compressed behind the room for its FrameInfo, which needs to know the size.
  const std::size_t info_bytes = kSkippableHeaderBytes + payload;
  buffer_.resize(info_bytes + ZSTD_compressBound(lines.size()));
  const std::size_t compressed = ZSTD_compress2(compressor_.get(), buffer_.data() + info_bytes,
                                                buffer_.size() - info_bytes, lines.data(), lines.size());
  if (ZSTD_isError(compressed)) {
    return Error{ErrorCode::kIo, std::string("cannot compress a frame: ") + ZSTD_getErrorName(compressed)};
  }
  buffer_.resize(info_bytes + compressed);

  std::string info;
  info.reserve(info_bytes);
  put(info, kSkippableMagic);
  put(info, static_cast<std::uint32_t>(payload));
  put(info, kFrameInfoMagic);
  put(info, static_cast<std::uint32_t>(payload));
  put(info, static_cast<std::uint64_t>(lines.size()));
  put(info, static_cast<std::uint64_t>(compressed));
  put(info, count_lines(lines));
  put(info, static_cast<std::uint32_t>(cursors.size()));
  put(info, static_cast<std::uint32_t>(kFrameRangeBytes));
  for (const Cursor& cursor : cursors) {
    put(info, cursor.ring);
    put(info, static_cast<std::uint32_t>(cursor.records));
    put(info, cursor.position);
  }
  put_range(info, range_of(lines));
  put(info, static_cast<std::uint64_t>(
                XXH64(info.data() + kSkippableHeaderBytes, info.size() - kSkippableHeaderBytes, 0)));
  buffer_.replace(0, info_bytes, info);
  return std::string_view(buffer_);
}

FrameRange FrameCodec::range_of(std::string_view lines) {
  FrameRange range;
  while (!lines.empty()) {
    const std::size_t end = lines.find('\n');  // there is one: lines end with LF
    const std::string_view line = lines.substr(0, end);
    lines.remove_prefix(end + 1);
    if (!is_blank(line)) range.add(facts_.read(line, 1 + lines.size()));
  }
  return range;
}

std::optional<std::string_view> FrameCodec::decode(const FrameSize& size, std::string_view compressed) {
  if (compressed.size() != size.compressed_bytes || size.raw_bytes > kFrameMaxRawBytes) return std::nullopt;
  if (size.raw_bytes / kMostGrowth > compressed.size()) return std::nullopt;
  if (ZSTD_getFrameContentSize(compressed.data(), compressed.size()) != size.raw_bytes) return std::nullopt;
  if (ZSTD_findFrameCompressedSize(compressed.data(), compressed.size()) != compressed.size())
    return std::nullopt;
  buffer_.resize(size.raw_bytes);
  const std::size_t raw = ZSTD_decompressDCtx(decompressor_.get(), buffer_.data(), buffer_.size(),
                                              compressed.data(), compressed.size());
  if (ZSTD_isError(raw) || raw != size.raw_bytes) return std::nullopt;
  const std::string_view lines = buffer_;
  if (!lines.empty() && lines.back() != '\n') return std::nullopt;
  if (count_lines(lines) != size.lines) return std::nullopt;
  return lines;
}

}  // namespace tensortap::format
