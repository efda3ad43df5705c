// Loops of small operators: what one operator costs on its own thread.
//
//   probe_ops --operators 200000 --job add|grad|mix|chain --callback none|empty --core 0
//
//   add    at::add of four elements in inference mode
//   grad   the same with gradients recorded: each addition makes an autograd node
//   mix    mm, relu, sum of 8x8 in inference mode, in turn (relu calls clamp_min: two events)
//   chain  add, mul, sub, neg of four elements in no-grad mode, each on the result of the one before
//
// `operators` counts calls from here. `empty` registers a RecordFunction callback that asks for inputs and
// outputs and does nothing: the cheapest observer there can be, our baseline. Our probe is put in by
// LD_PRELOAD; its threads have begun before main and keep the cores that the process was given, while this
// thread goes to `core`.
//
// Under callgrind (--instr-atstart=no) the first dump holds a tenth of the loop, the second one nine tenths.
//
// A second thread sleeps in every variant, as in any job of torch that uses more than one core: malloc and
// others take shorter ways in a process of one thread, and the probe has a thread.
//
// Prints one JSON line about the loop (after a warm-up of a tenth): CPU time of this thread, of the process's
// other threads, wall time; resident memory at a tenth of the loop and at its end, in KiB (`anon` without
// shared memory).
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_START_INSTRUMENTATION
#define CALLGRIND_ZERO_STATS
#define CALLGRIND_DUMP_STATS
#endif

namespace {

std::uint64_t clock_ns(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000000000u + static_cast<std::uint64_t>(now.tv_nsec);
}

struct Resident {
  unsigned long all_kb = 0, anon_kb = 0;
};

Resident resident() {
  Resident now;
  std::FILE* file = std::fopen("/proc/self/status", "r");
  if (file == nullptr) return now;
  char line[256];
  while (std::fgets(line, sizeof line, file) != nullptr) {
    std::sscanf(line, "VmRSS: %lu", &now.all_kb);
    std::sscanf(line, "RssAnon: %lu", &now.anon_kb);
  }
  std::fclose(file);
  return now;
}

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction&) { return nullptr; }
void on_end(const at::RecordFunction&, at::ObserverContext*) {}

void add(const at::Tensor& a, const at::Tensor& b, std::uint64_t operators) {
  for (std::uint64_t i = 0; i < operators; ++i) at::add(a, b);
}

void mix(const at::Tensor& a, const at::Tensor& b, std::uint64_t operators) {
  for (std::uint64_t i = 0; i < operators; i += 3) {
    at::mm(a, b);
    at::relu(a);
    at::sum(a);
  }
}

void chain(const at::Tensor& a, const at::Tensor& b, std::uint64_t operators) {
  at::Tensor x = a;
  for (std::uint64_t i = 0; i < operators; i += 4) {
    x = at::add(x, b);
    x = at::mul(x, b);
    x = at::sub(x, b);
    x = at::neg(x);
  }
}

void pin(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  sched_setaffinity(0, sizeof cores, &cores);  // this thread only
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t operators = 200000;
  std::string job = "add", callback = "none";
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    if (option == "--operators") operators = std::strtoull(argv[i + 1], nullptr, 10);
    if (option == "--job") job = argv[i + 1];
    if (option == "--callback") callback = argv[i + 1];
    if (option == "--core") pin(std::atoi(argv[i + 1]));
  }
  std::thread([] { pause(); }).detach();
  std::optional<c10::InferenceMode> inference;
  if (job == "add" || job == "mix") inference.emplace();
  if (job == "chain") at::GradMode::set_enabled(false);
  const std::vector<std::int64_t> shape =
      job == "mix" ? std::vector<std::int64_t>{8, 8} : std::vector<std::int64_t>{4};
  const at::Tensor a = at::ones(shape, at::TensorOptions().requires_grad(job == "grad")), b = at::ones(shape);
  if (callback == "empty") {
    at::addGlobalCallback(at::RecordFunctionCallback(on_start, on_end).needsInputs(true).needsOutputs(true));
  }
  const auto run = job == "mix" ? mix : job == "chain" ? chain : add;
  CALLGRIND_START_INSTRUMENTATION;
  run(a, b, operators / 10);
  const std::uint64_t process = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
  const std::uint64_t cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID), wall = clock_ns(CLOCK_MONOTONIC);
  CALLGRIND_ZERO_STATS;
  run(a, b, operators / 10);
  CALLGRIND_DUMP_STATS;
  const Resident early = resident();
  CALLGRIND_ZERO_STATS;
  run(a, b, operators - operators / 10);
  CALLGRIND_DUMP_STATS;
  const std::uint64_t cpu_end = clock_ns(CLOCK_THREAD_CPUTIME_ID), wall_end = clock_ns(CLOCK_MONOTONIC);
  const std::uint64_t process_end = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
  const Resident late = resident();
  std::printf(
      "{\"operators\":%llu,\"thread_cpu_ns\":%llu,\"other_cpu_ns\":%llu,\"wall_ns\":%llu,"
      "\"resident_kb\":[%lu,%lu],\"anon_kb\":[%lu,%lu]}\n",
      static_cast<unsigned long long>(operators), static_cast<unsigned long long>(cpu_end - cpu),
      static_cast<unsigned long long>(process_end - process - (cpu_end - cpu)),
      static_cast<unsigned long long>(wall_end - wall), early.all_kb, late.all_kb, early.anon_kb,
      late.anon_kb);
  return 0;
}
