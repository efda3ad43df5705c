// Disk space for what does not fit into the memory that a table may use: an unlinked temporary file, in
// $TMPDIR or /var/tmp (the place for large ones: /tmp may be memory).
//
//   SpillFile file;                                   // nothing is made yet
//   if (file.write(offset, bytes, size)) …            // false: no disk space; the caller keeps it in memory
//   file.read(offset, bytes, size);
//
// Thread rules: one thread at a time. Not for the job's process.
#pragma once

#include <cstddef>
#include <cstdint>

#include "format/io.h"

namespace tensortap::format {

class SpillFile {
 public:
  // False when the file cannot be made or is full: nothing is lost then, the caller still has the bytes. Once
  // false it stays so.
  bool write(std::uint64_t offset, const void* bytes, std::size_t size);
  // What was written before. Throws std::runtime_error when the disk does not give it back: the data is lost.
  void read(std::uint64_t offset, void* bytes, std::size_t size) const;

 private:
  bool make();

  FileDescriptor file_;
  bool refused_ = false;
};

}  // namespace tensortap::format
