#include "probe/attach/checks.h"

#include <pwd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>

#include "probe/attach/remote_image.h"
#include "probe/attach/torch_in_process.h"
#include "probe/preload/state.h"

extern "C" {
#include "probe/preload/backend_list.h"
}

namespace tensortap::probe {
namespace {

using Verdict = std::optional<Refusal>;

std::string number(long value) { return std::to_string(value); }
std::string process_words(pid_t pid) { return "process " + number(pid); }

std::string user_name(uid_t uid) {
  const passwd* entry = ::getpwuid(uid);
  return entry == nullptr ? "uid " + number(uid) : std::string(entry->pw_name) + " (uid " + number(uid) + ")";
}

int yama_scope() {
  std::ifstream file("/proc/sys/kernel/yama/ptrace_scope");
  int scope = 0;
  file >> scope;
  return scope;
}

Verdict check_existence(pid_t pid, const std::optional<ProcessStatus>& status) {
  if (!status)
    return Refusal{AttachExit::kNoProcess, "there is no process " + number(pid), "look for it with: ps -e"};
  if (status->thread_group != pid) {
    return Refusal{
        AttachExit::kNoProcess,
        number(pid) + " is a thread of process " + number(status->thread_group) + ", not a process",
        "trace-attach " + number(status->thread_group)};
  }
  if (pid == ::getpid()) return Refusal{AttachExit::kNoProcess, "that is trace-attach itself", ""};
  if (status->state == 'Z' || status->state == 'X') {
    return Refusal{AttachExit::kNoProcess, process_words(pid) + " (" + status->name + ") has ended already",
                   ""};
  }
  return std::nullopt;
}

Verdict check_state(pid_t pid, const ProcessStatus& status) {
  if (status.tracer != 0) {
    const auto tracer = read_status(status.tracer);
    return Refusal{AttachExit::kBeingDebugged,
                   process_words(pid) + " is being traced by " + (tracer ? tracer->name : "another program") +
                       " (pid " + number(status.tracer) + "), and a process has one debugger at most",
                   "end that first (gdb: detach; strace: Ctrl-C)"};
  }
  if (status.state == 'T') {
    return Refusal{AttachExit::kNoSafeMoment, process_words(pid) + " is stopped (SIGSTOP or Ctrl-Z)",
                   "wake it first: kill -CONT " + number(pid)};
  }
  return std::nullopt;
}

Refusal not_permitted(pid_t pid, const ProcessStatus& status) {
  const uid_t ours = ::geteuid();
  const auto refuse = [](std::string reason, std::string remedy) {
    return Refusal{AttachExit::kNotPermitted, std::move(reason), std::move(remedy)};
  };
  if (ours != 0 && status.real_uid != ours) {
    return refuse(
        process_words(pid) + " belongs to " + user_name(status.real_uid) + ", and you are " + user_name(ours),
        "run trace-attach as that user, or as root");
  }
  if (status.effective_uid != status.real_uid || status.saved_uid != status.real_uid) {
    return refuse(process_words(pid) + " runs a set-user-id program, which the kernel protects",
                  "run trace-attach as root");
  }
  if (const int scope = yama_scope(); scope != 0) {
    return refuse("the kernel lets only " +
                      std::string(scope == 1 ? "a parent attach to its children" : "root attach") +
                      " (kernel.yama.ptrace_scope is " + number(scope) + ")",
                  scope == 3 ? "a setting of 3 lasts until reboot: start the job with trace-run instead"
                             : "run trace-attach as root, or: sudo sysctl kernel.yama.ptrace_scope=0");
  }
  return refuse(
      "the kernel does not let you into process " + number(pid) +
          " (it is marked as not dumpable, or has rights that you lack, or a container forbids ptrace)",
      "run trace-attach as root; in a container: give it the capability SYS_PTRACE");
}

Verdict check_namespaces(pid_t pid) {
  const std::string differs = differing_namespace(pid);
  if (differs.empty()) return std::nullopt;
  return Refusal{
      AttachExit::kOtherNamespace,
      process_words(pid) + " is in another container (its " + differs +
          (differs == "root folder" ? "" : " namespace") +
          " differs), where neither the probe nor the socket is",
      "run trace-attach in there (docker exec, kubectl exec), with tensortap and the state folder mounted"};
}

Verdict check_program(pid_t pid, const ProcessStatus& status, const std::string& exe) {
  switch (executable_kind(pid)) {
    case ExecutableKind::kOtherMachine:
      return Refusal{AttachExit::kOtherMachine,
                     exe + " is not an x86-64 program, the only kind that can be attached to",
                     "start the job with trace-run instead"};
    case ExecutableKind::kStatic:
      return Refusal{AttachExit::kStaticBinary, exe + " is statically linked: nothing can be loaded into it",
                     "link the program to the shared libtorch"};
    case ExecutableKind::kUnreadable:
      return Refusal{AttachExit::kNotPermitted, "the program of process " + number(pid) + " can't be read",
                     "is it a kernel thread?"};
    case ExecutableKind::kDynamic:
      break;
  }
  if (status.shadow_stack) {
    return Refusal{AttachExit::kOtherMachine, exe + " runs with a shadow stack, which an attach would break",
                   "start the job with trace-run instead"};
  }
  const std::string disable = started_with(pid, "TENSORTAP_DISABLE");
  if (disable.empty() || disable == "0") return std::nullopt;
  return Refusal{AttachExit::kNotPermitted, "the job was started with TENSORTAP_DISABLE=" + disable,
                 "start it without"};
}

// `found` is set to an unused library that an earlier attach left.
Verdict check_traced(pid_t pid, const std::vector<Mapping>& mappings, const RemoteMemory& memory,
                     std::uint64_t& found) {
  const Mapping* library = find_image(mappings, "libtensortap.so");
  const Mapping* backend = find_image(mappings, "libtensortap-torch-");
  if (library == nullptr && backend == nullptr) return std::nullopt;
  if (library != nullptr && backend == nullptr) {
    const auto image = RemoteImage::at(memory, library->begin);
    const auto place = image ? image->symbol("tensortap_preload_state") : std::nullopt;
    int state = kTtDone;
    if (place && memory.get(*place, state) && state == kTtUntold) {
      found = library->begin;
      return std::nullopt;
    }
  }
  return Refusal{AttachExit::kAlreadyTraced,
                 process_words(pid) +
                     (backend != nullptr ? " is traced already" : " was started with the probe already") +
                     " (" + (backend != nullptr ? backend : library)->path + ")",
                 "steer its capture with trace-ctl (trace-ctl list shows it)"};
}

Refusal no_torch(pid_t pid, const std::string& exe, const std::vector<Mapping>& mappings) {
  if (find_image(mappings, "libc10.so") != nullptr) {
    return {AttachExit::kNoTorch, "torch is just being loaded in process " + number(pid),
            "try again in a moment"};
  }
  const bool python = exe.substr(exe.rfind('/') + 1).compare(0, 6, "python") == 0;
  if (python) {
    return {AttachExit::kNoTorch,
            "no torch is loaded in process " + number(pid) + ": it has not come to `import torch` yet",
            "attach later, or start the job with trace-run, which waits for torch"};
  }
  return {AttachExit::kNoTorch,
          "no torch is loaded in process " + number(pid) + " (" + exe + ", no libtorch_cpu.so)",
          "is it the right pid? A torch that comes later is seen if the job is started with trace-run"};
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out.empty() ? "none" : out;
}

Refusal no_backend(const TorchLibrary& torch, const BackendChoice& choice) {
  if (!choice.list_found) {
    return {AttachExit::kNoBackend, "the list of torch backends is missing (" + choice.list + ")",
            "install tensortap again"};
  }
  const std::string version = torch.version.empty() ? "unknown" : torch.version;
  return {AttachExit::kNoBackend,
          "no backend fits the job's torch (version " + version + ", " + torch.path +
              "); there are backends for: " + joined(choice.versions),
          "build one, as the job's user: " TT_BUILD_COMMAND + torch.path};
}

// Addresses of what is called in the process.
Verdict find_functions(const std::vector<Mapping>& mappings, const RemoteMemory& memory, Attachable& out) {
  const Mapping* libc = find_image(mappings, "libc.so");
  const auto image = libc == nullptr ? std::nullopt : RemoteImage::at(memory, libc->begin);
  const auto open = image ? image->symbol("dlopen") : std::nullopt;
  for (const Mapping& mapping : mappings) {
    if (!open || mapping.path != libc->path || !mapping.executable) continue;
    constexpr std::array<unsigned char, 9> kCode = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
    std::string code(mapping.end - mapping.begin, '\0');
    if (!memory.read(mapping.begin, code.data(), code.size())) continue;
    const std::size_t at =
        code.find(std::string_view(reinterpret_cast<const char*>(kCode.data()), kCode.size()));
    if (at == std::string::npos) continue;
    out.dlopen = *open;
    out.restorer = mapping.begin + at;
    return std::nullopt;
  }
  return Refusal{AttachExit::kOtherMachine, "the job's C library is not a glibc of 2.34 or newer",
                 "start the job with trace-run instead"};
}

}  // namespace

std::variant<Attachable, Refusal> examine(pid_t pid, const std::string& library) {
  Attachable out;
  out.pid = pid;
  const auto status = read_status(pid);
  if (auto refusal = check_existence(pid, status)) return *refusal;
  out.status = *status;
  if (auto refusal = check_state(pid, *status)) return *refusal;
  const auto memory = RemoteMemory::open(pid);
  if (!memory) return not_permitted(pid, *status);
  out.exe = executable_path(pid);
  out.command = read_command(pid);
  if (auto refusal = check_namespaces(pid)) return *refusal;
  if (auto refusal = check_program(pid, *status, out.exe)) return *refusal;
  const auto mappings = read_mappings(pid);
  if (auto refusal = check_traced(pid, mappings, *memory, out.loaded_library)) return *refusal;
  const auto torch = find_torch(mappings, *memory);
  if (!torch) return no_torch(pid, out.exe, mappings);
  out.torch_path = torch->path;
  out.torch_version = torch->version;
  const BackendChoice choice = find_backend(*torch, library, pid, status->effective_uid);
  if (choice.version.empty()) return no_backend(*torch, choice);
  out.backend_version = choice.version;
  if (auto refusal = find_functions(mappings, *memory, out)) return *refusal;
  return out;
}

}  // namespace tensortap::probe
