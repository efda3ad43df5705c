#include "probe/attach/job_user.h"

#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace tensortap::probe {
namespace {

bool keep_ptrace_only() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  data[CAP_TO_INDEX(CAP_SYS_PTRACE)].effective = data[CAP_TO_INDEX(CAP_SYS_PTRACE)].permitted =
      CAP_TO_MASK(CAP_SYS_PTRACE);
  return ::syscall(SYS_capset, &header, data) == 0;
}

}  // namespace

std::optional<std::string> act_as(uid_t uid, gid_t gid) {
  if (::geteuid() != 0 || uid == 0) return std::nullopt;
  const passwd* entry = ::getpwuid(uid);
  const bool changed =
      ::prctl(PR_SET_KEEPCAPS, 1) == 0 &&
      (entry != nullptr ? ::initgroups(entry->pw_name, gid) : ::setgroups(0, nullptr)) == 0 &&
      ::setresgid(gid, gid, gid) == 0 && ::setresuid(uid, uid, uid) == 0;
  if (!changed) return "can't act as the job's user: " + std::string(std::strerror(errno));
  // Without the right (a container took it from root) the user's own is what counts.
  (void)keep_ptrace_only();
  for (const char* name : {"XDG_RUNTIME_DIR", "XDG_STATE_HOME", "HOME"}) ::unsetenv(name);
  if (entry != nullptr) ::setenv("HOME", entry->pw_dir, 1);
  return std::nullopt;
}

}  // namespace tensortap::probe
