#include "format/line_blocks.h"

#include <cstring>
#include <utility>

namespace tensortap::format {

LineBlocks::LineBlocks(ByteSource source, std::size_t block_bytes, std::size_t most_line_bytes)
    : source_(std::move(source)), most_line_bytes_(most_line_bytes), text_(block_bytes, '\0') {}

bool LineBlocks::next(std::string_view& block) {
  std::memmove(text_.data(), text_.data() + block_, end_ - block_);
  end_ -= std::exchange(block_, 0);
  while (!ended_) {
    if (end_ == text_.size()) {  // all of it is one line
      if (end_ >= most_line_bytes_) {
        error_ =
            Error{ErrorCode::kMalformed,
                  "a line is longer than " + std::to_string(most_line_bytes_ >> 20) + " MiB: not a trace",
                  source_.name()};
        ended_ = true;
        end_ = 0;
        return false;
      }
      text_.resize(2 * text_.size());
    }
    const std::size_t searched = end_;
    const std::size_t got = source_.read(text_.data() + end_, text_.size() - end_);
    end_ += got;
    if (got == 0) {
      ended_ = true;
      error_ = source_.error();
      break;
    }
    const std::size_t lf = std::string_view(text_).substr(searched, got).rfind('\n');
    if (lf == std::string_view::npos) continue;
    block_ = searched + lf + 1;
    block = std::string_view(text_).substr(0, block_);
    return true;
  }
  block_ = end_;
  block = std::string_view(text_).substr(0, block_);
  return !block.empty();
}

std::size_t LineBlocks::readable_behind() const { return text_.size() - block_; }

}  // namespace tensortap::format
