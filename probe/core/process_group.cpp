#include "probe/core/process_group.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "probe/core/brief_flag.h"

namespace tensortap::probe {

namespace {

ProcessGroup g_group;
bool g_inherited = false;  // a fork's child: the parent's
bool g_may_be_older = false;
std::atomic<std::uint32_t> g_version{0};
std::atomic_flag g_flag = ATOMIC_FLAG_INIT;

bool is_place(std::int64_t rank, std::int64_t world_size) noexcept {
  return rank >= 0 && rank < world_size && world_size <= INT32_MAX;
}

// With the flag.
void set(std::int64_t rank, std::int64_t world_size, std::string_view backend) noexcept {
  ProcessGroup group;
  group.rank = static_cast<std::int32_t>(rank);
  group.world_size = static_cast<std::int32_t>(world_size);
  if (!backend.empty()) {
    std::memcpy(group.backend, backend.data(), std::min(backend.size(), kMaxGroupBackend));
  }
  g_inherited = false;
  if (std::memcmp(&group, &g_group, sizeof group) == 0) return;
  g_group = group;
  g_version.fetch_add(1, std::memory_order_release);
}

}  // namespace

void group_constructed(std::int64_t rank, std::int64_t world_size, std::string_view backend) noexcept {
  if (!is_place(rank, world_size)) return;
  BriefFlag flag(g_flag);
  if (!flag || g_may_be_older) return;
  const bool first = g_group.rank < 0 || g_inherited;
  // torch 2.x makes the group, then what carries it out: two constructors, of which the second knows its
  // name.
  const bool same = rank == g_group.rank && world_size == g_group.world_size && g_group.backend[0] == '\0';
  if (first || same) set(rank, world_size, backend);
}

void group_looked_up(std::int64_t rank, std::int64_t world_size, std::string_view backend) noexcept {
  if (!is_place(rank, world_size)) return;
  BriefFlag flag(g_flag);
  if (!flag) return;
  g_may_be_older = false;
  set(rank, world_size, backend);
}

void group_looked_up_none() noexcept {
  BriefFlag flag(g_flag);
  if (flag) g_may_be_older = false;
}

void group_may_be_older() noexcept {
  BriefFlag flag(g_flag);
  if (flag) g_may_be_older = true;
}

std::uint32_t group_version() noexcept { return g_version.load(std::memory_order_acquire); }

ProcessGroup process_group() noexcept {
  BriefFlag flag(g_flag);
  return flag ? g_group : ProcessGroup{};
}

void group_after_fork() noexcept {
  g_flag.clear(std::memory_order_release);
  g_inherited = g_group.rank >= 0;
}

}  // namespace tensortap::probe
