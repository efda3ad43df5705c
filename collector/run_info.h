// What is known about a run: the content of run.json, and of the answers to control clients
// (proto/session.md).
//
//   RunInfo info; info.run = "71-8812-a1b2"; …
//   Status written = write_run_json(info);      // <info.folder>/run.json, replaced by rename
//   Result<RunInfo> back = read_run_json(folder);
//
// Thread rules: plain values.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collector/ledger.h"
#include "format/result.h"

namespace tensortap::collector {

enum class RunState : std::uint8_t { kOpen, kComplete, kFailed };
std::string_view run_state_name(RunState state);

struct RunInfo {
  std::string run;
  RunState state = RunState::kOpen;
  std::string reason;
  std::string folder;  // absolute
  bool probe = false;  // false: a plain producer
  std::int64_t pid = 0;
  std::uint64_t start_time = 0;  // clock ticks after boot; 0 = not known
  std::uint64_t uid = 0;
  std::string exe;
  std::vector<std::string> command;
  std::string torch;
  std::string parent_run;
  std::string launch;
  std::optional<std::int64_t> rank, world_size;
  std::string rank_source;  // "environment", "process_group"
  std::string backend;      // of the process group
  std::uint64_t memfd_bytes = 0;
  std::string started, ended;  // UTC
  Ledger ledger;
  Counts diagnostics;
};

// rank, world_size, rank_source and backend, where `object` has a rank that can be one. False: it has none.
bool take_rank(const boost::json::object& object, RunInfo& info);
boost::json::object rank_json(const RunInfo& info);
boost::json::object run_json(const RunInfo& info);
// The short form for control clients, one line with its LF.
std::string control_line(const RunInfo& info);

format::Result<RunInfo> parse_run_json(std::string_view text);
format::Result<RunInfo> read_run_json(const std::string& folder);
// `durable`: on the medium when it returns.
format::Status write_run_json(const RunInfo& info, bool durable = false);

// Writes a whole file beside its place and renames it there: readers see the old one or the new one.
format::Status replace_file(const std::string& path, std::string_view content, bool durable = false);
// The names in a folder are on the medium when it returns.
format::Status sync_folder(const std::string& folder);

// "2026-03-01T12:34:56Z"
std::string utc_now();

}  // namespace tensortap::collector
