// Names as numbers: every distinct text is kept once. Bounded: a job that makes names up without end (a range
// per sample) gets the number of kOtherNames for what comes after the first kMostNames or kMostBytes,
// and the report says so.
//
// Ownership: keeps copies; texts stay where they are. Thread rules: one thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

namespace tensortap::analyzers {

using NameId = std::uint32_t;
inline constexpr NameId kNoName = 0xFFFFFFFFu;

class NameTable {
 public:
  static constexpr std::size_t kMostNames = 100000;
  static constexpr std::size_t kMostBytes = std::size_t{64} << 20;  // of all texts
  static constexpr std::string_view kOtherNames = "(further names)";

  NameId intern(std::string_view text) {
    if (const auto found = ids_.find(text); found != ids_.end()) return found->second;
    if (texts_.size() >= kMostNames || bytes_ + text.size() > kMostBytes) {
      ++folded_;
      text = kOtherNames;
      if (const auto found = ids_.find(text); found != ids_.end()) return found->second;
    }
    bytes_ += text.size();
    texts_.emplace_back(text);
    const auto id = static_cast<NameId>(texts_.size() - 1);
    ids_.emplace(texts_.back(), id);
    return id;
  }
  std::string_view text(NameId id) const { return id < texts_.size() ? std::string_view(texts_[id]) : ""; }
  std::uint64_t folded() const { return folded_; }

 private:
  std::deque<std::string> texts_;  // a deque: views into it stay valid
  std::unordered_map<std::string_view, NameId> ids_;
  std::size_t bytes_ = 0;
  std::uint64_t folded_ = 0;
};

}  // namespace tensortap::analyzers
