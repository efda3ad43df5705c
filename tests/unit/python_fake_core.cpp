// A stand-in for probe/core under the real Python hooks: logs what they report, for python_hooks_test.py.
//
// A shared library to be preloaded into python. TENSORTAP_FAKE_CORE=on|off starts the hooks at once, with or
// without a capture; `late` leaves that to fake_core_start(). The log is text: `enter <path> <type> <call
// index> <address>`, `leave <address>`.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "format/ring_layout.h"
#include "probe/core/capture.h"
#include "probe/core/gradients.h"
#include "probe/core/output_stats.h"
#include "probe/core/tensor_reader.h"
#include "probe/python/python_hooks.h"

namespace {
std::mutex mutex;
std::map<std::string, std::uint32_t>& strings() {
  static auto* map = new std::map<std::string, std::uint32_t>;
  return *map;
}
std::string& log_text() {
  static auto* text = new std::string;
  return *text;
}
std::atomic<bool> capture{false};
std::atomic<bool> logging{true};
std::atomic<std::uint32_t> generation{1};
std::atomic<std::uint64_t> counters[static_cast<std::size_t>(tensortap::format::Counter::kCount)];
thread_local int depth = 0;

std::string text_of(std::uint32_t ref) {
  for (const auto& [text, number] : strings()) {
    if (number == ref) return text;
  }
  return "?";
}
}  // namespace

namespace tensortap::probe {

bool capturing() noexcept { return capture.load(std::memory_order_relaxed); }
std::uint32_t session_generation() noexcept { return generation; }
std::uint32_t evidence_generation() noexcept { return generation << 1 | 1; }

format::StrRef intern(std::string_view text) noexcept {
  const std::lock_guard lock(mutex);
  // References of an older generation must not be understood in a new one.
  return strings().try_emplace(std::string(text), generation * 1000 + strings().size()).first->second;
}

void module_enter(const ModuleCall& call) noexcept {
  ++depth;
  if (!logging.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(mutex);
  char line[512];
  std::snprintf(line, sizeof line, "enter %s %s %u %p\n", text_of(call.path).c_str(),
                text_of(call.type).c_str(), call.call_index, call.module);
  log_text() += line;
}

void module_leave(const void* module, const ModuleResult&) noexcept {
  --depth;
  if (!logging.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(mutex);
  char line[64];
  std::snprintf(line, sizeof line, "leave %p\n", module);
  log_text() += line;
}

bool (*g_function_mode_active)() noexcept = nullptr;
bool read_tensor(const void*, TensorFacts&) noexcept { return false; }
void note_module_tensor(std::uint64_t, std::string_view, const void*, bool, FactBytes) noexcept {}
std::uint64_t next_module_number() noexcept { return 1; }
bool stats_configured() noexcept { return false; }
bool stats_wanted(const char*) noexcept { return false; }
void note_stats(std::string_view, const void*) noexcept {}
void note_mask(std::string_view, const void*) noexcept {}
void note_gradient(std::string_view, std::string_view, const void*) noexcept {}

bool inside_module() noexcept { return depth > 0; }
void count(std::uint32_t counter, std::uint64_t add) noexcept { counters[counter] += add; }

}  // namespace tensortap::probe

extern "C" {
void fake_core_start() { tensortap::probe::python_hooks_start(); }
void fake_core_capture(int on) { capture = on != 0; }
void fake_core_logging(int on) { logging = on != 0; }
void fake_core_new_generation() {
  const std::lock_guard lock(mutex);
  strings().clear();
  ++generation;
}
int fake_core_installed() {
  return static_cast<int>(counters[static_cast<int>(tensortap::format::Counter::kPythonHooks)]);
}
int fake_core_failed() {
  return static_cast<int>(counters[static_cast<int>(tensortap::format::Counter::kPythonHooksFailed)]);
}
int fake_core_depth() { return depth; }
const char* fake_core_log() { return log_text().c_str(); }
void fake_core_clear() { log_text().clear(); }
const void* fake_core_current_optimizer() { return tensortap::probe::python_current_optimizer(); }
}

namespace {
// Appends the log to a file when the process ends, for scripts that know nothing of us.
void write_log() {
  const char* path = std::getenv("TENSORTAP_FAKE_LOG");
  std::FILE* file = path ? std::fopen(path, "a") : nullptr;
  if (!file) return;
  std::fputs(log_text().c_str(), file);
  std::fclose(file);
}

__attribute__((constructor)) void start() {
  const char* mode = std::getenv("TENSORTAP_FAKE_CORE");
  if (!mode) return;
  std::atexit(write_log);
  capture = std::strcmp(mode, "off") != 0;
  if (std::strcmp(mode, "late") != 0) tensortap::probe::python_hooks_start();
}
}  // namespace
