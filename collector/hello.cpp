#include "collector/hello.h"

#include "collector/json_fields.h"
#include "collector/limits.h"
#include "collector/naming.h"

namespace tensortap::collector {

using format::Error;
using format::ErrorCode;

namespace {

// What is kept of a command line as long as the run is known.
std::vector<std::string> bounded(std::vector<std::string> words) {
  std::size_t room = kMaxCommandBytes;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].size() < room) {
      room -= words[i].size() + 1;
      continue;
    }
    words[i].resize(room);
    words[i] += "…";
    words.resize(i + 1);
    break;
  }
  return words;
}

}  // namespace

RunInfo describe_peer(const Peer& peer) {
  RunInfo info;
  info.pid = peer.pid;
  info.uid = peer.uid;
  info.start_time = peer.start_time;
  info.exe = peer.exe;
  info.command = bounded(peer.command);
  return info;
}

format::Result<Hello> parse_hello(std::string_view line, const Peer& peer) {
  const auto object = parse_object(line);
  if (!object) return Error{ErrorCode::kMalformed, "the hello line is no JSON object"};
  const auto protocol = unsigned_field(*object, "protocol").value_or(0);
  if (protocol != kProtocol) {
    return Error{ErrorCode::kUnsupported,
                 "protocol " + std::to_string(protocol) + " is not spoken here (this collectord speaks " +
                     std::to_string(kProtocol) + "): use a probe and a collectord of one version"};
  }
  Hello hello;
  hello.info = describe_peer(peer);
  RunInfo& info = hello.info;
  info.probe = true;
  info.run = string_field(*object, "run");
  hello.state = string_field(*object, "state");
  if (hello.state.size() > kMaxTokenBytes) return Error{ErrorCode::kMalformed, "hello.state is too long"};
  if (hello.state.empty() && !is_run_identity(info.run)) {
    return Error{ErrorCode::kMalformed, "hello.run must be 1 to 120 letters, digits and '-'"};
  }
  hello.resume = bool_field(*object, "resume");
  if (info.pid == 0) info.pid = signed_field(*object, "pid").value_or(0);
  if (info.start_time == 0) info.start_time = unsigned_field(*object, "start_time").value_or(0);
  if (info.exe.empty()) info.exe = string_field(*object, "exe").substr(0, kMaxPathBytes);
  if (auto command = strings_field(*object, "command"); !command.empty()) {
    info.command = bounded(std::move(command));
  }
  info.torch = string_field(*object, "torch").substr(0, kMaxTokenBytes);
  info.parent_run = string_field(*object, "parent_run").substr(0, kMaxIdentityBytes);
  info.launch = string_field(*object, "launch");
  if (info.launch.size() > kMaxTokenBytes) return Error{ErrorCode::kMalformed, "hello.launch is too long"};
  take_rank(*object, info);
  return hello;
}

}  // namespace tensortap::collector
