// The moment at which the job makes its process group (torch.distributed, or c10d in C++): wrappers around
// the constructors that libtorch_cpu and libtorch_cuda export. They tell core (process_group.h) the rank, the
// world's size and, of gloo and NCCL, the backend. Of a group of another library (MPI in torch 1.x) only the
// look into the interpreter knows.
//
// In place at all times, as the constructors of modules are: a job makes a handful of groups, and a process
// that waits for orders is to be found by its rank. No torch type is used: the arguments are two pointers and
// two numbers in registers, whatever the version.
//
// Thread rules: as nn_slots.h. C++17.
#pragma once

namespace tensortap::probe {

// Before the job makes its group, if that can be.
void group_slots_install() noexcept;
// Libraries may have been loaded meanwhile.
void group_slots_repatch() noexcept;

}  // namespace tensortap::probe
