// candle_planes_bench RECORDS…: CPU time per record and peak memory of the memory planes and device timing,
// on generated records: for each number a process of its own.
//
//   candle_planes_bench 100000 1000000 5000000
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/conformance/candle/planes_document.h"

namespace {

using namespace tensortap;  // NOLINT(google-build-using-namespace): a program's main file
using analyzers::candle::Planes;

double cpu_ns() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

// Like a training job: storages that live for some hundred records, some for good, a tenth of the records
// aliases; for every tenth memory record one device interval.
class Job {
 public:
  explicit Job(Planes& planes) : planes_(planes) {}

  void record() {
    now_ += random_() % 2000;
    const std::uint32_t kind = random_() % 100;
    if (kind < 45 && live_.size() > 300) {
      emit(format::MemoryAction::kFree, take());
    } else if (kind >= 90 && !live_.empty()) {
      emit(format::MemoryAction::kAlloc, live_[random_() % live_.size()]);
    } else {
      live_.push_back({++storages_, (random_() % 4096) * 512});
      emit(format::MemoryAction::kAlloc, live_.back());
    }
    if (++records_ % 10 == 0) interval();
  }

 private:
  struct Storage {
    std::uint64_t id = 0, bytes = 0;
  };

  Storage take() {
    const std::size_t at = random_() % live_.size();
    const Storage storage = live_[at];
    live_[at] = live_.back();
    live_.pop_back();
    return storage;
  }

  // Not "st" + std::to_string(…): GCC 12 warns of it without reason at -O3.
  static void name(std::string& out, std::string_view prefix, std::uint64_t number) {
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
    out.clear();
    out.append(prefix).append(digits, end);
  }

  void emit(format::MemoryAction action, const Storage& storage) {
    name(storage_, "st", storage.id);
    name(tensor_, "t", storage.id * 2 + random_() % 2);
    name(span_, "s0.", records_ / 3);
    format::Memory event;
    event.timestamp_ns = now_;
    event.storage_id = storage_;
    event.tensor_id = tensor_;
    event.span_id = span_;
    event.op_name = "aten::native_layer_norm";
    event.device = "cuda:0";
    event.bytes = storage.bytes;
    event.action = action;
    event.shape = {1 + storage.bytes % 32, 1024};
    event.dtype = "bf16";
    event.category = static_cast<format::MemoryCategory>(storage.bytes / 512 % 5);
    planes_.on_memory(event, {});
  }

  void interval() {
    format::DeviceInterval event;
    event.span_id = span_;
    event.device = "cuda:0";
    event.clock_id = "cupti-0";
    event.stream_id = "7";
    event.backend = "cupti";
    event.start_ns = now_;
    event.duration_ns = 1500;
    planes_.on_device_interval(event, {});
  }

  Planes& planes_;
  std::mt19937 random_{7};
  std::vector<Storage> live_;
  std::uint64_t now_ = 0, storages_ = 0, records_ = 0;
  std::string storage_, tensor_, span_;
};

long peak_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

void measure(std::uint64_t records) {
  Planes planes;
  Job job(planes);
  const double begin = cpu_ns();
  for (std::uint64_t i = 0; i < records; ++i) job.record();
  const double read = cpu_ns();
  const long read_kib = peak_kib();
  planes.finish();
  const double finished = cpu_ns();
  const long finish_kib = peak_kib();
  std::ofstream out("/dev/null");
  planes.write(out);
  const double written = cpu_ns();
  const double n = static_cast<double>(records);
  std::printf(
      "%9llu records: read %6.1f, finish %6.1f, write %7.1f ns each; peak RSS %5.1f, %5.1f, %5.1f MiB\n",
      static_cast<unsigned long long>(records), (read - begin) / n, (finished - read) / n,
      (written - finished) / n, static_cast<double>(read_kib) / 1024, static_cast<double>(finish_kib) / 1024,
      static_cast<double>(peak_kib()) / 1024);
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      measure(std::strtoull(argv[i], nullptr, 10));
      return 0;
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0) return 1;
  }
  return argc > 1 ? 0 : 2;
}
