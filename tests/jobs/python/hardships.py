"""What happens to jobs: forks, execs, very many threads, signals in the middle of operators, scripted functions.

Each prints one line that says it came through.

    hardships.py fork-exit      a child computes and ends by os._exit, another by exec of this program's `plain`
    hardships.py threads N      N threads, 20 at a time, 50 × add each
    hardships.py signals        a timer's handler computes in the middle of everything
    hardships.py script         a scripted function and a scripted module
    hardships.py plugin FILE    loads a library, has it compute, unloads it, 20 times
    hardships.py plain          50 × add
"""
import os
import signal
import sys
import threading

import torch


def adds(n=50):
    x = torch.zeros(4)
    for _ in range(n):
        x = torch.add(x, 1)
    assert x[0].item() == n


def fork_exit():
    adds()
    for how in ("exit", "exec"):
        pid = os.fork()
        if pid == 0:
            adds(7)
            if how == "exit":
                os._exit(5)
            os.execv(sys.executable, [sys.executable, os.path.abspath(__file__), "plain"])
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        print(how, status)
    adds()


def threads(n):
    for begin in range(0, int(n), 20):
        batch = [threading.Thread(target=adds) for _ in range(min(20, int(n) - begin))]
        for thread in batch:
            thread.start()
        for thread in batch:
            thread.join()
    print("threads", n)


def signals():
    seen = []

    def handler(number, frame):
        seen.append(torch.mul(torch.ones(2), 3).sum().item())

    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 8))
    while len(seen) < 50:
        model(torch.ones(4, 8)).sum().backward()
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert set(seen) == {6.0}
    print("signals")


def script():
    @torch.jit.script
    def scripted(x, n: int):
        for _ in range(n):
            x = torch.sigmoid(x) + 1
        return x

    module = torch.jit.script(torch.nn.Linear(4, 4))
    for _ in range(3):
        y = module(scripted(torch.zeros(2, 4), 5))
    print("script", tuple(y.shape))


def plugin(path):
    import _ctypes
    import ctypes

    total = 0
    for _ in range(20):
        library = ctypes.CDLL(path)
        library.ttplugin_run.restype = ctypes.c_long
        total += library.ttplugin_run()
        _ctypes.dlclose(library._handle)
        adds(1)
    print("plugin", total)


def plain():
    adds()
    print("plain")


torch.set_num_threads(1)
{"fork-exit": fork_exit, "threads": threads, "signals": signals, "script": script, "plugin": plugin, "plain": plain}[sys.argv[1]](*sys.argv[2:])
