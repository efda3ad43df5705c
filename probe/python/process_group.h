// The job's default process group as torch.distributed has it: finds one that is older than the probe, and
// the name of its backend.
//
// Only look-ups of what is loaded, and the group's own rank() and size(), which return a number that it
// keeps. With the GIL, in a frame without destructor or noexcept (hook_thread.cpp). What it finds goes to
// probe/core/process_group.h.
//
// C++17.
#pragma once

namespace tensortap::probe {

void python_look_up_group();

}  // namespace tensortap::probe
