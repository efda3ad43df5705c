"""What the Python jobs share: their options, how they die on request, operator counts by PyTorch's own profiler.

The jobs are real training and inference programs and know nothing of tensortap. Each takes

    --steps N          how many iterations
    --kill-step K --how kill|abort|segv|exit
                       in step K, after the loss was computed: run the marker operator full((1,), 4242), then die so
    --linger S         sleep so many seconds at the end
    --describe         print as JSON what the job will do (steps; module paths with class, calls and output shape,
                       worked out by hand from the model's formula, not by running it), and exit
    --counts FILE      run under torch.profiler and write {"total", "top_level", "by_name": {name: [calls, top level]}}

Loss that does not fall is exit code 1: a training that learns nothing is a failed test.
"""
import argparse
import json
import os
import signal
import sys
import time
from collections import Counter

MARKER = 4242


def parser(steps):
    options = argparse.ArgumentParser()
    options.add_argument("--steps", type=int, default=steps)
    options.add_argument("--kill-step", type=int, default=-1)
    options.add_argument("--how", choices=("kill", "abort", "segv", "exit"), default="kill")
    options.add_argument("--linger", type=float, default=0)
    options.add_argument("--describe", action="store_true")
    options.add_argument("--counts", metavar="FILE")
    return options


def die(how):
    import torch

    torch.full((1,), MARKER)
    sys.stdout.flush()
    if how == "exit":
        os._exit(3)
    os.kill(os.getpid(), {"kill": signal.SIGKILL, "abort": signal.SIGABRT, "segv": signal.SIGSEGV}[how])


def module(path, cls, calls, output):
    return {"path": path, "type": cls, "calls": calls, "output": list(output)}


def run(options, describe, main):
    """Ends the process as the job's outcome is."""
    if options.describe:
        print(json.dumps(describe(options), indent=1))
        sys.exit(0)
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(1)
    if options.counts:
        sys.exit(counted(options.counts, main, options))
    code = main(options)
    time.sleep(options.linger)
    sys.exit(code)


def learned(losses):
    if len(losses) < 10:
        return 0
    first, last = sum(losses[:3]) / 3, sum(losses[-3:]) / 3
    print("loss fell from %.4f to %.4f" % (first, last))
    return 0 if last < 0.8 * first else 1


def counted(path, main, options):
    """The profiler's event tree is read, not its flat list: that one drops a call whose only child has its name."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        code = main(options)
    total, top = Counter(), Counter()

    def walk(node, inside):
        name = node.name() if callable(node.name) else node.name
        aten = name.startswith("aten::")
        if aten:
            total[name] += 1
            top[name] += not inside
        for child in node.children:
            walk(child, inside or aten)

    for root in profiler.profiler.kineto_results.experimental_event_tree():
        walk(root, False)
    with open(path, "w") as stream:
        by_name = {name: [total[name], top[name]] for name in sorted(total)}
        json.dump({"total": sum(total.values()), "top_level": sum(top.values()), "by_name": by_name}, stream, indent=1)
    return code
