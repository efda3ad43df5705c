// Storage blocks that were allocated or freed (capture.h: note_alloc, note_free).
#include <cstddef>
#include <cstring>

#include "probe/core/capture.h"
#include "probe/core/capture_state.h"

namespace tensortap::probe {

using namespace format;

namespace {

__attribute__((always_inline)) inline bool write_memory(ThreadState& state, std::uint64_t storage,
                                                        std::uint64_t bytes, bool is_free,
                                                        std::uint8_t device_type,
                                                        std::int8_t device_index) noexcept {
  unsigned char* room = state.ring.reserve(sizeof(MemoryRecord));
  if (__builtin_expect(room == nullptr, 0)) return false;
  auto* record = reinterpret_cast<MemoryRecord*>(room);
  record->header = {sizeof *record, RecordType::kMemory, 0, state.now()};
  record->span = state.charged;
  record->storage = storage;
  record->size_bytes = bytes;
  record->thread = state.thread;
  const Frame* top = state.top();
  record->op_name = top != nullptr && top->type == FrameType::kOp ? top->name : kStrNone;
  // The last eight bytes in one store: is_free, device_type, device_index, reserved.
  const std::uint64_t last = std::uint64_t{is_free} | std::uint64_t{device_type} << 8 |
                             std::uint64_t{static_cast<std::uint8_t>(device_index)} << 16;
  std::memcpy(&record->is_free, &last, sizeof last);
  state.ring.commit(sizeof *record);
  return true;
}
static_assert(offsetof(MemoryRecord, is_free) + 8 == sizeof(MemoryRecord));

}  // namespace

void note_alloc(const void* block, std::size_t bytes, std::uint8_t device_type,
                std::int8_t device_index) noexcept {
  if (bytes == 0 || block == nullptr || !window_is_open()) return;
  Callback callback;
  if (!callback) return;
  ThreadState& state = callback.state();
  CaptureState& capture = callback.capture();
  const std::uint64_t serial = capture.blocks.add(block, bytes, state.storage_numbers);
  if (__builtin_expect(serial == 0, 0)) {
    capture.memory.count(Counter::kUntrackedBlocks);
    return;
  }
  if (!write_memory(state, serial, bytes, false, device_type, device_index)) {
    capture.blocks.remove(block);  // its free must not be written either
  }
}

void note_free(const void* block, std::uint8_t device_type, std::int8_t device_index) noexcept {
  if (block == nullptr || !window_is_open()) return;
  Callback callback;
  if (!callback) return;
  CaptureState& capture = callback.capture();
  const BlockTable::Block known = capture.blocks.remove(block);
  if (__builtin_expect(known.serial == 0 || known.unseen, 0)) {
    capture.memory.count(Counter::kFreesOfUnseenBlocks);
    return;
  }
  write_memory(callback.state(), known.serial, known.bytes, true, device_type, device_index);
}

}  // namespace tensortap::probe
