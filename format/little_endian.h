// Numbers in the trace file's frames: little endian, whatever the machine.
//
//   put(out, std::uint32_t{7});             // appends 4 bytes
//   take<std::uint32_t>(bytes)              // 7; the caller has checked that they are there
//
// Thread rules: no state.
#pragma once

#include <cstddef>
#include <string>

namespace tensortap::format {

template <class T>
void put(std::string& out, T value, std::size_t bytes = sizeof(T)) {
  for (std::size_t i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xFF);
}

template <class T>
T take(const char* from, std::size_t bytes = sizeof(T)) {
  T value = 0;
  for (std::size_t i = 0; i < bytes; ++i)
    value |= static_cast<T>(static_cast<unsigned char>(from[i])) << (8 * i);
  return value;
}

}  // namespace tensortap::format
