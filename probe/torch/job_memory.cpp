#include "probe/torch/job_memory.h"

#include <algorithm>

namespace tensortap::probe {
namespace {

constexpr std::size_t kMaxNameBytes = 4096;

#if _GLIBCXX_USE_CXX11_ABI
struct RawString {
  std::uintptr_t data;
  std::size_t size;
};
constexpr std::size_t kStringLocal = sizeof(RawString);  // where short texts stand inside a string
#else
struct RawString {
  std::uintptr_t data;  // the length stands 24 bytes before
};
constexpr std::size_t kStringRep = 24;
#endif

}  // namespace

std::vector<std::string> read_strings(SelfMemory& memory, const std::vector<SelfMemory::Piece>& strings) {
  std::vector<std::string> names(strings.size());
  std::vector<SelfMemory::Piece> texts;
#if !_GLIBCXX_USE_CXX11_ABI
  std::vector<std::size_t> lengths(strings.size());
  for (std::size_t i = 0; i < strings.size(); ++i) {
    texts.push_back({copy_at<RawString>(static_cast<const char*>(strings[i].to)).data - kStringRep,
                     &lengths[i], sizeof(std::size_t), false});
  }
  memory.read(&texts);
  texts.clear();
#endif
  for (std::size_t i = 0; i < strings.size(); ++i) {
    const auto* copy = static_cast<const char*>(strings[i].to);
    const auto raw = copy_at<RawString>(copy);
#if _GLIBCXX_USE_CXX11_ABI
    const std::size_t size = raw.size;
    if (raw.data == strings[i].from + kStringLocal) {
      names[i].assign(copy + kStringLocal, std::min<std::size_t>(size, sizeof(std::string) - kStringLocal));
      continue;
    }
#else
    const std::size_t size = lengths[i];
#endif
    names[i].resize(std::min(size, kMaxNameBytes));
    texts.push_back({raw.data, names[i].data(), names[i].size(), false});
  }
  memory.read(&texts);
  return names;
}

}  // namespace tensortap::probe
