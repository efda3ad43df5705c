"""One training step of the three models whose memory and operators are recorded.

    steps("gpt_mini") -> function that runs one step

Optimizers: resnet_mini SGD with momentum, gpt_mini AdamW, checkpointed Adam.
Gradients are set to None at the end of a step ("last") or at its start
("first"); nothing else lives across steps but parameters, buffers, optimizer
state and the inputs.
"""
import os
import sys

import torch
import torch.utils.checkpoint

import golden_models as models

NAMES = ("resnet_mini", "gpt_mini", "checkpointed")
# The model "checkpointed" with 8 sequences of 32, and the same without recomputation.
LONG = ("checkpointed_long", "plain_long")


def optimizer(name, parameters):
    if name == "resnet_mini":
        return torch.optim.SGD(parameters, lr=0.01, momentum=0.9)
    if name == "gpt_mini":
        return torch.optim.AdamW(parameters, lr=0.01)
    return torch.optim.Adam(parameters, lr=0.01)


def steps(name, zero_grad="last"):
    torch.set_num_threads(1)
    source = "checkpointed" if name in LONG else name
    model = models.build(source).train()
    optim = optimizer(name, list(model.parameters()))
    args, kwargs = models.inputs(source)
    if name in LONG:
        args = (torch.randn(8, 32, 8),)
    if name == "plain_long":
        torch.utils.checkpoint.checkpoint = lambda function, *values, **options: function(*values)

    def step():
        if zero_grad == "first":
            optim.zero_grad(set_to_none=True)
        models.loss(model(*args, **kwargs)).backward()
        optim.step()
        if zero_grad == "last":
            optim.zero_grad(set_to_none=True)

    step.model, step.optimizer = model, optim
    return step


def warmed(name, zero_grad="last", count=3):
    step = steps(name, zero_grad)
    for _ in range(count):
        step()
    return step
