// Where cut lines go: a plain .jsonl, or a trace file of ours.
//
//   auto sink = make_line_sink("part.jsonl.zst");       // "" or "-": standard output
//   (*sink)->write("{…}\n{…}\n");
//   (*sink)->close();                                   // only now the file has its name
//
// Thread rules: one thread at a time.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "format/result.h"

namespace tensortap::analyzers {

class LineSink {
 public:
  virtual ~LineSink() = default;  // without close(): nothing is left of a file
  // The first write is the meta line, alone. Lines end with LF; the last one of a plain file may lack it.
  virtual format::Status write(std::string_view lines) = 0;
  virtual format::Status close() = 0;
  // Takes one trace, of whole lines.
  virtual bool is_container() const { return false; }
};

// By the name: `*.zst` is a trace file of ours (container.h), anything else plain. How it is written: see
// output/output_file.h; what is no regular file is plain whatever its name.
format::Result<std::unique_ptr<LineSink>> make_line_sink(const std::string& path);

}  // namespace tensortap::analyzers
