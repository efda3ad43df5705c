"""Trains an MLP, a step every few milliseconds, until a file is there: a job that is captured while it runs.

    paced_train.py --until FILE
"""
import argparse
import os
import time

import torch
from torch import nn

options = argparse.ArgumentParser()
options.add_argument("--until", required=True)
until = options.parse_args().until

torch.set_num_threads(1)
torch.manual_seed(1)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
steps = 0
while not os.path.exists(until):
    optimizer.zero_grad()
    x = torch.linspace(-1, 1, 32).reshape(4, 8)
    loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
    loss.backward()
    optimizer.step()
    steps += 1
    time.sleep(0.003)
print("steps", steps)
