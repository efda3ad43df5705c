// The RecordFunction observer: operators, autograd nodes, script functions and user ranges of all threads.
//
// Thread rules: install and remove on one thread; the callbacks run on the job's threads. This file's
// implementation includes torch headers and is compiled once per torch version, always with NDEBUG (it
// changes at::RecordFunction's layout).
#pragma once

namespace tensortap::probe {

// Users' ranges (and PyTorch's own: optimizers, data loaders): what steps are seen by. Costs operators
// nothing.
void observer_install_ranges() noexcept;
// Operators, autograd nodes, script functions.
void observer_install_operators() noexcept;
// Neither is called any more, except at the end of what is running now.
void observer_remove() noexcept;

}  // namespace tensortap::probe
