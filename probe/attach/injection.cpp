#include "probe/attach/injection.h"

#include <dlfcn.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "probe/attach/remote_image.h"
#include "probe/attach/safe_moment.h"
#include "probe/attach/thread_call.h"
#include "probe/preload/state.h"

namespace tensortap::probe {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kFreshFor = 1500ms;
constexpr auto kGiveUpAfter = 8s;
constexpr auto kBetweenRounds = 2ms;

class Injector {
 public:
  Injector(const Attachable& job, RemoteMemory memory) : job_(job), memory_(std::move(memory)) {}

  // Tries until the call was made. "" done; else why it could not be.
  std::optional<Refusal> call(RemoteCall call) {
    call.restorer = job_.restorer;
    std::string last = "no thread was in a system call or outside of libc";
    for (const auto begin = Clock::now(); Clock::now() - begin < kGiveUpAfter;) {
      const Patience patience = Clock::now() - begin < kFreshFor ? Patience::kFresh : Patience::kSpent;
      for (const pid_t thread : candidate_threads(job_.pid, patience)) {
        const CallResult result = try_on(thread, call, patience);
        if (result.outcome == CallOutcome::kReturned) return std::nullopt;
        if (result.outcome == CallOutcome::kUnwatched) return stuck();
        last = result.reason;
      }
      if (!read_status(job_.pid)) return gone();
      std::this_thread::sleep_for(kBetweenRounds);
    }
    return Refusal{AttachExit::kNoSafeMoment,
                   "no safe moment was found to load a library into the job within 8 s (last: " + last + ")",
                   "the job is unchanged; try again, or start it with trace-run"};
  }

  const RemoteMemory& memory() const { return memory_; }
  Injection& result() { return result_; }

 private:
  CallResult try_on(pid_t thread, const RemoteCall& call, Patience patience) {
    auto mappings = read_mappings(job_.pid);
    mark_lock_keepers(mappings, memory_);
    const CallResult result = call_on_thread(memory_, thread, call, [&](const user_regs_struct& registers) {
      return unsafe_reason(registers, mappings, patience);
    });
    if (result.stopped_ns != 0) ++result_.stops;
    result_.paused_ns += result.stopped_ns;
    result_.longest_ns = std::max(result_.longest_ns, result.stopped_ns);
    result_.thread = thread;
    return result;
  }

  Refusal gone() const {
    return {AttachExit::kNoProcess, "the job ended while it was being attached to", ""};
  }
  Refusal stuck() const {
    return {AttachExit::kNoSafeMoment,
            "the job's loader has not loaded the probe within 10 s (another thread holds it, or it refused); "
            "it goes on by itself",
            "look again in a moment: trace-attach --dry-run " + std::to_string(job_.pid)};
  }

  const Attachable& job_;
  RemoteMemory memory_;
  Injection result_;
};

std::uint64_t library_base(const Attachable& job) {
  const auto mappings = read_mappings(job.pid);
  const Mapping* mapping = find_image(mappings, "libtensortap.so");
  return mapping == nullptr ? 0 : mapping->begin;
}

Refusal not_loaded(const std::string& library) {
  return {AttachExit::kProbeSilent, "the job's loader refused " + library,
          "can the job's user read and execute it (permissions, noexec, SELinux, AppArmor)?"};
}

// As the job's user, whom we act as: the loader would refuse it, and nobody would hear why.
bool can_be_loaded(const std::string& library) {
  struct statvfs place {};
  return ::access(library.c_str(), R_OK) == 0 &&
         (::statvfs(library.c_str(), &place) != 0 || (place.f_flag & ST_NOEXEC) == 0);
}

}  // namespace

Injection inject(const Attachable& job, const std::string& library, const std::string& settings) {
  auto memory = RemoteMemory::open(job.pid);
  if (!memory)
    return {.refusal = Refusal{AttachExit::kNoProcess, "the job ended while it was being attached to", ""}};
  Injector injector(job, std::move(*memory));
  Injection& result = injector.result();
  std::uint64_t base = job.loaded_library;
  if (base == 0) {
    if (!can_be_loaded(library)) {
      result.refusal = not_loaded(library);
      return result;
    }
    result.refusal = injector.call(
        {.function = job.dlopen, .text = library, .second = RTLD_NOW | RTLD_GLOBAL, .done = [&job] {
           return preload_state(job) == kTtUntold;
         }});
    if (result.refusal) return result;
    base = library_base(job);
  }
  const auto image = base == 0 ? std::nullopt : RemoteImage::at(injector.memory(), base);
  const auto attach = image ? image->symbol("tensortap_attach") : std::nullopt;
  if (!attach) {
    result.refusal = not_loaded(library);
    return result;
  }
  result.refusal = injector.call(
      {.function = *attach, .text = settings, .done = [&job] { return preload_state(job) != kTtUntold; }});
  return result;
}

int preload_state(const Attachable& job) {
  const auto memory = RemoteMemory::open(job.pid);
  const std::uint64_t base = memory ? library_base(job) : 0;
  const auto image = base == 0 ? std::nullopt : RemoteImage::at(*memory, base);
  const auto place = image ? image->symbol("tensortap_preload_state") : std::nullopt;
  int state = -1;
  if (!place || !memory->get(*place, state)) return -1;
  return state;
}

}  // namespace tensortap::probe
