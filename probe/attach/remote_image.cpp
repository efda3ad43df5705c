#include "probe/attach/remote_image.h"

#include <elf.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

namespace tensortap::probe {
namespace {

constexpr std::size_t kMostHeaders = 64;
constexpr std::size_t kMostDynamic = 512;
constexpr std::size_t kMostNotes = 64 * 1024;
constexpr std::size_t kMostChain = 1 << 20;

std::uint32_t gnu_hash(std::string_view name) {
  std::uint32_t hash = 5381;
  for (const char c : name) hash = hash * 33 + static_cast<unsigned char>(c);
  return hash;
}

std::string hex(const unsigned char* bytes, std::size_t size) {
  std::string out;
  for (std::size_t i = 0; i < size; ++i) {
    out += "0123456789abcdef"[bytes[i] >> 4];
    out += "0123456789abcdef"[bytes[i] & 15];
  }
  return out;
}

}  // namespace

std::optional<RemoteImage> RemoteImage::at(const RemoteMemory& memory, std::uint64_t base) {
  RemoteImage image(memory);
  if (!image.read_headers(base) || image.symbols_ == 0 || image.strings_ == 0) return std::nullopt;
  return image;
}

bool RemoteImage::read_headers(std::uint64_t base) {
  Elf64_Ehdr header;
  if (!memory_->get(base, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return false;
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof(Elf64_Phdr)) return false;
  if (header.e_phnum == 0 || header.e_phnum > kMostHeaders) return false;
  std::vector<Elf64_Phdr> segments(header.e_phnum);
  if (!memory_->read(base + header.e_phoff, segments.data(), segments.size() * sizeof segments[0]))
    return false;
  bool loaded = false;
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type != PT_LOAD || loaded) continue;
    bias_ = base - (segment.p_vaddr & ~0xfffULL);
    loaded = true;
  }
  bool dynamic = false;
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type == PT_DYNAMIC) dynamic = read_dynamic(bias_ + segment.p_vaddr, segment.p_memsz);
    if (segment.p_type == PT_NOTE && segment.p_memsz < kMostNotes)
      notes_.emplace_back(bias_ + segment.p_vaddr, segment.p_memsz);
  }
  return loaded && dynamic;
}

bool RemoteImage::read_dynamic(std::uint64_t address, std::uint64_t size) {
  std::vector<Elf64_Dyn> entries(std::min<std::size_t>(size / sizeof(Elf64_Dyn), kMostDynamic));
  if (!memory_->read(address, entries.data(), entries.size() * sizeof entries[0])) return false;
  // glibc's loader writes addresses into the table in memory; what it left as it was is relative.
  const auto absolute = [this](std::uint64_t value) { return value < bias_ ? value + bias_ : value; };
  for (const Elf64_Dyn& entry : entries) {
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_SYMTAB) symbols_ = absolute(entry.d_un.d_ptr);
    if (entry.d_tag == DT_STRTAB) strings_ = absolute(entry.d_un.d_ptr);
    if (entry.d_tag == DT_GNU_HASH) hash_ = absolute(entry.d_un.d_ptr);
    if (entry.d_tag == DT_SONAME) soname_ = entry.d_un.d_val;
  }
  return true;
}

std::optional<std::uint64_t> RemoteImage::symbol(std::string_view name) const {
  std::array<std::uint32_t, 4> head{};  // buckets, first symbol, words of the filter, shift
  if (hash_ == 0 || !memory_->get(hash_, head) || head[0] == 0) return std::nullopt;
  const std::uint32_t wanted = gnu_hash(name);
  const std::uint64_t buckets = hash_ + sizeof head + std::uint64_t{head[2]} * 8;
  const std::uint64_t chains = buckets + std::uint64_t{head[0]} * 4;
  std::uint32_t index = 0;
  if (!memory_->get(buckets + std::uint64_t{wanted % head[0]} * 4, index) || index < head[1])
    return std::nullopt;
  for (std::size_t steps = 0; steps < kMostChain; ++steps, ++index) {
    std::uint32_t hash = 0;
    if (!memory_->get(chains + std::uint64_t{index - head[1]} * 4, hash)) return std::nullopt;
    Elf64_Sym symbol;
    if ((hash | 1) == (wanted | 1) && memory_->get(symbols_ + std::uint64_t{index} * sizeof symbol, symbol) &&
        symbol.st_shndx != SHN_UNDEF && text(strings_ + symbol.st_name) == name) {
      return bias_ + symbol.st_value;
    }
    if ((hash & 1) != 0) break;
  }
  return std::nullopt;
}

std::string RemoteImage::text(std::uint64_t address) const {
  std::string out;
  for (char c = 0; out.size() < 256 && memory_->get(address + out.size(), c) && c != '\0';) out += c;
  return out;
}

std::string RemoteImage::soname() const { return soname_ == 0 ? std::string() : text(strings_ + soname_); }

std::string RemoteImage::build_id() const {
  for (const auto& [address, size] : notes_) {
    std::string found = build_id_in(address, size);
    if (!found.empty()) return found;
  }
  return {};
}

std::string RemoteImage::build_id_in(std::uint64_t address, std::uint64_t size) const {
  std::vector<unsigned char> notes(size);
  if (!memory_->read(address, notes.data(), notes.size())) return {};
  const auto round_up = [](std::size_t value) { return (value + 3) & ~std::size_t{3}; };
  for (std::size_t at = 0; at + sizeof(Elf64_Nhdr) <= notes.size();) {
    Elf64_Nhdr note;
    std::memcpy(&note, notes.data() + at, sizeof note);
    const std::size_t name = at + sizeof note;
    const std::size_t content = round_up(name + note.n_namesz);
    if (content > notes.size() || note.n_descsz > notes.size() - content) break;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
        std::memcmp(notes.data() + name, "GNU", 4) == 0) {
      return hex(notes.data() + content, note.n_descsz);
    }
    at = round_up(content + note.n_descsz);
  }
  return {};
}

}  // namespace tensortap::probe
