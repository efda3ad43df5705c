#include "probe/launch/elf_segments.h"

#include <elf.h>

#include <cstring>
#include <fstream>

namespace tensortap::probe {

std::vector<std::string> elf_segments(const std::string& path, std::uint32_t type, std::size_t most) {
  std::vector<std::string> found;
  std::ifstream file(path, std::ios::binary);
  Elf64_Ehdr header{};
  if (!file.read(reinterpret_cast<char*>(&header), sizeof header)) return found;
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64)
    return found;
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    file.seekg(static_cast<std::streamoff>(header.e_phoff) + i * header.e_phentsize);
    if (!file.read(reinterpret_cast<char*>(&segment), sizeof segment)) return found;
    if (segment.p_type != type || segment.p_filesz > most) continue;
    std::string bytes(segment.p_filesz, '\0');
    file.seekg(static_cast<std::streamoff>(segment.p_offset));
    if (!file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()))) return found;
    found.push_back(std::move(bytes));
  }
  return found;
}

}  // namespace tensortap::probe
