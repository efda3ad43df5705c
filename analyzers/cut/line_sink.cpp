#include "analyzers/cut/line_sink.h"

#include <optional>
#include <utility>

#include "analyzers/output/output_file.h"
#include "format/container.h"
#include "format/text.h"

namespace tensortap::analyzers {
namespace {

using format::Result;
using format::Status;
using format::TraceFileWriter;

constexpr std::size_t kBufferBytes = 1024 * 1024;

class PlainSink final : public LineSink {
 public:
  explicit PlainSink(std::unique_ptr<OutputFile> file) : file_(std::move(file)) {}
  Status write(std::string_view lines) override { return file_->write(lines); }
  Status close() override { return file_->close(); }

 private:
  std::unique_ptr<OutputFile> file_;
};

class ContainerSink final : public LineSink {
 public:
  explicit ContainerSink(std::unique_ptr<OutputFile> file) : file_(std::move(file)) {}
  bool is_container() const override { return true; }

  Status write(std::string_view lines) override {
    if (!writer_) return begin(lines);
    lines_ += lines;
    if (!lines_.empty() && lines_.back() != '\n') lines_ += '\n';
    return lines_.size() < kBufferBytes ? Status() : flush();
  }

  Status close() override {
    if (!writer_) return {};
    if (Status status = flush(); !status) return status;
    if (Status status = writer_->finish(); !status) return named(status.error());
    return file_->close();
  }

 private:
  Status begin(std::string_view meta_line) {
    auto created = TraceFileWriter::create(file_->duplicate(), file_->temporary(),
                                           std::string(format::trim(meta_line)) + '\n');
    if (!created) return named(created.error());
    writer_.emplace(std::move(*created));
    return {};
  }

  // In frames of about a buffer, whatever came in one piece.
  Status flush() {
    std::string_view rest = lines_;
    while (!rest.empty()) {
      const std::size_t end =
          rest.size() <= 2 * kBufferBytes ? rest.size() : rest.find('\n', kBufferBytes) + 1;
      if (Status status = writer_->append(rest.substr(0, end), {}); !status) return named(status.error());
      rest.remove_prefix(end);
    }
    lines_.clear();
    return {};
  }

  // With the name that the user gave, not that of now.
  format::Error named(format::Error error) const {
    const std::string& temporary = file_->temporary();
    const std::size_t at = error.message.find(temporary);
    if (at != std::string::npos) error.message.replace(at, temporary.size(), file_->name());
    return error;
  }

  std::unique_ptr<OutputFile> file_;
  std::optional<TraceFileWriter> writer_;
  std::string lines_;
};

}  // namespace

Result<std::unique_ptr<LineSink>> make_line_sink(const std::string& path) {
  auto file = OutputFile::open(path);
  if (!file) return file.error();
  if (path.ends_with(".zst") && (*file)->is_renamed())
    return std::unique_ptr<LineSink>(std::make_unique<ContainerSink>(std::move(*file)));
  return std::unique_ptr<LineSink>(std::make_unique<PlainSink>(std::move(*file)));
}

}  // namespace tensortap::analyzers
