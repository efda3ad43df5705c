#include "collector/run_info.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "collector/json_fields.h"
#include "collector/unique_fd.h"

namespace tensortap::collector {

using format::Error;
using format::ErrorCode;
namespace json = boost::json;

namespace {

constexpr std::size_t kMaxRankWord = 64;
constexpr std::size_t kMaxRunJsonBytes = 8 * 1024 * 1024;

Error io_error(const std::string& what, const std::string& path) {
  return Error{ErrorCode::kIo, what + ": " + std::strerror(errno), path};
}

void put(json::object& object, std::string_view key, const std::string& value) {
  if (!value.empty()) object[key] = value;
}

format::Result<std::string> read_small_file(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return io_error("cannot open", path);
  std::string text;
  char buffer[16384];
  while (true) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return io_error("cannot read", path);
    if (got == 0) return text;
    text.append(buffer, static_cast<std::size_t>(got));
    if (text.size() > kMaxRunJsonBytes) return Error{ErrorCode::kMalformed, "is too large", path};
  }
}

bool write_all(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t put_bytes = ::write(fd, content.data(), content.size());
    if (put_bytes < 0 && errno == EINTR) continue;
    if (put_bytes < 0) return false;
    content.remove_prefix(static_cast<std::size_t>(put_bytes));
  }
  return true;
}

RunState parse_state(std::string_view name) {
  if (name == "complete") return RunState::kComplete;
  return name == "failed" ? RunState::kFailed : RunState::kOpen;
}

}  // namespace

std::string_view run_state_name(RunState state) {
  switch (state) {
    case RunState::kOpen:
      return "open";
    case RunState::kComplete:
      return "complete";
    case RunState::kFailed:
      return "failed";
  }
  return "?";
}

bool take_rank(const json::object& object, RunInfo& info) {
  const auto rank = signed_field(object, "rank");
  info.world_size = signed_field(object, "world_size");
  if (!rank) return false;
  info.rank = rank;
  info.rank_source = string_field(object, "rank_source").substr(0, kMaxRankWord);
  info.backend = string_field(object, "backend").substr(0, kMaxRankWord);
  return true;
}

json::object rank_json(const RunInfo& info) {
  json::object object;
  if (info.rank) object["rank"] = *info.rank;
  if (info.world_size) object["world_size"] = *info.world_size;
  put(object, "rank_source", info.rank_source);
  put(object, "backend", info.backend);
  return object;
}

json::object run_json(const RunInfo& info) {
  json::object object{{"kind", "run"}, {"run", info.run}, {"state", run_state_name(info.state)}};
  put(object, "reason", info.reason);
  object["folder"] = info.folder;
  object["producer"] = info.probe ? "probe" : "plain";
  object["pid"] = info.pid;
  if (info.start_time != 0) object["start_time"] = info.start_time;
  object["uid"] = info.uid;
  put(object, "exe", info.exe);
  object["command"] = json::array(info.command.begin(), info.command.end());
  put(object, "torch", info.torch);
  put(object, "parent_run", info.parent_run);
  put(object, "launch", info.launch);
  for (auto& [key, value] : rank_json(info)) object[key] = value;
  if (info.memfd_bytes != 0) object["memfd_bytes"] = info.memfd_bytes;
  object["started"] = info.started;
  put(object, "ended", info.ended);
  object["ledger"] = ledger_json(info.ledger);
  object["diagnostics"] = counts_json(info.diagnostics);
  return object;
}

std::string control_line(const RunInfo& info) {
  json::object object{{"kind", "run"}, {"run", info.run}, {"folder", info.folder}};
  object["state"] = run_state_name(info.state);
  object["pid"] = info.pid;
  object["exe"] = info.exe;
  put(object, "reason", info.reason);
  put(object, "parent_run", info.parent_run);
  return json::serialize(object) + "\n";
}

format::Result<RunInfo> parse_run_json(std::string_view text) {
  const auto parsed = parse_object(text);
  if (!parsed || string_field(*parsed, "kind") != "run") {
    return Error{ErrorCode::kMalformed, "is not a run.json"};
  }
  const json::object& object = *parsed;
  RunInfo info;
  info.run = string_field(object, "run");
  info.state = parse_state(string_field(object, "state"));
  info.reason = string_field(object, "reason");
  info.folder = string_field(object, "folder");
  info.probe = string_field(object, "producer") == "probe";
  info.pid = signed_field(object, "pid").value_or(0);
  info.start_time = unsigned_field(object, "start_time").value_or(0);
  info.uid = unsigned_field(object, "uid").value_or(0);
  info.exe = string_field(object, "exe");
  info.command = strings_field(object, "command");
  info.torch = string_field(object, "torch");
  info.parent_run = string_field(object, "parent_run");
  info.launch = string_field(object, "launch");
  take_rank(object, info);
  info.memfd_bytes = unsigned_field(object, "memfd_bytes").value_or(0);
  info.started = string_field(object, "started");
  info.ended = string_field(object, "ended");
  if (const json::object* ledger = find_object(object, "ledger")) info.ledger = parse_ledger(*ledger);
  info.diagnostics = parse_counts(object, "diagnostics");
  if (info.run.empty()) return Error{ErrorCode::kMalformed, "names no run"};
  return info;
}

format::Result<RunInfo> read_run_json(const std::string& folder) {
  auto text = read_small_file(folder + "/run.json");
  if (!text) return text.error();
  auto info = parse_run_json(*text);
  if (!info) {
    Error error = info.error();
    error.file = folder + "/run.json";
    return error;
  }
  info->folder = folder;  // the state folder may have been moved
  return info;
}

format::Status write_run_json(const RunInfo& info, bool durable) {
  return replace_file(info.folder + "/run.json", json::serialize(run_json(info)) + "\n", durable);
}

format::Status sync_folder(const std::string& folder) {
  const UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || ::fsync(fd.get()) != 0) return io_error("cannot sync", folder);
  return {};
}

format::Status replace_file(const std::string& path, std::string_view content, bool durable) {
  const std::string temporary = path + ".new";
  UniqueFd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0640));
  if (!fd) return io_error("cannot create", temporary);
  if (!write_all(fd.get(), content) || (durable && ::fdatasync(fd.get()) != 0)) {
    const Error error = io_error("cannot write", temporary);
    ::unlink(temporary.c_str());
    return error;
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) return io_error("cannot rename to", path);
  if (durable) return sync_folder(path.substr(0, path.rfind('/')));
  return {};
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace tensortap::collector
