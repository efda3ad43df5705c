// The Python function that takes the place of Module.__call__, as source text. install_hooks
// (hook_thread.cpp) runs it in a dictionary of its own and calls make() once.
//
// What it must not change, and how:
// - torch.compile traces through it: `compiling` (torch.compiler.is_dynamo_compiling) is a constant True for
// Dynamo, so
//   the rest is never traced. The function looks like one of torch/nn/modules: its file name lies in that
//   folder, so Dynamo skips it as a top frame (hooks run outside the graph, as without us) and inlines it
//   below, and its names are the original's.
// - Tracebacks: `failed` takes this frame out of the exception's traceback; a bare raise doesn't add it
// again.
// - warnings.warn(stacklevel=…) skips frames whose file name has "importlib" and "_bootstrap" in it, so the
// warning names the
//   same line of the job. (A name beginning with "<frozen importlib" would do as well, but Dynamo skips those
//   always.)
// - `self` stays a plain local of that name: torch.profiler looks there for the module.
// - Everything that can raise is inside the try: a signal handler may raise right after enter or leave
// returned; `failed`
//   sees by the line in the traceback where that was.
// - The inner try: when the recursion limit is reached in this very frame, calling `failed` raises again;
// that must
//   not hide the job's own RecursionError. The next wrapper further out strips this frame as well.
#pragma once

namespace tensortap::probe {

inline constexpr char kModuleCallSource[] = R"py(
def make(original, compiling, enter, leave, failed):
    if compiling is None:
        def call(self, *args, **kwargs):
            try:
                entered = enter(self, args, kwargs)
                result = original(self, *args, **kwargs)
                if entered:
                    leave(self, result)
                return result
            except:
                try:
                    failed(self)
                except RecursionError:
                    pass
                raise
    else:
        def call(self, *args, **kwargs):
            if compiling():
                return original(self, *args, **kwargs)
            try:
                entered = enter(self, args, kwargs)
                result = original(self, *args, **kwargs)
                if entered:
                    leave(self, result)
                return result
            except:
                try:
                    failed(self)
                except RecursionError:
                    pass
                raise
    theirs = original.__code__
    names = call.__code__.co_varnames
    if theirs.co_argcount == 1 and not theirs.co_kwonlyargcount and theirs.co_flags & 12 == 12:
        names = theirs.co_varnames[:3] + names[3:]
    changes = {
        'co_name': theirs.co_name,
        'co_varnames': names,
        'co_filename': theirs.co_filename.rpartition('/')[0] + '/<tensortap importlib _bootstrap>',
    }
    if hasattr(theirs, 'co_qualname'):
        changes['co_qualname'] = theirs.co_qualname
    wrapper = type(original)(call.__code__.replace(**changes), original.__globals__, original.__name__,
                             None, call.__closure__)
    wrapper.__dict__.update(original.__dict__)
    wrapper.__qualname__ = original.__qualname__
    wrapper.__module__ = original.__module__
    wrapper.__doc__ = original.__doc__
    wrapper.__annotations__ = original.__annotations__
    wrapper.__wrapped__ = original
    return wrapper
)py";

}  // namespace tensortap::probe
