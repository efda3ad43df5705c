// Encodes what module calls carry: facts of the module and trees of what it was given and returned
// (format/module_nodes.h).
//
//   NodeWriter nodes(buffer, sizeof buffer);
//   const auto list = nodes.begin(ValueTag::kTuple);
//   nodes.tensor(facts); nodes.scalar("int");
//   nodes.end(list, 2);
//
// What has no room makes the whole of it useless: `full()` says so. C++17; knows no torch.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "format/ring_record.h"
#include "probe/core/values.h"

namespace tensortap::probe {

inline constexpr std::uint32_t kNodeBytes = 4096;  // of one call's arguments, of its output, of its facts

class NodeWriter {
 public:
  using Place = std::uint32_t;

  NodeWriter(unsigned char* to, std::uint32_t room) noexcept : begin_(to), room_(room) {}

  // A node whose `count` is not known yet.
  Place begin(format::ValueTag tag) noexcept {
    const Place place = used_;
    header({tag, 0, 0, 0, 0, 0, 0});
    return place;
  }
  void end(Place place, std::uint32_t count) noexcept {
    if (full_ || count > 0xFFFF) {
      full_ = true;
      return;
    }
    format::ValueHeader head;
    std::memcpy(&head, begin_ + place, sizeof head);
    head.count = static_cast<std::uint16_t>(count);
    std::memcpy(begin_ + place, &head, sizeof head);
  }
  void tensor(const TensorFacts& facts) noexcept {
    header({format::ValueTag::kTensor, facts.dtype, facts.device_type, facts.device_index, facts.ndim,
            facts.flags, 0});
    put(&facts.id, 8);
    put(&facts.storage, 8);
    put(facts.dims, 8u * facts.ndim);
  }
  void none() noexcept { header({format::ValueTag::kNone, 0, 0, 0, 0, 0, 0}); }
  void boolean(bool value) noexcept {
    header({format::ValueTag::kBool, 0, 0, 0, 0, 0, static_cast<std::uint16_t>(value ? 1 : 0)});
  }
  void integer(std::int64_t value) noexcept {
    header({format::ValueTag::kInt, 0, 0, 0, 0, 0, 0});
    put(&value, 8);
  }
  void real(double value) noexcept {
    header({format::ValueTag::kDouble, 0, 0, 0, 0, 0, 0});
    put(&value, 8);
  }
  void integers(const std::int64_t* items, std::uint32_t count) noexcept {
    header({format::ValueTag::kIntList, 0, 0, 0, 0, 0, static_cast<std::uint16_t>(count)});
    put(items, 8u * count);
  }
  void reals(const double* items, std::uint32_t count) noexcept {
    header({format::ValueTag::kDoubleList, 0, 0, 0, 0, 0, static_cast<std::uint16_t>(count)});
    put(items, 8u * count);
  }
  void string(std::string_view text) noexcept { chars(format::ValueTag::kString, text); }
  void scalar(std::string_view type) noexcept { chars(format::ValueTag::kScalar, type); }
  void object(std::string_view type) noexcept { chars(format::ValueTag::kObject, type); }
  void count_at(Place place, std::int64_t value) noexcept {  // of an integer() written before
    if (!full_) std::memcpy(begin_ + place + sizeof(format::ValueHeader), &value, 8);
  }

  Place here() const noexcept { return used_; }
  // Takes back what was written from there on.
  void back_to(Place place) noexcept { used_ = place; }
  std::uint32_t bytes() const noexcept { return full_ ? 0 : used_; }
  const unsigned char* data() const noexcept { return begin_; }
  bool full() const noexcept { return full_; }

 private:
  void chars(format::ValueTag tag, std::string_view text) noexcept {
    if (text.size() > 512) text = text.substr(0, 512);
    header({tag, 0, 0, 0, 0, 0, static_cast<std::uint16_t>(text.size())});
    put(text.data(), static_cast<std::uint32_t>(text.size()));
    static constexpr char kZeros[8] = {};
    put(kZeros, static_cast<std::uint32_t>(format::round_up_8(text.size()) - text.size()));
  }
  void header(const format::ValueHeader& head) noexcept { put(&head, sizeof head); }
  void put(const void* from, std::uint32_t bytes) noexcept {
    if (full_ || room_ - used_ < bytes) {
      full_ = true;
      return;
    }
    if (bytes != 0) std::memcpy(begin_ + used_, from, bytes);
    used_ += bytes;
  }

  unsigned char* begin_;
  std::uint32_t room_;
  std::uint32_t used_ = 0;
  bool full_ = false;
};

}  // namespace tensortap::probe
