// The interposed `dlopen`: looks at the path, then gets out of the way.
//
// dlopen resolves $ORIGIN and RUNPATH of its *caller*, which it knows by its return address. So the hook is
// no wrapper: it calls `tt_before_dlopen` and tail-jumps to the real function with arguments and stack as
// they came.
//
// Threads: any, including inside constructors of libraries. Nothing of ours is held while the real dlopen
// runs.
#pragma once

typedef void* (*TtDlopen)(const char* path, int mode);

// The dlopen behind ours (RTLD_NEXT: another preloaded library's, or libc's).
TtDlopen tt_real_dlopen(void);

// Called by the stub: wakes the watcher when `path` speaks of torch; returns the function to jump to.
TtDlopen tt_before_dlopen(const char* path);
