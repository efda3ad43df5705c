// Sees every storage block that torch allocates and frees, and tells probe/core (note_alloc, note_free).
//
// CPU: c10::ProfiledCPUMemoryReporter::New and Delete, which libc10 calls on every thread for every block,
// whether or not anything profiles. Other devices: c10::reportMemoryUsageToProfiler, which their allocators
// call for each block. Both by relocation slots (slots.h); the originals are always called. torch is never
// told that memory is being profiled: it would print warnings to the job's stderr.
//
//   memory_slots_install();  // at the start of a capture
//   memory_slots_repatch();  // after a dlopen: a device's allocator may have come
//   memory_slots_remove();   // at its end
//
// Threads: any; see SlotPatcher. Not seen: memory that torch doesn't allocate itself (from_blob), pinned host
// memory.
#pragma once

namespace tensortap::probe {

// False when the CPU allocator of this torch could not be reached: then no allocation is seen.
bool memory_slots_install() noexcept;
void memory_slots_remove() noexcept;
void memory_slots_repatch() noexcept;

}  // namespace tensortap::probe
