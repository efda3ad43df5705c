// An ELF image (x86-64) mapped in another process: symbols, soname and build-id out of its memory, so that a
// library whose file was replaced since is no obstacle.
//
// Thread rules: none of its own; the image must stay mapped. Nothing in it is trusted: counts and offsets are
// bounded.
//
//   auto libc = RemoteImage::at(memory, base);
//   if (auto address = libc->symbol("dlopen")) …
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "probe/attach/remote_memory.h"

namespace tensortap::probe {

class RemoteImage {
 public:
  // `base`: where the mapping of the file's offset 0 begins. nullopt: no 64-bit ELF image with a dynamic
  // section.
  static std::optional<RemoteImage> at(const RemoteMemory& memory, std::uint64_t base);

  // Address of an exported symbol, by the GNU hash table.
  std::optional<std::uint64_t> symbol(std::string_view name) const;
  std::string soname() const;
  std::string build_id() const;  // lower-case hex, "" when it has none

 private:
  explicit RemoteImage(const RemoteMemory& memory) : memory_(&memory) {}
  bool read_headers(std::uint64_t base);
  bool read_dynamic(std::uint64_t address, std::uint64_t size);
  std::string build_id_in(std::uint64_t notes, std::uint64_t size) const;
  std::string text(std::uint64_t address) const;

  const RemoteMemory* memory_;
  std::uint64_t bias_ = 0;
  std::uint64_t symbols_ = 0, strings_ = 0, hash_ = 0;          // addresses
  std::uint64_t soname_ = 0;                                    // offset into the strings; 0 = none
  std::vector<std::pair<std::uint64_t, std::uint64_t>> notes_;  // address, size
};

}  // namespace tensortap::probe
