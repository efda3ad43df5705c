// The always-on observer: counts operators and their durations (core/op_counts.h), of a share of the calls.
//
// PyTorch itself chooses the calls: a RecordFunction callback with a sampling probability costs the others a
// countdown. Thread rules: install and remove on one thread; the callbacks run on the job's threads.
#pragma once

namespace tensortap::probe {

// 0 < share <= 1.
void counter_install(double share) noexcept;
void counter_remove() noexcept;

}  // namespace tensortap::probe
