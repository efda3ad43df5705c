"""Warnings, logging, tracing, copies, lifetimes: what else a job could notice."""
import copy
import gc
import inspect
import io
import logging
import pickle
import signal
import sys
import threading
import traceback
import warnings
import weakref

import torch
from torch import nn

from job import Net, fail, run, scene, torch2


@scene
def warning_levels():
    warnings.simplefilter("always")

    def warn():
        for level in range(1, 14):
            warnings.warn(f"level {level}", stacklevel=level)

    run(warn)


@scene
def warning_softmax_without_dim():
    warnings.simplefilter("always")
    nn.Sequential(nn.Linear(4, 4), nn.Softmax())(torch.ones(2, 4))
    nn.Softmax()(torch.ones(2, 4))
    nn.MSELoss()(torch.ones(2, 1), torch.ones(2))


@scene
def warning_shown_once_per_place():
    for _ in range(3):
        nn.Softmax()(torch.ones(2, 4))


@scene
def logging_levels():
    if sys.version_info < (3, 11):
        return  # older ones don't skip importlib's frames
    logging.basicConfig(format="%(filename)s:%(lineno)d %(funcName)s %(message)s", stream=sys.stdout)
    run(lambda: [logging.warning("level %d", level, stacklevel=level) for level in range(1, 12)])




@scene
def jit_script():
    class Plain(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x):
            return torch.relu(self.linear(x))

    torch.manual_seed(0)
    scripted = torch.jit.script(nn.Sequential(Plain(), nn.ReLU()))
    print(scripted(torch.ones(2, 4)), scripted.graph, scripted.code)
    buffer = io.BytesIO()
    torch.jit.save(scripted, buffer)
    buffer.seek(0)
    print(torch.jit.load(buffer)(torch.ones(2, 4)))


@scene
def jit_trace():
    torch.manual_seed(0)
    traced = torch.jit.trace(Net(), torch.ones(2, 4))
    print(traced(torch.ones(2, 4)), traced.graph, traced.code)
    print(traced.inlined_graph)


@scene
def fx_trace():
    torch.manual_seed(0)
    traced = torch.fx.symbolic_trace(Net())
    print(traced.graph, traced.code, traced(torch.ones(2, 4)))
    torch.fx.symbolic_trace(nn.Sequential(nn.Linear(4, 4), traced))(torch.ones(1, 4))
    traced(torch.ones(1, 5))


@scene
def functional_call():
    net = Net()
    call = torch.func.functional_call if torch2 else torch.nn.utils.stateless.functional_call
    print(call(net, {k: torch.zeros_like(v) for k, v in net.named_parameters()}, (torch.ones(1, 4),)))


@scene
def profiler_modules():
    net = Net()
    with torch.profiler.profile(with_modules=True, with_stack=True) as profiler:
        net(torch.ones(1, 4))
    names = [e.name for e in profiler.events()]
    print(sorted(n for n in names if n.startswith("nn.Module")))
    print(sorted(n for n in names if n.startswith("aten::")))


@scene
def pickle_and_copy():
    torch.manual_seed(0)
    net = Net()
    net(torch.ones(1, 4))
    data = pickle.dumps(net)
    # Not the lengths: torch writes addresses into them.
    print(pickle.loads(data)(torch.ones(1, 4)), copy.deepcopy(net)(torch.ones(1, 4)))
    print(pickle.loads(pickle.dumps(net.__call__))(torch.ones(1, 4)))
    print(sorted(vars(net)), sorted(vars(nn.Module)))
    buffer = io.BytesIO()
    torch.save(net, buffer)
    print(buffer.tell() > 1000)


@scene
def identities():
    class Own(nn.Module):
        def forward(self, x):
            return x

    class Override(nn.Linear):
        def __call__(self, x):
            print("override")
            return super().__call__(x)

    print(Override(2, 1)(torch.ones(1, 2)).shape)
    print(Own.__call__ is nn.Module.__call__, type(Own()).__call__ is nn.Linear.__call__)
    print(Override.__call__ is nn.Module.__call__, Own().__call__.__func__ is nn.Module.__call__)
    call = nn.Module.__call__
    print(call.__name__, call.__qualname__, call.__module__, call.__doc__, inspect.signature(call))
    print(inspect.signature(Own()), inspect.signature(Own().__call__), call.__annotations__)
    print(inspect.getsource(call), type(call), call.__defaults__, call.__kwdefaults__)
    print("__call__" in vars(nn.Module), nn.Module.__call__ == Own.__call__)


@scene
def nothing_visible():
    run(None)
    print("\n".join(sys.modules))
    print(threading.enumerate(), threading.active_count(), len(sys._current_frames()))
    print(sorted(vars(torch.nn.modules.module)), sorted(vars(torch)), sys.meta_path, sys.path_hooks)
    print(gc.isenabled(), gc.get_threshold(), signal.pthread_sigmask(signal.SIG_BLOCK, []))


@scene
def lifetimes():
    gc.disable()
    net = Net()
    x = torch.ones(1, 4)
    died = []
    weakref.finalize(x, died.append, "input")
    y = net(x)
    weakref.finalize(y, died.append, "output")
    weakref.finalize(net, died.append, "net")
    weakref.finalize(net.first.linear, died.append, "first.linear")
    print(sys.getrefcount(net), sys.getrefcount(net.first), sys.getrefcount(x), sys.getrefcount(y), sys.getrefcount(Net))
    print(len(gc.get_referrers(net)), len(gc.get_referrers(x)), len(gc.get_referrers(y)))
    del x
    print(died)
    del y
    print(died)
    first = net.first
    del net
    print(died)
    del first
    print(died)
    try:
        run(fail)
    except ValueError as error:
        kept = error
    holders = [frame.f_locals["self"] for frame, _ in traceback.walk_tb(kept.__traceback__) if "self" in frame.f_locals]
    failed = weakref.finalize(holders[0], died.append, "failed")
    del holders
    print(failed.alive, died)
    del kept
    gc.collect()  # the snapshots of the frames' locals made a cycle
    print(failed.alive, died)
