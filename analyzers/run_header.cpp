#include "analyzers/run_header.h"

#include <boost/json/parse.hpp>

namespace tensortap::analyzers {
namespace {

void copy_members(const boost::json::object& from, boost::json::object& to,
                  std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    if (const boost::json::value* value = from.if_contains(key)) to[key] = *value;
  }
}

void add_meta(const format::Meta& meta, boost::json::object& out) {
  out["trace_schema"] = meta.schema;
  out["run_id"] = meta.run_id;
  out["correlation_id"] = meta.correlation_id;
  out["entrypoint"] = meta.entrypoint;
  out["phase"] = meta.phase == format::Phase::kTrain ? "train" : "infer";
  out["timestamp"] = meta.timestamp;
  out["capture_step"] = meta.capture_step;
  out["warmup_steps"] = meta.warmup_steps;
  out["device"] = meta.device;
  out["timing_mode"] = meta.timing_mode == format::TimingMode::kHost ? "host" : "device_synchronized";
  copy_members(parse_object(meta.ext), out,
               {"producer", "torch", "pid", "exe", "command", "rank", "world_size", "rank_source", "backend",
                "parent_run"});
}

}  // namespace

boost::json::object parse_object(std::string_view text) {
  boost::system::error_code error;
  boost::json::value value = boost::json::parse(boost::json::string_view(text.data(), text.size()), error);
  return !error && value.is_object() ? std::move(value.get_object()) : boost::json::object();
}

std::uint64_t count_of(const boost::json::value& value) {
  if (value.is_uint64()) return value.get_uint64();
  if (value.is_int64() && value.get_int64() > 0) return static_cast<std::uint64_t>(value.get_int64());
  return 0;
}

boost::json::object run_header(const ReportContext& context) {
  boost::json::object out;
  if (context.meta) add_meta(*context.meta, out);
  if (!context.ledger.empty()) out["ledger"] = context.ledger;
  if (!context.outcome) {
    out["outcome"] = "unknown";
    out["reason"] = "the trace has no terminal record: the run goes on, or its end was lost";
    return out;
  }
  out["outcome"] = context.ended_well() ? "complete" : "failed";
  if (!context.reason.empty()) out["reason"] = context.reason;
  copy_members(context.terminal_ext, out, {"exit_status", "written_by"});
  return out;
}

}  // namespace tensortap::analyzers
