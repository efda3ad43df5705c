// Where a command's output goes: standard output, or a file that takes its name only when it is whole.
//
//   auto out = OutputFile::open("part.jsonl");          // "" or "-": standard output
//   (*out)->write("{…}\n");
//   Status status = (*out)->close();                    // only now the file has its name
//
// A regular file is written beside its place, as NAME.XXXXXX, and renamed: a disk that is full leaves what
// was there before, and two that write one name do not meet. A symbolic link is followed, so its target is
// what is replaced. A file that is replaced hands on its mode, and its owner where that may be; a new one is
// 0640 less the umask, for a trace tells the job's command line. What is no regular file (a pipe, /dev/null),
// or is what standard output goes to already, is written at once.
//
// Thread rules: one thread at a time; `open` while no other thread makes files (it looks at the umask).
#pragma once

#include <memory>
#include <optional>
#include <streambuf>
#include <string>
#include <string_view>

#include "format/io.h"
#include "format/result.h"

namespace tensortap::analyzers {

class OutputFile {
 public:
  static format::Result<std::unique_ptr<OutputFile>> open(const std::string& path);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();  // without close(): nothing is left of a file, and what stood there stands

  // Buffered. The first error is every later call's too.
  format::Status write(std::string_view bytes);
  // Nothing may be written behind it.
  format::Status close();

  // For a writer that has its own way of filling a file (a trace file): the still empty file, and its name
  // until close(). Of a file that is renamed only.
  format::FileDescriptor duplicate() const;
  const std::string& name() const { return name_; }  // for messages
  const std::string& temporary() const { return temporary_; }
  bool is_renamed() const { return !temporary_.empty(); }

 private:
  OutputFile() = default;
  format::Status create_beside(const std::string& target);
  format::Status flush(std::string_view bytes);

  format::FileDescriptor file_;  // none: standard output
  std::string name_;
  std::string target_;     // with links followed
  std::string temporary_;  // "" when it is written in place, or closed
  std::string buffer_;
  std::optional<format::Error> error_;
};

// For `std::ostream stream(&buffer)`; the file's close() says whether all went well.
class OutputBuffer final : public std::streambuf {
 public:
  explicit OutputBuffer(OutputFile& file) : file_(file) {}

 private:
  std::streamsize xsputn(const char* bytes, std::streamsize size) override;
  int_type overflow(int_type byte) override;

  OutputFile& file_;
};

// Whether writing to `output` ("" or "-": standard output) would destroy the regular file that `input` ("-":
// standard input) is, by any name or link. Asked before anything is opened.
bool would_replace(const std::string& output, const std::string& input);
std::string replacement_text(const std::string& input);  // the refusal, for people

// The path without symbolic links at its end, also when the last of them points to nothing.
std::string follow_links(const std::string& path);

}  // namespace tensortap::analyzers
