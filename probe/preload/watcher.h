// The watcher: a thread that waits until libtorch is loaded *and initialised*, arms, and ends.
//
// It exists only in processes that opened something which speaks of torch. It is detached, has every signal
// blocked, and sleeps between looks (1 ms growing to 20 ms; after a minute without torch, 250 ms).
//
// States: idle → watching → arming → done. A process linked to libtorch goes idle → arming → done in the
// constructor. A library that was loaded into a running job is untold until tt_watch_attached. After fork the
// child has no watcher: watching becomes idle again (or watching anew, if torch is already mapped).
//
//   tt_enable_watching();        // constructor
//   tt_note_dlopen(true);        // from the dlopen stub
#pragma once

#include <stdbool.h>

// From now on dlopens are looked at.
void tt_enable_watching(void);

// Loaded into a running job: nothing happens until tt_watch_attached.
void tt_await_settings(void);
// The settings are there: arm on the watcher's thread. 0; EALREADY when not awaited; EAGAIN when no thread
// could be made.
int tt_watch_attached(void);
bool tt_awaits_settings(void);

// libtorch is mapped already (program linked to it): arm on this thread, now.
void tt_arm_linked(const char* libtorch_cpu);

// A dlopen is about to happen. Any thread; cheap when there is nothing to do. Also notices a libtorch that an
// earlier dlopen of an innocent name (a plug-in linked to torch) brought in.
void tt_note_dlopen(bool speaks_of_torch);
