// Root attaches to another user's job as that user: the collector's socket, its files and the trace are then
// the job's user's, who alone can use them. One right of root's is kept, to ptrace.
//
// Thread rules: once, before other threads exist. Changes the environment (HOME, XDG_*).
//
//   if (auto failed = act_as(status.real_uid, status.effective_gid)) fail(*failed);
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace tensortap::probe {

// Nothing happens when we are not root or the job is root's. Returns why it failed.
std::optional<std::string> act_as(uid_t uid, gid_t gid);

}  // namespace tensortap::probe
