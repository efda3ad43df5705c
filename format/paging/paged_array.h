// An array of any length in bounded memory: the pages used last stay in memory, the others lie in a temporary
// file. What is used together should lie together (spans of the same moment do).
//
//   PagedArray<SpanRow> spans(8 << 20);      // about 8 MiB in memory, whatever the length
//   const std::size_t at = spans.push_back(row);
//   spans.edit(at).duration_ns = 5;          // a reference is good until the next call on the same array
//   const SpanRow& row = spans[at];
//
// Memory: the budget, and 12 bytes for each page of 16 KiB. When there is no disk space the pages stay in
// memory. T is trivially copyable. Thread rules: one thread at a time, reading too.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "format/paging/spill_file.h"

namespace tensortap::format {

template <class T>
class PagedArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit PagedArray(std::size_t resident_bytes = std::size_t{8} << 20)
      : max_frames_(std::max<std::size_t>(4, resident_bytes / kPageBytes)) {}

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  // The new element's index.
  std::size_t push_back(const T& value) {
    if (size_ % kPerPage == 0) add_page();
    page(size_ / kPerPage, true)[size_ % kPerPage] = value;
    return size_++;
  }
  // Makes the array at least `size` long, filled with `value`.
  void grow(std::size_t size, const T& value = T{}) {
    while (size_ < size) push_back(value);
  }

  const T& operator[](std::size_t index) const {
    return const_cast<PagedArray*>(this)->page(index / kPerPage, false)[index % kPerPage];
  }
  T& edit(std::size_t index) { return page(index / kPerPage, true)[index % kPerPage]; }

  template <class Take>
  void for_each(Take take) const {
    for (std::size_t i = 0; i < size_; ++i) take((*this)[i]);
  }

 private:
  static constexpr std::size_t kPerPage =
      std::bit_floor(std::max<std::size_t>(1, (std::size_t{16} << 10) / sizeof(T)));
  static constexpr std::size_t kPageBytes = kPerPage * sizeof(T);
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  struct Frame {
    std::unique_ptr<T[]> items;
    std::uint32_t page = kNone;
    bool dirty = false;
    bool used = false;  // since the hand of the clock passed
  };

  T* page(std::size_t number, bool for_change) {
    if (number == last_page_) {  // the usual case: the page of the call before
      last_->dirty |= for_change;
      return last_->items.get();
    }
    std::uint32_t at = frame_of_[number];
    if (at == kNone) at = load(number);
    Frame& frame = frames_[at];
    frame.used = true;
    frame.dirty |= for_change;
    last_page_ = number;
    last_ = &frame;
    return frame.items.get();
  }

  void add_page() {
    const std::size_t number = frame_of_.size();
    frame_of_.push_back(kNone);
    stored_.push_back(false);
    take_frame(number);
  }

  std::uint32_t load(std::size_t number) {
    const std::uint32_t at = take_frame(number);
    if (stored_[number]) file_.read(number * kPageBytes, frames_[at].items.get(), kPageBytes);
    frames_[at].dirty = false;
    return at;
  }

  // A frame for the page: a new one, or that of a page not used lately.
  std::uint32_t take_frame(std::size_t number) {
    last_page_ = static_cast<std::size_t>(-1);
    std::uint32_t at = frames_.size() < max_frames_ ? kNone : evict();
    if (at == kNone) {
      at = static_cast<std::uint32_t>(frames_.size());
      frames_.push_back({std::make_unique<T[]>(kPerPage)});
    }
    Frame& frame = frames_[at];
    frame.page = static_cast<std::uint32_t>(number);
    frame.dirty = frame.used = true;
    frame_of_[number] = at;
    return at;
  }

  // kNone: nothing could be written, so nothing can go.
  std::uint32_t evict() {
    while (true) {
      hand_ = (hand_ + 1) % frames_.size();
      Frame& frame = frames_[hand_];
      if (std::exchange(frame.used, false)) continue;
      if (frame.dirty &&
          !file_.write(frame.page * std::uint64_t{kPageBytes}, frame.items.get(), kPageBytes)) {
        max_frames_ = static_cast<std::size_t>(-1);
        return kNone;
      }
      if (frame.dirty) stored_[frame.page] = true;
      frame_of_[frame.page] = kNone;
      return static_cast<std::uint32_t>(hand_);
    }
  }

  std::size_t size_ = 0;
  std::size_t max_frames_;
  std::vector<Frame> frames_;
  std::vector<std::uint32_t> frame_of_;  // by page
  std::vector<bool> stored_;             // by page: the file has it
  std::size_t hand_ = 0;
  std::size_t last_page_ = static_cast<std::size_t>(-1);
  Frame* last_ = nullptr;
  SpillFile file_;
};

}  // namespace tensortap::format
