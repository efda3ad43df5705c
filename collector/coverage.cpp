#include "collector/coverage.h"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <initializer_list>

#include "collector/json_fields.h"
#include "collector/meta_line.h"
#include "format/ring_layout.h"

namespace tensortap::collector {

using format::Counter;
using format::Coverage;

namespace {

bool any_counted(const Counts& counts, std::initializer_list<Counter> codes) {
  return std::any_of(codes.begin(), codes.end(),
                     [&](Counter code) { return counts.count(format::counter_name(code)) != 0; });
}

Coverage level(bool whole, std::uint64_t count) {
  if (count == 0) return Coverage::kNone;
  return whole ? Coverage::kComplete : Coverage::kPartial;
}

void put_diagnostics(format::Meta& meta, const Counts& diagnostics) {
  boost::json::object ext;
  if (auto parsed = parse_object(meta.ext)) ext = std::move(*parsed);
  ext["diagnostics"] = counts_json(diagnostics);
  meta.ext = boost::json::serialize(ext);
}

}  // namespace

void settle_coverage(format::Meta& meta, const Truth& truth) {
  const bool nothing_lost = truth.complete && truth.losses_known && !truth.lost;
  const bool all_operations =
      nothing_lost &&
      !any_counted(truth.diagnostics, {Counter::kLateArm, Counter::kBeforeWindow, Counter::kCutAtStop,
                                       Counter::kCompiledRegions, Counter::kScriptFunctions});
  const bool all_storages =
      nothing_lost && !any_counted(truth.diagnostics, {Counter::kLateArm, Counter::kUntrackedBlocks,
                                                       Counter::kFreesOfUnseenBlocks});
  format::CaptureContract& contract = meta.capture_contract;
  contract.operations = level(all_operations, truth.facts.operations);
  contract.logical_memory = level(all_storages, truth.facts.memory_events);
  contract.tensors = level(false, truth.facts.tensors);
  contract.physical_memory = level(false, truth.facts.device_memory_samples);
  // A claim about activations stands on the operations being complete (specification §2.2).
  if (contract.operations != Coverage::kComplete) {
    contract.activations = std::min(contract.activations, contract.operations);
  }
  if (!contract.gradient_contract) {
    const bool all_gradients =
        nothing_lost && truth.gradients &&
        !any_counted(truth.diagnostics,
                     {Counter::kGradientNormSkipped, Counter::kGradientReadEarly, Counter::kGradientsUnread,
                      Counter::kGradientNonFinite, Counter::kParameterUnnamed});
    contract.gradients = level(all_gradients, truth.facts.gradients);
    if (contract.gradients == Coverage::kComplete) contract.gradient_contract = truth.gradients;
  }
  meta.phase = truth.facts.train ? format::Phase::kTrain : format::Phase::kInfer;

  put_diagnostics(meta, truth.diagnostics);
}

format::Result<std::string> final_meta_line(std::string_view meta_line, const Truth& truth) {
  return changed_meta_line(meta_line, [&](format::Meta& meta) { settle_coverage(meta, truth); });
}

format::Result<std::string> lowered_meta_line(std::string_view meta_line, const Counts& diagnostics) {
  bool lowered = false;
  auto line = changed_meta_line(meta_line, [&](format::Meta& meta) {
    format::CaptureContract& contract = meta.capture_contract;
    for (Coverage* claim :
         {&contract.operations, &contract.logical_memory, &contract.physical_memory, &contract.device_timing,
          &contract.tensors, &contract.activations, &contract.gradients}) {
      if (*claim != Coverage::kComplete) continue;
      *claim = Coverage::kPartial;
      lowered = true;
    }
    contract.gradient_contract.reset();  // stands for complete gradients only
    put_diagnostics(meta, diagnostics);
  });
  if (line && !lowered) return std::string(meta_line);
  return line;
}

}  // namespace tensortap::collector
