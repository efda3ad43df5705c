// What this process's torch.distributed says of it: its place in the default process group.
//
// Two tell it: the constructors of torch's process groups (probe/torch/group_slots), at the moment at which
// the job makes one, and a look into the interpreter (probe/python/process_group), which also finds a group
// that is older than the probe. The session's thread takes it over into what it says of the process.
//
//   group_constructed(1, 2, "gloo");                 // a wrapper, on a job's thread
//   if (group_version() != seen) group = process_group();   // the session
//
// Later groups are parts of the default one, which is made first: of those constructed only the first counts.
// A job that was attached to may have made it before: then nothing constructed counts until somebody has
// looked.
//
// Thread rules: any thread; no allocation. The facts are guarded by a flag that nobody waits long for.
#pragma once

#include <cstdint>
#include <string_view>

namespace tensortap::probe {

inline constexpr std::size_t kMaxGroupBackend = 63;  // bytes

struct ProcessGroup {
  std::int32_t rank = -1;  // -1: no group is known
  std::int32_t world_size = -1;
  char backend[kMaxGroupBackend + 1] = "";  // "gloo", "cpu:gloo,cuda:nccl"; "" = not known
};

// `backend` "": told by another constructor, if at all.
void group_constructed(std::int64_t rank, std::int64_t world_size, std::string_view backend) noexcept;
// The default group as the interpreter has it: replaces what was known.
void group_looked_up(std::int64_t rank, std::int64_t world_size, std::string_view backend) noexcept;
// Somebody looked, and there is none yet.
void group_looked_up_none() noexcept;
// The job ran before us.
void group_may_be_older() noexcept;

// Changes with what is known; 0 = nothing was ever known.
std::uint32_t group_version() noexcept;
ProcessGroup process_group() noexcept;

// In a fork's child: the thread that held the flag does not exist here, and a group made from now on is this
// process's own. What the parent knew stays known.
void group_after_fork() noexcept;

}  // namespace tensortap::probe
