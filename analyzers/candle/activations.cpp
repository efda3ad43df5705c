#include "analyzers/candle/activations.h"

#include <algorithm>
#include <string_view>

#include "analyzers/candle/storage_charges.h"

namespace tensortap::analyzers::candle {
namespace {

struct Window {
  std::uint64_t begin_ns = 0, end_ns = 0;
};

std::optional<Window> window_of(const SpanTable& spans) {
  if (spans.first_measured() == kNoId) return std::nullopt;
  const SpanRow& span = spans[spans.first_measured()];
  return Window{span.start_ns, span.end_ns()};
}

ByteNanoseconds saturating_add(ByteNanoseconds a, ByteNanoseconds b) {
  return b > ~ByteNanoseconds{0} - a ? ~ByteNanoseconds{0} : a + b;
}

void add_storage(ActivationOp& out, const StorageCharges::Charge& charge,
                 const std::optional<Window>& window) {
  out.by_storage = out.knows_storage = true;
  out.allocated_bytes = saturating_sum(out.allocated_bytes, charge.bytes);
  ++out.storage_count;
  if (!window) return;
  out.knows_times = true;
  const std::uint64_t from = std::max(charge.start_ns, window->begin_ns);
  const std::uint64_t to = charge.open ? window->end_ns : std::min(charge.end_ns, window->end_ns);
  const std::uint64_t live_ns = to > from ? to - from : 0;
  out.live_ns = saturating_sum(out.live_ns, live_ns);
  out.byte_ns = saturating_add(out.byte_ns, ByteNanoseconds{charge.bytes} * live_ns);
  const bool outlives = charge.open || charge.end_ns > window->end_ns;
  if (charge.start_ns < window->end_ns && outlives) {
    out.retained_bytes = saturating_sum(out.retained_bytes, charge.bytes);
  }
}

// "cpu" or "cpu:…", in any ASCII case.
bool is_host(std::string_view device) {
  constexpr std::string_view kHost = "cpu";
  if (device.size() < kHost.size() || (device.size() > kHost.size() && device[kHost.size()] != ':'))
    return false;
  return std::equal(kHost.begin(), kHost.end(), device.begin(),
                    [](char host, char c) { return host == c || host - 'a' + 'A' == c; });
}

}  // namespace

ActivationProfile::ActivationProfile(const ActivationInputs& in, bool logical_is_complete) : in_(in) {
  const StorageCharges charges(in_);
  unattributed_ = charges.unattributed();
  if (charges.size() != 0 || in_.tensors.has_activations()) list(charges, logical_is_complete);
}

void ActivationProfile::list(const StorageCharges& charges, bool logical_is_complete) {
  const std::optional<Window> window = window_of(in_.spans);
  StorageCharges::Cursor cursor(charges);
  for (std::uint64_t at = 0; at < in_.ops.size(); ++at) {
    const OpRow row = in_.ops[at];
    ActivationOp out;
    out.op = at;
    cursor.take(at, [&](const StorageCharges::Charge& charge) { add_storage(out, charge, window); });
    if (in_.scope[row.span] != Scope::kMeasuredSubtree) continue;
    out.by_tensor = in_.tensors.is_activation(row.output);
    if (!out.by_tensor && !out.by_storage) continue;
    if (!out.by_storage)
      out.knows_storage = out.knows_times = logical_is_complete && !charges.is_marked(row.span);
    const SpanRow& span = in_.spans[row.span];
    out.dedicated = span.kind == format::SpanKind::kOp && span.op_count == 1;
    if (out.dedicated) in_.timing.for_each_row_of(row.span, [&](const auto&) { out.has_device_rows = true; });
    add(out, row);
  }
}

void ActivationProfile::add(const ActivationOp& op, const OpRow& row) {
  lacks_dense_ |= !row.has_dense_bytes;
  lacks_storage_ |= !op.knows_storage;
  if (!is_host(in_.tables.names.text(row.device))) {
    ++on_devices_;
    on_devices_timed_ += op.has_device_rows ? 1 : 0;
  }
  const auto beats = [&](std::uint64_t figure, std::uint64_t best, const ActivationOp& other) {
    return figure != best ? figure > best : id(op) < id(other);
  };
  if (!longest_ || beats(row.duration_ns, in_.ops[longest_->op].duration_ns, *longest_)) longest_ = op;
  if (row.has_dense_bytes &&
      (!largest_ || beats(row.dense_bytes, in_.ops[largest_->op].dense_bytes, *largest_))) {
    largest_ = op;
  }
  listed_.push_back(op);
}

std::string ActivationProfile::id(const ActivationOp& op) const {
  const OpRow row = in_.ops[op.op];
  std::string span = in_.tables.spans.text(row.span);
  return op.dedicated ? span : span + "/op/" + std::to_string(row.index);
}

ActivationStates ActivationProfile::states(const Capabilities& capabilities) const {
  ActivationStates out;
  out.coverage = capabilities[Capability::kActivations];
  out.host_time = combine(out.coverage, capabilities[Capability::kNestedHostTime]);
  out.dense_output = out.coverage;
  if (lacks_dense_) lower(out.dense_output, "some operations have an output of unknown size");
  out.logical_memory = combine(out.coverage, capabilities[Capability::kLogicalMemory]);
  if (unattributed_ != 0) lower(out.logical_memory, "some storages name no single operation");
  if (lacks_storage_) lower(out.logical_memory, "the storage of some operations is unknown");
  out.device_time = combine(out.coverage, capabilities[Capability::kNestedDeviceTime]);
  if (out.device_time.level != Level::kInvalid) {
    if (on_devices_ == 0) {
      out.device_time = {Level::kUnavailable, "none", "no activation operation ran on a device"};
    } else if (on_devices_timed_ == 0) {
      out.device_time = {Level::kUnavailable, "none",
                         "no activation operation on a device has a span of its own with device intervals"};
    } else if (on_devices_timed_ < on_devices_) {
      lower(out.device_time, "some activation operations on a device have no device intervals of their own");
    }
  }
  out.physical_memory_attribution = {Level::kUnavailable, "none",
                                     "samples of device memory cannot be charged to operations"};
  return out;
}

}  // namespace tensortap::analyzers::candle
