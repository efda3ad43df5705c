#include "probe/torch/memory_slots.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <torch/version.h>

#include <cstdint>
#include <cstring>

#include "probe/core/capture.h"
#include "probe/torch/elf_object.h"
#include "probe/torch/slots.h"

namespace tensortap::probe {
namespace {

constexpr auto kCpu = static_cast<std::uint8_t>(c10::DeviceType::CPU);
constexpr std::int8_t kNoIndex = -1;

constexpr const char* kNewSymbol = "_ZN3c1025ProfiledCPUMemoryReporter3NewEPvm";
constexpr const char* kDeleteSymbol = "_ZN3c1025ProfiledCPUMemoryReporter6DeleteEPv";
#if TORCH_VERSION_MAJOR >= 2
using Total = std::size_t;
constexpr const char* kReportSymbol = "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE";
#else
using Total = std::int64_t;
constexpr const char* kReportSymbol = "_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE";
#endif

// Found once, before the first slot is rewritten; never changed after, because a thread may be in a
// replacement at any time.
struct Originals {
  void (*allocated)(c10::ProfiledCPUMemoryReporter*, void*, std::size_t) = nullptr;
  void (*freed)(c10::ProfiledCPUMemoryReporter*, void*) = nullptr;
  void (*reported)(void*, std::int64_t, Total, Total, c10::Device) = nullptr;
};
Originals g_originals;

void on_allocated(c10::ProfiledCPUMemoryReporter* reporter, void* block, std::size_t bytes) {
  g_originals.allocated(reporter, block, bytes);
  note_alloc(block, bytes, kCpu, kNoIndex);
}

// The block is freed after this returns: noted first, its address can't have been given out again.
void on_freed(c10::ProfiledCPUMemoryReporter* reporter, void* block) {
  note_free(block, kCpu, kNoIndex);
  g_originals.freed(reporter, block);
}

void on_reported(void* block, std::int64_t bytes, Total allocated, Total reserved, c10::Device device) {
  if (!device.is_cpu() && capturing()) {
    const auto type = static_cast<std::uint8_t>(device.type());
    if (bytes < 0) {
      note_free(block, type, device.index());
    } else {
      note_alloc(block, static_cast<std::size_t>(bytes), type, device.index());
    }
  }
  g_originals.reported(block, bytes, allocated, reserved, device);
}

void take_original(const char* name, void* address, void* context) {
  auto* originals = static_cast<Originals*>(context);
  if (std::strcmp(name, kNewSymbol) == 0) {
    originals->allocated = reinterpret_cast<decltype(originals->allocated)>(address);
  } else if (std::strcmp(name, kDeleteSymbol) == 0) {
    originals->freed = reinterpret_cast<decltype(originals->freed)>(address);
  } else if (std::strcmp(name, kReportSymbol) == 0) {
    originals->reported = reinterpret_cast<decltype(originals->reported)>(address);
  }
}

// Never destroyed: the process may end while a thread is in `repatch`.
SlotPatcher* make_patcher() noexcept {
  // The reporter is an object of libc10 itself: its address leads to the library, whatever the job
  // interposes.
  for_each_export(&c10::profiledCPUMemoryReporter(), &take_original, &g_originals);
  if (g_originals.allocated == nullptr || g_originals.freed == nullptr) return nullptr;
  try {
    auto* patcher = new SlotPatcher;
    patcher->add(kNewSymbol, reinterpret_cast<void*>(g_originals.allocated),
                 reinterpret_cast<void*>(&on_allocated));
    patcher->add(kDeleteSymbol, reinterpret_cast<void*>(g_originals.freed),
                 reinterpret_cast<void*>(&on_freed));
    if (g_originals.reported != nullptr) {
      patcher->add(kReportSymbol, reinterpret_cast<void*>(g_originals.reported),
                   reinterpret_cast<void*>(&on_reported));
    }
    return patcher;
  } catch (...) {
    return nullptr;
  }
}

SlotPatcher* patcher() noexcept {
  static SlotPatcher* const instance = make_patcher();
  return instance;
}

}  // namespace

bool memory_slots_install() noexcept { return patcher() != nullptr && patcher()->install(); }

void memory_slots_remove() noexcept {
  if (patcher() != nullptr) patcher()->restore();
}

void memory_slots_repatch() noexcept {
  if (patcher() != nullptr) patcher()->repatch();
}

}  // namespace tensortap::probe
