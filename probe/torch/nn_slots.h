// Sees the C++ side of a training loop: calls of torch::nn modules, backward passes, optimizer steps,
// zero_grad; and tells probe/core (module_enter, phase_enter, note_zero_grad). By typed wrappers in the
// relocation slots (slots.h) of the functions that libtorch exports:
//
//   torch::nn::*Impl::forward    a module call, with its path in the module tree (module_calls.h)
//   torch::nn::Module::Module    a module came to be
//   torch::optim::*::step        an optimizer phase, named `Optimizer.step#SGD.step` as in Python
//   torch::optim::Optimizer::zero_grad
//   torch::autograd::Engine::execute   a backward phase; Python's backward comes by here, too
//
// A wrapper has the exact type of what it wraps, passes its arguments on, and lets exceptions through.
//
// Not seen: forwards that are inlined into the job (BatchNorm, InstanceNorm, Sequential and other containers,
// the user's own classes); the user's own optimizers. A class of the user's is known as the root of what it
// holds if its constructor ran after nn_slots_prepare. A copy or clone() of one, or an older one, is not: its
// children then stand alone, named by their types.
//
// Calls are wrapped during a capture only. Constructors stay wrapped: which root holds a module must be known
// when a capture begins, and a constructed module costs one entry in a table.
//
//   nn_slots_prepare();  // once, before any capture: constructors
//   nn_slots_install();  // at the start of a capture: constructors and calls
//   nn_slots_repatch();  // after a dlopen, at any time
//   nn_slots_remove();   // at its end: calls
//
// Threads: any; see SlotPatcher.
#pragma once

namespace tensortap::probe {

void nn_slots_prepare() noexcept;
// False when nothing could be wrapped.
bool nn_slots_install() noexcept;
void nn_slots_remove() noexcept;
void nn_slots_repatch() noexcept;

}  // namespace tensortap::probe
