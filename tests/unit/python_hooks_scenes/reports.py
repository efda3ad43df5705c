"""What the hooks tell the core; python_hooks_test.py reads the log."""
import ctypes
import os
import signal
import sys
import time
import traceback

import torch
from torch import nn

from job import Net, core, fail, hooked, run, scene


@scene
def report_paths():
    """Prints what torch's own global hooks say; the test compares it with the log."""
    paths = {}

    def expect(root):
        for path, module in root.named_modules():
            paths[id(module)] = path or type(root).__name__

    def before(module, inputs):
        print("enter", paths[id(module)], type(module).__name__, calls.get(id(module), 0))
        calls[id(module)] = calls.get(id(module), 0) + 1

    def after(module, inputs, output):
        print("leave", paths[id(module)])

    calls = {}
    nets = [
        Net(),
        nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2),
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten()),
    ]
    shared = nn.Linear(4, 4)
    nets.append(nn.Sequential(shared, nn.ReLU(), shared))
    inputs = [torch.ones(1, 4), torch.ones(5, 1, 8), torch.ones(2, 3, 6, 6), torch.ones(1, 4)]
    nn.modules.module.register_module_forward_pre_hook(before)
    nn.modules.module.register_module_forward_hook(after)
    for net, x in zip(nets, inputs):
        expect(net)
        for _ in range(2):
            net(x)
    bigger = nn.Sequential(nets[0], nn.Linear(2, 2))
    expect(bigger)
    bigger(inputs[0])
    nets[0].first(inputs[0])  # alone, but known from the bigger root
    nets[3].append(nn.Tanh()) if hasattr(nets[3], "append") else nets[3].add_module("3", nn.Tanh())
    expect(nets[3])
    nets[3](inputs[3])  # grew: the new child is found


@scene
def report_unplaced():
    class Hidden(nn.Module):
        def __init__(self):
            super().__init__()
            self.secret = [nn.Linear(4, 4)]

        def forward(self, x):
            return nn.ReLU()(self.secret[0](x))

    hidden = Hidden()
    for _ in range(3):
        hidden(torch.ones(1, 4))


@scene
def report_address_used_again():
    """Modules of two types that take each other's place in memory."""
    for i in range(50):
        module = nn.Linear(4, 4) if i % 2 else nn.ReLU()
        print(type(module).__name__)
        module(torch.ones(1, 4))
        del module


@scene
def report_many_modules():
    """The table grows and drops the dead."""
    for _ in range(4):
        net = nn.Sequential(*[nn.Identity() for _ in range(500)])
        net(torch.ones(1))
        del net


@scene
def report_generation():
    net = Net()
    net(torch.ones(1, 4))
    if hooked:
        core.fake_core_clear()
        core.fake_core_new_generation()
    net(torch.ones(1, 4))


@scene
def report_capture_off():
    net = Net()
    if hooked:
        core.fake_core_capture(0)
    net(torch.ones(1, 4))
    try:
        run(fail)
    except ValueError:
        traceback.print_exc()


@scene
def report_balance_after_errors():
    for action in (fail, lambda: sys.exit(1), lambda: os.kill(os.getpid(), signal.SIGINT)):
        try:
            run(action)
        except BaseException:
            pass
    if hooked:
        assert core.fake_core_depth() == 0, core.fake_core_depth()


@scene
def report_fork():
    net = Net()
    net(torch.ones(1, 4))
    if hooked:
        core.fake_core_clear()
    pid = os.fork()
    net(torch.ones(1, 4))
    if pid:
        assert os.waitpid(pid, 0)[1] == 0
    elif hooked:
        assert core.fake_core_log().count(b"enter first.linear Linear 1") == 1, core.fake_core_log()
    if not pid:
        sys.stdout.flush()
        os._exit(0)


@scene
def interrupts_at_random():
    """Signals at any moment leave no frame entered, and no trace of ours in the tracebacks (but a rare one: see below)."""
    net = nn.Sequential(*[nn.Identity() for _ in range(30)])
    x = torch.ones(1)
    ours = caught = 0
    end = time.time() + 3

    def alarm(*_):
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, alarm)
    while time.time() < end:
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.0011)
            while True:
                net(x)
        except KeyboardInterrupt as error:
            caught += 1
            ours += any("<tensortap" in f.f_code.co_filename for f, _ in traceback.walk_tb(error.__traceback__))
            if hooked:
                assert core.fake_core_depth() == 0, core.fake_core_depth()
                core.fake_core_clear()
    # A handler that runs before the wrapper's try begins raises in the wrapper itself.
    assert caught > 20 and ours * 4 < caught, (ours, caught)
    if os.environ.get("TENSORTAP_VERBOSE"):
        print(ours, caught, file=sys.__stdout__)


@scene
def optimizer_identity():
    net = Net()
    other = torch.optim.Adam(Net().parameters())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    seen = []

    def closure():
        optimizer.zero_grad()
        loss = net(torch.ones(1, 4)).sum()
        loss.backward()
        # Inside the closure the wrapper of step() is a few frames up, as it is from the range's start callback.
        seen.append(core.fake_core_current_optimizer() if hooked else id(optimizer))
        return loss

    def closure_with_gil():
        loss = closure()
        seen.append(with_gil.fake_core_current_optimizer() if hooked else id(optimizer))
        return loss

    # A function of a CDLL runs without the GIL, as the range's start callback does; one of a PyDLL with it.
    with_gil = ctypes.PyDLL(None)
    if hooked:
        with_gil.fake_core_current_optimizer.restype = ctypes.c_void_p
    optimizer.step(closure_with_gil)
    scheduler.step()
    print(seen == [id(optimizer)] * 2, id(other) in seen)
    print(hooked and core.fake_core_current_optimizer() or None)
