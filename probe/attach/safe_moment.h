// Where a running job can be made to load a library: at which thread, at which instruction.
//
// The loader and malloc take locks that a thread can't take twice, so a call is made only on a thread that is
// certainly in neither: asleep in a system call that both never make while they hold something, or running
// outside of the loader, libc and every allocator that is told by its name. Threads in calls that a stop
// breaks off (epoll_wait and the like answer EINTR then) are left alone until nothing else has offered itself
// for a while.
//
// Thread rules: pure, but for reading /proc.
//
//   auto mappings = read_mappings(pid);
//   mark_lock_keepers(mappings, memory);
//   for (pid_t thread : candidate_threads(pid, Patience::kFresh)) …stop it, read its registers…
//   if (unsafe_reason(registers, mappings, Patience::kFresh).empty()) …here…
#pragma once

#include <sys/types.h>
#include <sys/user.h>

#include <string>
#include <vector>

#include "probe/attach/process_view.h"
#include "probe/attach/remote_memory.h"

namespace tensortap::probe {

enum class Patience { kFresh, kSpent };

// Marks the mappings of ld.so, libc, the unwinder, and of everything that exports a malloc of its own.
void mark_lock_keepers(std::vector<Mapping>& mappings, const RemoteMemory& memory);

// Threads worth stopping, the best first: asleep, then running.
std::vector<pid_t> candidate_threads(pid_t pid, Patience patience);

// "" when a call may be made here; else why not.
std::string unsafe_reason(const user_regs_struct& registers, const std::vector<Mapping>& mappings,
                          Patience patience);

// Was it stopped inside a system call that the kernel will take up again by itself?
bool call_is_taken_up_again(const user_regs_struct& registers);

}  // namespace tensortap::probe
