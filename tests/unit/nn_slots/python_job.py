"""The slots in a Python job: loss.backward() reaches the wrapped Engine::execute, allocations are balanced.

Usage: python_job.py LIBRARY
"""
import ctypes
import gc
import sys

import torch

slots = ctypes.CDLL(sys.argv[1])
slots.tensortap_slots_live_bytes.restype = ctypes.c_ulong
slots.tensortap_slots_install_ms.restype = ctypes.c_double

model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
model(torch.ones(2, 8)).sum().backward()  # whatever torch sets up once
assert slots.tensortap_slots_start() == 1
print(f"install: {slots.tensortap_slots_install_ms():.1f} ms")

for _ in range(3):
    model.zero_grad(set_to_none=False)
    model(torch.ones(2, 8)).sum().backward()
x = torch.ones(1000)
assert slots.tensortap_slots_live_bytes() >= 4000, slots.tensortap_slots_live_bytes()
del x
gc.collect()
assert slots.tensortap_slots_phases(b"backward") == 3, slots.tensortap_slots_phases(b"backward")
assert slots.tensortap_slots_live_bytes() < 4000, slots.tensortap_slots_live_bytes()

slots.tensortap_slots_stop()
model(torch.ones(2, 8)).sum().backward()
assert slots.tensortap_slots_phases(b"backward") == 3
