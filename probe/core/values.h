// Encodes an operator's arguments and outputs into a thread's arena, in the form that ring_record.h
// describes.
//
//   ValueWriter values(state.arena + state.arena_used, kInputBytes);
//   values.integer(3); values.tensor({…});
//   frame.inputs = values.count(); frame.inputs_bytes = values.bytes();
//
// What has no room is left out and `cut()` says so. C++17; knows no torch.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "format/ring_record.h"

namespace tensortap::probe {

inline constexpr std::uint32_t kInputBytes = 10 * 1024;  // of one operator's arguments
inline constexpr std::uint32_t kOutputBytes = 5 * 1024;  // and of its outputs: together below kMaxRecordBytes

struct TensorFacts {
  std::uint64_t id = 0;
  std::uint64_t storage = 0;
  const std::int64_t* dims = nullptr;
  std::uint8_t ndim = 0;
  std::uint8_t dtype = 0;
  std::uint8_t device_type = 0;
  std::int8_t device_index = -1;
  std::uint8_t flags = 0;
};

class ValueWriter {
 public:
  ValueWriter(unsigned char* to, std::uint32_t room) noexcept : begin_(to), at_(to), end_(to + room) {}

  void tensor(const TensorFacts& facts) noexcept {
    const std::uint32_t bytes = 24 + 8u * facts.ndim;
    if (__builtin_expect(!room_for(bytes), 0)) return;
    unsigned char* to = at_;
    at_ += bytes;
    const format::ValueHeader head{format::ValueTag::kTensor,
                                   facts.dtype,
                                   facts.device_type,
                                   facts.device_index,
                                   facts.ndim,
                                   facts.flags,
                                   0};
    std::memcpy(to, &head, 8);
    std::memcpy(to + 8, &facts.id, 8);
    std::memcpy(to + 16, &facts.storage, 8);
    for (std::uint32_t i = 0; i < facts.ndim; ++i) std::memcpy(to + 24 + 8 * i, facts.dims + i, 8);
    counted();
  }
  void integer(std::int64_t value) noexcept { scalar(format::ValueTag::kInt, &value); }
  void real(double value) noexcept { scalar(format::ValueTag::kDouble, &value); }
  void boolean(bool value) noexcept { plain(format::ValueTag::kBool, value ? 1 : 0); }
  void none() noexcept { plain(format::ValueTag::kNone, 0); }
  void other() noexcept { plain(format::ValueTag::kOther, 0); }
  void text(std::string_view value) noexcept {
    const auto length = static_cast<std::uint16_t>(
        value.size() < format::kMaxStringBytes ? value.size() : format::kMaxStringBytes);
    const auto padded = static_cast<std::uint32_t>(format::round_up_8(length));
    if (!room_for(8 + padded)) return;
    header({format::ValueTag::kString, 0, 0, 0, 0, 0, length});
    std::memset(at_, 0, padded);
    std::memcpy(at_, value.data(), length);
    at_ += padded;
    counted();
  }
  // Lists (`size` may be greater than what is read): longer ones are cut to kMaxListItems.
  void integers(const std::int64_t* items, std::size_t size) noexcept {
    list(format::ValueTag::kIntList, items, size);
  }
  void reals(const double* items, std::size_t size) noexcept {
    list(format::ValueTag::kDoubleList, items, size);
  }
  void booleans(const std::uint8_t* items, std::size_t size) noexcept {
    const auto kept = static_cast<std::uint32_t>(size < format::kMaxListItems ? size : format::kMaxListItems);
    const auto padded = static_cast<std::uint32_t>(format::round_up_8(kept));
    if (!room_for(8 + padded)) return;
    header({format::ValueTag::kBoolList, 0, 0, 0, 0, 0, static_cast<std::uint16_t>(kept)});
    std::memset(at_, 0, padded);
    std::memcpy(at_, items, kept);
    at_ += padded;
    if (kept < size) cut_ = true;
    counted();
  }
  // A list of `total` tensors: begin, tensor() for each until it says false, end.
  bool begin_tensors(std::uint64_t total) noexcept {
    if (!room_for(16)) return false;
    list_header_ = at_;
    list_items_ = 0;
    header({format::ValueTag::kTensorList, 0, 0, 0, 0, 0, 0});
    put(&total, 8);
    return true;
  }
  bool list_full() const noexcept { return full_ || list_items_ >= format::kMaxTensorItems; }
  void end_tensors(std::uint64_t total) noexcept {
    format::ValueHeader head;
    std::memcpy(&head, list_header_, sizeof head);
    head.count = static_cast<std::uint16_t>(list_items_);
    std::memcpy(list_header_, &head, sizeof head);
    if (list_items_ < total) cut_ = true;
    list_header_ = nullptr;
    ++count_;
  }

  std::uint16_t count() const noexcept { return count_; }
  std::uint32_t bytes() const noexcept { return static_cast<std::uint32_t>(at_ - begin_); }
  bool full() const noexcept { return full_; }         // nothing more has room
  bool cut() const noexcept { return cut_ || full_; }  // something was left out

 private:
  bool room_for(std::uint32_t bytes) noexcept {
    if (static_cast<std::uint32_t>(end_ - at_) >= bytes && !full_) return true;
    full_ = true;
    return false;
  }
  void put(const void* from, std::uint32_t bytes) noexcept {
    std::memcpy(at_, from, bytes);
    at_ += bytes;
  }
  void header(format::ValueHeader head) noexcept { put(&head, sizeof head); }
  void counted() noexcept { list_header_ != nullptr ? ++list_items_ : ++count_; }
  void plain(format::ValueTag tag, std::uint16_t value) noexcept {
    if (!room_for(8)) return;
    header({tag, 0, 0, 0, 0, 0, value});
    counted();
  }
  template <class T>
  void scalar(format::ValueTag tag, const T* value) noexcept {
    if (!room_for(16)) return;
    header({tag, 0, 0, 0, 0, 0, 0});
    put(value, 8);
    counted();
  }
  template <class T>
  void list(format::ValueTag tag, const T* items, std::size_t size) noexcept {
    const auto kept = static_cast<std::uint32_t>(size < format::kMaxListItems ? size : format::kMaxListItems);
    if (!room_for(8 + 8 * kept)) return;
    header({tag, 0, 0, 0, 0, 0, static_cast<std::uint16_t>(kept)});
    put(items, 8 * kept);
    if (kept < size) cut_ = true;
    counted();
  }

  unsigned char* begin_;
  unsigned char* at_;
  unsigned char* end_;
  unsigned char* list_header_ = nullptr;
  std::uint32_t list_items_ = 0;
  std::uint16_t count_ = 0;
  bool cut_ = false;
  bool full_ = false;
};

}  // namespace tensortap::probe
