"""What the scenes share: the model, the register of scenes, the stand-in core when it is preloaded."""
import ctypes
import os
import time

import torch
from torch import nn

core = ctypes.CDLL(None)
hooked = hasattr(core, "fake_core_log")
late = os.environ.get("TENSORTAP_FAKE_CORE") == "late"
torch2 = not torch.__version__.startswith("1.")
if hooked:
    core.fake_core_log.restype = ctypes.c_char_p
    core.fake_core_current_optimizer.restype = ctypes.c_void_p

scenes = {}


def scene(function):
    scenes[function.__name__] = function
    return function


def wait_for_hooks():
    deadline = time.time() + 20
    while hooked and not core.fake_core_installed():
        assert not core.fake_core_failed(), "the hooks could not be put in place"
        assert time.time() < deadline, "the hooks were not put in place in 20 s"
        time.sleep(0.001)


class Block(nn.Module):
    def __init__(self, action=None):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.act = nn.ReLU()
        self.action = action

    def forward(self, x):
        x = self.act(self.linear(x))
        if self.action:
            self.action()
        return x


class Net(nn.Module):
    def __init__(self, action=None):
        super().__init__()
        self.first = Block()
        self.blocks = nn.Sequential(Block(), Block(action))
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.blocks(self.first(x)))


def run(action, module=Net):
    return module(action)(torch.ones(3, 4))


def fail():
    raise ValueError("from inside")
