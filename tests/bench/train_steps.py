"""Training steps of a usual size for a CPU: forward, backward, SGD.

    train_steps.py --job mlp|cnn|transformer [--steps N] [--core N]

Prints one JSON line: CPU time of the training thread (`operators` is the number of steps) and of the process's other
threads, after two steps of warm-up. Our probe is put in by LD_PRELOAD.
"""
import argparse
import json
import os
import time

import torch
from torch import nn


def mlp():
    model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    return model, torch.randn(128, 784), 10


def cnn():
    layers = []
    for inside, outside in ((3, 32), (32, 64), (64, 64)):
        layers += [nn.Conv2d(inside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU(), nn.MaxPool2d(2)]
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * 4 * 4, 10))
    return model, torch.randn(32, 3, 32, 32), 10


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(128, 4, 512, batch_first=True), 2)
        self.head = nn.Linear(128, 10)

    def forward(self, x):
        return self.head(self.encoder(x).mean(1))


def transformer():
    return Classifier(), torch.randn(16, 64, 128), 10


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--job", choices=("mlp", "cnn", "transformer"), required=True)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--core", type=int)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model, x, classes = {"mlp": mlp, "cnn": cnn, "transformer": transformer}[options.job]()
    y = torch.randint(classes, (x.shape[0],))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def steps(count):
        for _ in range(count):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()

    if options.core is not None:
        os.sched_setaffinity(0, {options.core})
    steps(2)
    process, begin = time.process_time_ns(), time.thread_time_ns()
    steps(options.steps)
    thread_ns = time.thread_time_ns() - begin
    other_ns = time.process_time_ns() - process - thread_ns
    print(json.dumps({"operators": options.steps, "thread_cpu_ns": thread_ns, "other_cpu_ns": other_ns}))


main()
