// Any bytes as a file: what must hold of the input side and of the container, whatever they are. For the
// fuzzer (fuzz_container.cpp) and for a test that feeds it small files and damaged ones
// (unit/format_container_fuzz_test.cpp).
//
//   check_any_file(data, size);     // aborts on a broken promise
//
// The first byte says how the rest is meant: odd: as the whole file; even: behind an intact meta frame, so
// that inputs stay small.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "format/byte_source.h"
#include "format/container.h"
#include "format/frame.h"
#include "format/io.h"
#include "format/line_blocks.h"
#include "format/trace_index.h"
#include "format/trace_reader.h"

namespace tensortap::format::fuzzing {

inline constexpr std::size_t kMostTextBytes = 1024 * 1024;  // of a bomb, more is not waited for

inline void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

// A file in memory, with a path.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : fd_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    require(fd_ && write_at(fd_.get(), bytes, 0), "a file in memory");
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_.get()); }

 private:
  FileDescriptor fd_;
};

inline void check_source(const std::string& path) {
  auto source = ByteSource::open(path);
  require(source.ok(), "the file opens");
  LineBlocks blocks(std::move(*source), 4096, 1024 * 1024);
  std::string_view block;
  std::size_t bytes = 0;
  while (bytes < kMostTextBytes && blocks.next(block)) {
    require(!block.empty(), "a block is not empty");
    bytes += block.size();
  }
  if (blocks.error()) require(!blocks.error()->message.empty(), "an error has a message");
  if (blocks.error()) require(!blocks.truncated(), "damaged is not truncated");
}

// The text of all frames that can be read; `good` tells whether all can.
inline std::string text_of(const TraceIndex& index, bool& good) {
  FrameCodec codec;
  std::string text = index.meta_line();
  std::uint64_t line = 2;
  good = index.rest() == index.file_bytes();
  for (const FrameEntry& frame : index.frames()) {
    require(frame.first_line == line && frame.end() <= index.file_bytes(),
            "frames are in order, in the file");
    line += frame.lines;
    const auto lines = index.read(frame, codec);
    good = good && lines.ok();
    if (text.size() > kMostTextBytes) break;
    if (lines) text += *lines;
  }
  return text;
}

inline void check_container(const std::string& path) {
  {
    const auto index = TraceIndex::open(path);
    bool good = false;
    if (index) text_of(*index, good);
  }
  auto opened = TraceFileWriter::open_for_append(path);
  if (!opened) {
    require(!opened.error().message.empty(), "an error has a message");
    return;
  }
  auto& [writer, kept] = *opened;
  bool good = false;
  const std::string before = text_of(*TraceIndex::open(path), good);
  require(writer.append("{\"kind\":\"op\",\"timestamp_ns\":7}\n", {{1, 2}}).ok(), "a frame is appended");
  const bool finished = writer.finish().ok();
  const auto again = TraceIndex::open(path);
  require(again.ok() && finished && again->has_seek_table(), "what was opened can be finished");
  bool still_good = false;
  const std::string after = text_of(*again, still_good);
  require(after.substr(0, before.size()) == before || before.size() > kMostTextBytes, "what was there stays");
  const auto reopened = TraceFileWriter::open_for_append(path);
  require(reopened.ok() && reopened->second.cut_bytes == 0, "what was finished is whole");
  require(reopened->second.lines == kept.lines + 1, "with one line more");
}

inline void check_any_file(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return;
  std::string bytes;
  if (data[0] % 2 == 0) bytes = encode_meta_frame("{\"kind\":\"meta\"}\n", kMetaBlockBytes);
  bytes.append(reinterpret_cast<const char*>(data) + 1, size - 1);
  const MemoryFile file(bytes);
  check_source(file.path());
  check_container(file.path());
}

}  // namespace tensortap::format::fuzzing
