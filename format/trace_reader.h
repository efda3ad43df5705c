// Reads a whole trace, line by line, in bounded memory: `.jsonl`, any zstd stream, gzip, "-" = standard
// input (byte_source.h).
//
//   auto reader = TraceReader::open(path);
//   if (!reader) …;
//   ReadReport report = reader->read_all(visitor);   // goes on behind bad lines, and counts them
//
// Thread rules: one reader per thread. It starts threads of its own only in `read_all`, and they end with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/event.h"
#include "format/result.h"

namespace tensortap::format {

struct ReadReport {
  std::uint64_t records = 0;    // lines that were good
  std::uint64_t bad_lines = 0;  // lines that were refused
  std::uint64_t raw_bytes = 0;  // of the uncompressed stream
  std::vector<Error> errors;    // the first 20, each with file, line and byte offset
  bool truncated = false;       // the input ends inside a line or frame; what came before was used
  bool is_trace = false;        // the first record is a `meta` with a schema that we read
};

struct ReadOptions {
  // That parse, in `read_all`, beside the caller's: 0 = as many as this process has cores, 1 = none.
  unsigned threads = 0;
  // So many bytes are parsed by one thread at once.
  std::size_t chunk_bytes = 1024 * 1024;
};

class TraceReader {
 public:
  static Result<TraceReader> open(const std::string& path, const ReadOptions& options = {});
  TraceReader(TraceReader&&) noexcept;
  TraceReader& operator=(TraceReader&&) noexcept;
  ~TraceReader();

  // The next line without its LF, or nothing at the end. Skips nothing; blank lines are handed out too.
  // `truncated()` says afterwards whether the end came inside a frame or in a line without LF (which may be
  // whole).
  bool next_line(std::string_view& line, Place& place);
  bool truncated() const;
  const std::optional<Error>& stream_error() const;  // an I/O or decompression error that ended the reading

  // Parses everything that is left. Blank lines are skipped; bad lines are counted. The visitor is called on
  // this thread only, whatever the number of threads, and sees the same.
  ReadReport read_all(EventVisitor& visitor);

 private:
  struct Impl;
  explicit TraceReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tensortap::format
