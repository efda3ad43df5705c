// The bytes of a file, uncompressed, in bounded memory: plain text, any zstd stream (several frames,
// skippable ones between), gzip (several members). What a file is, is told by its first bytes, not by its
// name.
//
//   auto source = ByteSource::open(path);                       // "-": standard input
//   if (!source) …;
//   char buffer[65536];
//   while (std::size_t got = source->read(buffer, sizeof buffer)) use(buffer, got);
//   if (source->error()) …;                                     // what came before it is good
//
// Thread rules: one thread at a time. Not for the job's process (links zstd and zlib).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "format/result.h"

namespace tensortap::format {

class ByteSource {
 public:
  static Result<ByteSource> open(const std::string& path);
  // The zstd frames of a file from byte `offset` of it on, where one must begin.
  static Result<ByteSource> open_zstd(const std::string& path, std::uint64_t offset);
  ByteSource(ByteSource&&) noexcept;
  ByteSource& operator=(ByteSource&&) noexcept;
  ~ByteSource();

  // Up to `room` bytes to `to`; 0 at the end of the input and when an error ended it, never else.
  std::size_t read(char* to, std::size_t room);

  // After the end: why it came early. kIo, or kMalformed with the stored byte near the damage in its message.
  const std::optional<Error>& error() const;
  // After the end: the input ends inside a frame or member (or inside its header).
  bool truncated() const;

  const std::string& name() const;     // for messages
  std::uint64_t stored_bytes() const;  // how much of the file was used, as it is stored

 private:
  struct Impl;
  explicit ByteSource(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tensortap::format
