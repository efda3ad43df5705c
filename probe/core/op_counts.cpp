#include "probe/core/op_counts.h"

#include <pthread.h>
#include <sys/mman.h>

#include <cstring>
#include <map>
#include <new>
#include <string_view>
#include <vector>

#include "format/line_writer.h"
#include "probe/core/clock.h"

namespace tensortap::probe {

std::atomic<bool> g_counting{false};

namespace {

constexpr std::uint32_t kCells = 1024;
constexpr std::uint32_t kProbes = 16;
constexpr std::uint32_t kNameBytes = 96;
constexpr std::uint32_t kMaxOpen = 128;  // what nests deeper is not counted

struct Cell {
  const char* pointer = nullptr;  // of the name, as torch had it: an identity
  std::atomic<bool> named{false};
  char name[kNameBytes] = {};
  std::atomic<std::uint64_t> calls{0};
  std::atomic<std::uint64_t> total_ns{0};
  std::atomic<std::uint32_t> histogram[kDurationBuckets] = {};
};

struct OpenCall {
  const void* key;
  const char* name;
  std::uint64_t start_ns;
};

struct ThreadCounts {
  std::uint32_t depth = 0;
  OpenCall open[kMaxOpen];
  std::atomic<std::uint64_t> uncounted{0};  // no cell was free, or too deep
  ThreadCounts* next = nullptr;
  ThreadCounts* next_free = nullptr;
  Cell cells[kCells];
};

__attribute__((tls_model("initial-exec"))) thread_local ThreadCounts* t_counts = nullptr;
std::atomic<ThreadCounts*> g_all{nullptr};
std::atomic_flag g_free_lock = ATOMIC_FLAG_INIT;  // a thread's first call and its end only
ThreadCounts* g_free = nullptr;
pthread_key_t g_end_key;
pthread_once_t g_key_once = PTHREAD_ONCE_INIT;

struct FreeLock {
  FreeLock() noexcept {
    while (g_free_lock.test_and_set(std::memory_order_acquire)) {
    }
  }
  ~FreeLock() { g_free_lock.clear(std::memory_order_release); }
};

void thread_ends(void* value) {
  auto* counts = static_cast<ThreadCounts*>(value);
  if (counts == nullptr || t_counts != counts) return;
  t_counts = nullptr;
  const FreeLock lock;
  counts->next_free = g_free;
  g_free = counts;
}
void make_key() { pthread_key_create(&g_end_key, thread_ends); }

ThreadCounts* enter_thread() noexcept {
  pthread_once(&g_key_once, make_key);
  ThreadCounts* counts = nullptr;
  {
    const FreeLock lock;
    counts = g_free;
    if (counts != nullptr) g_free = counts->next_free;
  }
  if (counts == nullptr) {
    void* mapped = mmap(nullptr, sizeof(ThreadCounts), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) return nullptr;
    counts = static_cast<ThreadCounts*>(mapped);  // zeros are what its constructor would write
    ThreadCounts* head = g_all.load(std::memory_order_relaxed);
    do {
      counts->next = head;
    } while (!g_all.compare_exchange_weak(head, counts, std::memory_order_acq_rel));
  }
  counts->depth = 0;
  t_counts = counts;
  pthread_setspecific(g_end_key, counts);
  return counts;
}

// One writer: a plain add, visible to readers.
template <class Number>
void add(std::atomic<Number>& value, Number by) noexcept {
  value.store(value.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
}

Cell* cell_of(ThreadCounts& counts, const char* name) noexcept {
  const auto bits = reinterpret_cast<std::uintptr_t>(name);
  const auto home = static_cast<std::uint32_t>((bits >> 3) * 0x9E3779B1u >> 12);
  for (std::uint32_t i = 0; i < kProbes; ++i) {
    Cell& cell = counts.cells[(home + i) % kCells];
    // The pointer alone does not do: a name's memory may be another name's later.
    if (cell.pointer == name && std::strncmp(cell.name, name, kNameBytes - 1) == 0) return &cell;
    if (cell.pointer != nullptr) continue;
    std::strncpy(cell.name, name, kNameBytes - 1);
    cell.pointer = name;
    cell.named.store(true, std::memory_order_release);
    return &cell;
  }
  return nullptr;
}

struct Sum {
  std::uint64_t calls = 0, total_ns = 0;
  std::vector<std::uint64_t> histogram = std::vector<std::uint64_t>(kDurationBuckets);
};

void append_operator(std::string& out, std::string_view name, const Sum& sum) {
  out += "{\"name\":";
  format::append_json_string(out, name);
  out += ",\"calls\":";
  format::append_json_number(out, sum.calls);
  out += ",\"total_ns\":";
  format::append_json_number(out, sum.total_ns);
  out += ",\"histogram\":[";
  bool first = true;
  for (std::uint32_t bucket = 0; bucket < kDurationBuckets; ++bucket) {
    if (sum.histogram[bucket] == 0) continue;
    out += first ? "[" : ",[";
    first = false;
    format::append_json_number(out, bucket_begin_ns(bucket));
    out += ',';
    format::append_json_number(out, sum.histogram[bucket]);
    out += ']';
  }
  out += "]}";
}

}  // namespace

std::uint32_t duration_bucket(std::uint64_t ns) noexcept {
  if (ns < 4) return static_cast<std::uint32_t>(ns);
  const auto octave = static_cast<std::uint32_t>(63 - __builtin_clzll(ns));
  const auto quarter = static_cast<std::uint32_t>(ns >> (octave - 2)) & 3;
  const std::uint32_t bucket = (octave - 1) * 4 + quarter;
  return bucket < kDurationBuckets ? bucket : kDurationBuckets - 1;
}

std::uint64_t bucket_begin_ns(std::uint32_t bucket) noexcept {
  if (bucket < 4) return bucket;
  const std::uint32_t octave = bucket / 4 + 1;
  return std::uint64_t{4 + bucket % 4} << (octave - 2);
}

void counts_begin(const void* key, const char* name) noexcept {
  if (!g_counting.load(std::memory_order_relaxed)) return;
  ThreadCounts* counts = t_counts != nullptr ? t_counts : enter_thread();
  if (counts == nullptr) return;
  if (counts->depth == kMaxOpen) return add(counts->uncounted, std::uint64_t{1});
  counts->open[counts->depth++] = {key, name, monotonic_ns()};
}

void counts_end(const void* key) noexcept {
  ThreadCounts* counts = t_counts;
  if (counts == nullptr) return;
  std::uint32_t at = counts->depth;
  while (at > 0 && counts->open[at - 1].key != key) --at;
  if (at == 0) return;
  const OpenCall& call = counts->open[at - 1];
  const std::uint64_t ns = monotonic_ns() - call.start_ns;
  counts->depth = at - 1;  // what was open above it ended unseen
  if (Cell* cell = cell_of(*counts, call.name)) {
    add(cell->calls, std::uint64_t{1});
    add(cell->total_ns, ns);
    add(cell->histogram[duration_bucket(ns)], 1u);
  } else {
    add(counts->uncounted, std::uint64_t{1});
  }
}

void append_counts_line(std::string& out, double share, std::uint64_t counted_ns) {
  std::map<std::string, Sum, std::less<>> sums;
  std::uint64_t uncounted = 0;
  for (ThreadCounts* counts = g_all.load(std::memory_order_acquire); counts != nullptr;
       counts = counts->next) {
    uncounted += counts->uncounted.load(std::memory_order_relaxed);
    for (const Cell& cell : counts->cells) {
      if (!cell.named.load(std::memory_order_acquire)) continue;
      Sum& sum = sums[cell.name];
      sum.calls += cell.calls.load(std::memory_order_relaxed);
      sum.total_ns += cell.total_ns.load(std::memory_order_relaxed);
      for (std::uint32_t bucket = 0; bucket < kDurationBuckets; ++bucket) {
        sum.histogram[bucket] += cell.histogram[bucket].load(std::memory_order_relaxed);
      }
    }
  }
  out += "{\"kind\":\"counts\",\"share\":";
  format::append_json_number(out, share);
  out += ",\"counted_ns\":";
  format::append_json_number(out, counted_ns);
  out += ",\"uncounted\":";
  format::append_json_number(out, uncounted);
  out += ",\"operators\":[";
  bool first = true;
  for (const auto& [name, sum] : sums) {
    if (!first) out += ',';
    first = false;
    append_operator(out, name, sum);
  }
  out += "]}\n";
}

void counts_leave_parent() noexcept {
  g_counting.store(false, std::memory_order_relaxed);
  t_counts = nullptr;
  g_all.store(nullptr, std::memory_order_relaxed);
  g_free = nullptr;
  g_free_lock.clear();
}

}  // namespace tensortap::probe
