#include "probe/core/process_facts.h"

#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "format/line_writer.h"
#include "format/ring_layout.h"
#include "probe/core/process_group.h"
#include "probe/core/small_file.h"

namespace tensortap::probe {

using format::append_json_number;
using format::append_json_string;

namespace {

std::int64_t number_from_environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return -1;
  char* end = nullptr;
  const long long number = std::strtoll(value, &end, 10);
  return *end == '\0' && number >= 0 ? number : -1;
}

// Field 22 of /proc/self/stat; the command's name (field 2) may hold spaces and parentheses.
std::uint64_t process_start_time() {
  const std::string stat = read_small_file("/proc/self/stat");
  std::size_t at = stat.rfind(')');
  if (at == std::string::npos) return 0;
  for (int field = 2; field < 22; ++field) {
    at = stat.find(' ', at + 1);
    if (at == std::string::npos) return 0;
  }
  return std::strtoull(stat.c_str() + at + 1, nullptr, 10);
}

std::string base_name(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

// `python3 -u train.py --lr 1` was entered by train.py, `python3 -m pkg.train` by pkg.train.
std::string entrypoint_of(const std::string& exe, const std::vector<std::string>& command) {
  const std::string program = base_name(exe.empty() && !command.empty() ? command[0] : exe);
  if (program.rfind("python", 0) != 0) return program.empty() ? "unknown" : program;
  for (std::size_t i = 1; i < command.size(); ++i) {
    const std::string& word = command[i];
    if (word == "-m" && i + 1 < command.size()) return command[i + 1];
    if (word == "-c" || word == "-") return program + " " + word;
    if (word == "-X" || word == "-W") {
      ++i;
    } else if (!word.empty() && word[0] != '-') {
      return base_name(word);
    }
  }
  return program;
}

std::string random_hex() {
  unsigned char bytes[8] = {};
  if (getrandom(bytes, sizeof bytes, GRND_NONBLOCK) != static_cast<ssize_t>(sizeof bytes)) {
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    std::memcpy(bytes, &now.tv_nsec, sizeof bytes);
  }
  std::string text;
  for (const unsigned char byte : bytes) {
    char pair[3];
    std::snprintf(pair, sizeof pair, "%02x", byte);
    text += pair;
  }
  return text;
}

std::string utc_now() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  tm parts;
  gmtime_r(&now.tv_sec, &parts);
  char day[32], text[48];
  strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text, sizeof text, "%s.%03ldZ", day, now.tv_nsec / 1000000);
  return text;
}

void member(std::string& out, const char* name, std::string_view text) {
  out += ",\"";
  out += name;
  out += "\":";
  append_json_string(out, text);
}
void member(std::string& out, const char* name, std::uint64_t value) {
  out += ",\"";
  out += name;
  out += "\":";
  append_json_number(out, value);
}

void append_command(std::string& out, const std::vector<std::string>& command) {
  out += ",\"command\":[";
  std::size_t room = 3000;  // the line must stay short, whatever the job was given
  for (std::size_t i = 0; i < command.size() && command[i].size() < room; ++i) {
    if (i != 0) out += ',';
    append_json_string(out, command[i]);
    room -= command[i].size();
  }
  out += ']';
}

}  // namespace

ProcessFacts read_process_facts(const char* torch_version, const std::string& parent_run) {
  ProcessFacts facts;
  facts.pid = static_cast<std::uint64_t>(getpid());
  facts.start_time = process_start_time();
  char exe[4096];
  const ssize_t length = readlink("/proc/self/exe", exe, sizeof exe);
  if (length > 0) facts.exe.assign(exe, static_cast<std::size_t>(length));
  const std::string command = read_small_file("/proc/self/cmdline");
  for (std::size_t begin = 0; begin < command.size();) {
    const std::size_t end = command.find('\0', begin);
    facts.command.push_back(command.substr(begin, end == std::string::npos ? end : end - begin));
    if (end == std::string::npos) break;
    begin = end + 1;
  }
  facts.entrypoint = entrypoint_of(facts.exe, facts.command);
  facts.run =
      "run-" + std::to_string(facts.pid) + "-" + std::to_string(facts.start_time) + "-" + random_hex();
  facts.parent_run = parent_run;
  if (const char* launch = std::getenv("TENSORTAP_LAUNCH")) facts.launch = launch;
  facts.rank = number_from_environment("RANK");
  facts.world_size = number_from_environment("WORLD_SIZE");
  if (facts.rank >= 0) facts.rank_source = "environment";
  facts.torch_version = torch_version;
  adopt_process_group(facts);
  return facts;
}

bool adopt_process_group(ProcessFacts& facts) {
  const ProcessGroup group = process_group();
  if (group.rank < 0) return false;
  if (facts.rank_source == "process_group" && facts.rank == group.rank &&
      facts.world_size == group.world_size && facts.backend == group.backend) {
    return false;
  }
  facts.rank = group.rank;
  facts.world_size = group.world_size;
  facts.rank_source = "process_group";
  facts.backend = group.backend;
  return true;
}

namespace {

void append_rank(std::string& out, const ProcessFacts& facts) {
  if (facts.rank >= 0) member(out, "rank", static_cast<std::uint64_t>(facts.rank));
  if (facts.world_size >= 0) member(out, "world_size", static_cast<std::uint64_t>(facts.world_size));
  if (!facts.rank_source.empty()) member(out, "rank_source", facts.rank_source);
  if (!facts.backend.empty()) member(out, "backend", facts.backend);
}

void append_identity(std::string& line, const ProcessFacts& facts) {
  member(line, "pid", facts.pid);
  member(line, "start_time", facts.start_time);
  member(line, "exe", facts.exe);
  append_command(line, facts.command);
  member(line, "torch", facts.torch_version);
  if (!facts.parent_run.empty()) member(line, "parent_run", facts.parent_run);
  if (!facts.launch.empty()) member(line, "launch", facts.launch);
  append_rank(line, facts);
  line += "}\n";
}

}  // namespace

std::string hello_line(const ProcessFacts& facts, std::uint64_t memfd_bytes, bool resume) {
  std::string line = "{\"kind\":\"hello\",\"protocol\":1";
  member(line, "run", facts.run);
  line += resume ? ",\"resume\":true" : ",\"resume\":false";
  member(line, "memfd_bytes", memfd_bytes);
  append_identity(line, facts);
  return line;
}

std::string idle_hello_line(const ProcessFacts& facts, std::string_view state) {
  std::string line = "{\"kind\":\"hello\",\"protocol\":1";
  member(line, "state", state);
  append_identity(line, facts);
  return line;
}

std::string meta_line(const ProcessFacts& facts) {
  format::Meta meta;
  meta.run_id = facts.run;
  meta.correlation_id = facts.launch.empty() ? facts.run : facts.launch;
  meta.entrypoint = facts.entrypoint;
  meta.timestamp = utc_now();
  meta.device = "cpu";
  // Armed claims; the collector writes the final ones when the counts are known.
  meta.capture_contract.measurement_scope = format::MeasurementScope::kProfiledWork;
  meta.capture_contract.operations = format::Coverage::kComplete;
  meta.capture_contract.tensors = format::Coverage::kPartial;
  meta.capture_contract.logical_memory = format::Coverage::kComplete;
  meta.capture_contract.physical_memory = format::Coverage::kPartial;
  meta.tags["torch"] = facts.torch_version;
  std::string ext = "{\"producer\":\"tensortap " TENSORTAP_VERSION "\"";
  member(ext, "pid", facts.pid);
  member(ext, "exe", facts.exe);
  append_command(ext, facts.command);
  member(ext, "torch", facts.torch_version);
  append_rank(ext, facts);
  if (!facts.parent_run.empty()) member(ext, "parent_run", facts.parent_run);
  member(ext, "disorder_ns", std::uint64_t{20000000});
  ext += '}';
  meta.ext = ext;
  std::string line;
  format::LineWriter(line).write(meta);
  return line;
}

std::string rank_note_line(const ProcessFacts& facts) {
  std::string members;
  append_rank(members, facts);
  if (!members.empty()) members.erase(0, 1);  // its comma
  return "{\"kind\":\"note\",\"process_group\":{" + members + "}}\n";
}

std::string root_line(const ProcessFacts& facts) {
  format::SpanStart root;
  root.id = "s0.1";
  root.name = facts.entrypoint;
  std::string line;
  format::LineWriter(line).write(root);
  return line;
}

std::string window_line(std::uint64_t window_ns) {
  format::SpanStart window;
  window.id = "s0.2";
  window.parent_id = "s0.1";
  window.name = "window";
  window.start_ns = window_ns;
  window.measured = true;
  std::string line;
  format::LineWriter(line).write(window);
  return line;
}

}  // namespace tensortap::probe
