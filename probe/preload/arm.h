// Arming: choose the backend that fits the libtorch in this process, load it, start it.
//
// Threads: `tt_arm` is called once per process, by the constructor or the watcher. `tt_disarm_at_exit` by
// exit's handler. A backend is never unloaded.
//
//   if (tt_arm("/usr/lib/…/libtorch_cpu.so.1.13", true)) …
#pragma once

#include <stdbool.h>

// Loads and starts the fitting backend. False when none fits or it refused; the reason is in the log.
bool tt_arm(const char* libtorch_cpu, bool linked_to_program);

// Tells a started backend that the process ends by exit(status); nothing when none was started.
void tt_disarm_at_exit(int status);
