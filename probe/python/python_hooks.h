// Module calls of a Python job, seen from inside its interpreter.
//
// `python_hooks_start` starts one detached thread which waits until `torch.nn.modules.module.Module` exists
// and replaces `Module.__call__` by a wrapper (module_call.h) that reports each call to capture.h. Nothing is
// imported, printed or kept alive; the job's own code is not changed. When the hooks are in place
// kPythonHooks is counted, when they can't be kPythonHooksFailed. `python_hooks_stop` puts the class's own
// function back in the same way: between captures a call costs what it cost before. A forked child inherits
// them.
//
// No header of Python is used: one build works with CPython 3.8 to 3.13 (functions are found by dlsym, no
// structure but PyMethodDef is relied on). Free-threaded builds are refused: the tables here are protected by
// the GIL.
//
//   capture_start();         // the backend, on a thread of its own, without the GIL
//   python_hooks_start();    // returns at once; harmless in a process without Python
//
// C++17.
#pragma once

namespace tensortap::probe {

// Call without the GIL, on any thread, after the capture began. Called for each capture; in a
// forked child whose parent had not finished it starts over.
void python_hooks_start() noexcept;
// Call without the GIL. Returns at once; the thread that does it ends by itself.
void python_hooks_stop() noexcept;

// The optimizer whose step() this thread is in: its identity (never followed), nullptr when there is none. To
// be called inside the start callback of the range "Optimizer.step#…". torch releases the GIL around that
// callback (seen on 1.13 and 2.15), so this takes it for a moment, as the thread will do anyway when the
// callback returns; a thread that has no Python state gets nullptr without touching the interpreter. Not
// noexcept: CPython before 3.14 ends a daemon thread that asks for the GIL at exit by forced unwinding, which
// must be able to pass.
const void* python_current_optimizer();

}  // namespace tensortap::probe
