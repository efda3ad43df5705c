#include "probe/torch/self_memory.h"

#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace tensortap::probe {
namespace {

#ifdef IOV_MAX
constexpr std::size_t kMaxPieces = IOV_MAX < 512 ? IOV_MAX : 512;
#else
constexpr std::size_t kMaxPieces = 512;
#endif

}  // namespace

void SelfMemory::read(std::vector<Piece>* pieces) {
  std::size_t next = 0;
  while (next < pieces->size()) {
    if (no_readv_) {
      Piece& piece = (*pieces)[next++];
      piece.ok = by_file(&piece);
      continue;
    }
    iovec to[kMaxPieces];
    iovec from[kMaxPieces];
    const std::size_t count = std::min(pieces->size() - next, kMaxPieces);
    for (std::size_t i = 0; i < count; ++i) {
      const Piece& piece = (*pieces)[next + i];
      to[i] = {piece.to, piece.bytes};
      from[i] = {reinterpret_cast<void*>(piece.from), piece.bytes};
    }
    const ssize_t got = process_vm_readv(getpid(), to, count, from, count, 0);
    if (got < 0 && errno != EFAULT) {  // forbidden here, or unknown
      no_readv_ = true;
      continue;
    }
    // It stops at the first piece that can't be read; that one is left out, the others follow.
    std::size_t left = got < 0 ? 0 : static_cast<std::size_t>(got);
    std::size_t done = 0;
    while (done < count && left >= (*pieces)[next + done].bytes) {
      left -= (*pieces)[next + done].bytes;
      (*pieces)[next + done++].ok = true;
    }
    if (done < count) (*pieces)[next + done++].ok = false;
    next += done;
  }
}

bool SelfMemory::by_file(Piece* piece) {
  const int file = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const ssize_t got = pread(file, piece->to, piece->bytes, static_cast<off_t>(piece->from));
  close(file);
  return got == static_cast<ssize_t>(piece->bytes);
}

int LoadedImages::visit(dl_phdr_info* info, std::size_t, void* data) {
  auto& self = *static_cast<LoadedImages*>(data);
  if (!self.stale_) {
    if (info->dlpi_adds == self.loads_ && info->dlpi_subs == self.unloads_) return 1;
    self.stale_ = true;
    self.ranges_.clear();
  }
  self.loads_ = info->dlpi_adds;
  self.unloads_ = info->dlpi_subs;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD) continue;
    const std::uintptr_t begin = info->dlpi_addr + header.p_vaddr;
    self.ranges_.emplace_back(begin, begin + header.p_memsz);
  }
  return 0;
}

void LoadedImages::update() {
  dl_iterate_phdr(&LoadedImages::visit, this);
  if (!stale_) return;
  std::sort(ranges_.begin(), ranges_.end());
  stale_ = false;
}

bool LoadedImages::contains(std::uintptr_t address) const {
  auto after = std::upper_bound(ranges_.begin(), ranges_.end(), address,
                                [](std::uintptr_t value, const auto& range) { return value < range.first; });
  return after != ranges_.begin() && address < (--after)->second;
}

}  // namespace tensortap::probe
