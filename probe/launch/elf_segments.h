// What lies in the segments of one type of an ELF file: its notes, the name of its loader.
//
// Thread rules: reads the file, nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tensortap::probe {

// The bytes of each segment of `type` (PT_NOTE, PT_INTERP) that is at most `most` bytes long. What can't be
// read to its end, or is no 64-bit ELF file, yields what was read of it.
std::vector<std::string> elf_segments(const std::string& path, std::uint32_t type, std::size_t most);

}  // namespace tensortap::probe
