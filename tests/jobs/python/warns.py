"""What a user sees of a module's insides: warnings with a stack level, and a traceback through nested modules.

Its output must be the same, byte for byte, with and without the probe.

    warns.py [--raise] [--introspect]
"""
import inspect
import sys
import warnings

import torch
from torch import nn


class Inner(nn.Module):
    def forward(self, x):
        for level in (1, 2, 3, 4, 5):
            warnings.warn("from level %d" % level, stacklevel=level)
        if x.numel() == 3:
            raise ValueError("three is too many")
        return x


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x):
        return self.inner(x)


model = Outer()
if "--introspect" in sys.argv:
    print(nn.Module.__call__.__name__, nn.Module.__call__.__qualname__, nn.Module.__call__.__module__)
    print(inspect.signature(nn.Module.__call__))
print(sorted(name for name in sys.modules if "tensortap" in name.lower()))
model(torch.zeros(2))
if "--raise" in sys.argv:
    model(torch.zeros(3))
