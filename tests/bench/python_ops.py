"""A Python loop of small additions, plain or under torch.profiler(record_shapes, profile_memory).

    python_ops.py --operators N [--profiler] [--core N]

Prints one JSON line: CPU time of the loop's thread, of the process's other threads, and of the profiler's stop (0 without
it). Our probe is put in by LD_PRELOAD. --core pins this thread once torch is there.
"""
import argparse
import json
import os
import time

import torch


def loop(a, b, operators):
    for _ in range(operators):
        torch.add(a, b)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--operators", type=int, default=50000)
    parser.add_argument("--profiler", action="store_true")
    parser.add_argument("--core", type=int)
    options = parser.parse_args()
    torch.set_num_threads(1)
    profiler = None
    with torch.inference_mode():
        a, b = torch.ones(4), torch.ones(4)
        if options.core is not None:
            os.sched_setaffinity(0, {options.core})
        loop(a, b, options.operators // 10)
        if options.profiler:
            from torch.profiler import ProfilerActivity, profile

            profiler = profile(activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True)
            profiler.start()
            loop(a, b, 1000)
        process, begin = time.process_time_ns(), time.thread_time_ns()
        loop(a, b, options.operators)
        loop_ns = time.thread_time_ns() - begin
        other_ns = time.process_time_ns() - process - loop_ns
        begin = time.thread_time_ns()
        if profiler is not None:
            profiler.stop()
        stop_ns = time.thread_time_ns() - begin if profiler is not None else 0
    print(json.dumps({"operators": options.operators, "thread_cpu_ns": loop_ns, "other_cpu_ns": other_ns, "stop_ns": stop_ns}))


main()
