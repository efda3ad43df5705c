"""Trains an MLP, and in step 10 waits for a file: a job that can be found in the middle of its work.

While it waits it says "held" and, as --while says, sleeps, computes without end (Python and operators), or sits in one long call
of C. What it computes meanwhile leaves no trace in the result. The last line holds every bit of the parameters.

    held_train.py --hold FILE --while sleep|busy|c-call [--steps N]
"""
import argparse
import ctypes
import hashlib
import os
import sys
import time

import torch


def wait(path, how, model):
    print("held", flush=True)
    x = torch.ones(4, 16)
    while not os.path.exists(path):
        if how == "sleep":
            time.sleep(0.002)
        elif how == "c-call":
            ctypes.PyDLL(None).usleep(300000)  # holds the interpreter's lock
        else:
            with torch.no_grad():
                model(x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hold", required=True)
    parser.add_argument("--while", dest="how", choices=("sleep", "busy", "c-call"), default="sleep")
    parser.add_argument("--steps", type=int, default=30)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in range(options.steps):
        if step == 10:
            wait(options.hold, options.how, model)
        x = torch.linspace(-1, 1, 64).reshape(4, 16) * (1 + step % 3)
        optimizer.zero_grad(set_to_none=True)
        loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
        loss.backward()
        optimizer.step()
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(bytes(parameter.detach().reshape(-1).view(torch.uint8).tolist()))
    print("learned", digest.hexdigest())
    print("warned", file=sys.stderr)
    sys.exit(7)


main()
