"""Trains a small network and says everything to its trace that the SDK can say. Prints as JSON what a trace must hold.

Options: jobkit.py. PYTHONPATH holds the package, or it is installed.
"""
import json
import math
import sys

import jobkit
import tensortap

tensortap.tag("early", "said before torch was there")
IDENTITY = dict(workload_id="glyphs", model_id="mlp", config_id="c1", data_id="made-up", seed_policy="fixed",
                precision="f32", device_state="shared", physical_batch=16, accumulation_steps=1, pair_id="p1")


def describe(options):
    return {"job": "sdk_train", "steps": options.steps}


def truth(tensor):
    """Statistics by other means than the SDK's: Python's own sums."""
    values = [float(v) for v in tensor.flatten().tolist()]
    finite = [v for v in values if math.isfinite(v)]
    if len(finite) < len(values) or not values:
        return {"elements": len(values), "non_finite": len(values) - len(finite), "rms": 0.0, "abs_max": 0.0, "mean": 0.0}
    return {"elements": len(values), "non_finite": 0, "abs_max": max(abs(v) for v in values),
            "mean": math.fsum(values) / len(values), "rms": math.sqrt(math.fsum(v * v for v in values) / len(values))}


def main(options):
    import torch
    from torch import nn

    tensortap.tag("framework", torch.__version__)
    tensortap.tag("replaced", "old")
    tensortap.tag("replaced", "new \u00e9 \"quoted\"")
    tensortap.identity(**IDENTITY)
    told = {"capturing": tensortap.is_capturing(), "stats": {}, "gradients": [], "labels": {}, "recorded": []}

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(4, 8)
            self.head = nn.Linear(8, 3)
            self.unused = nn.Linear(2, 2)

        def forward(self, x):
            return self.head(torch.tanh(self.body(x)))

    @tensortap.range("make batch")
    def make_batch(step):
        x = torch.linspace(-1, 1, 64).view(16, 4) + 0.01 * step
        return x, (x.sum(1) > 0).long()

    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def record(name, tensor):
        told["recorded"].append(tensortap.stats(tensor, name))
        told["stats"][name] = dict(truth(tensor), shape=list(tensor.shape))

    losses = []
    for step in tensortap.steps(range(options.steps)):
        x, y = make_batch(step)
        optimizer.zero_grad()
        with tensortap.measured("forward pass"):
            logits = model(x)
        loss = nn.functional.cross_entropy(logits, y)
        if step == options.kill_step:
            jobkit.die(options.how)
        loss.backward()
        told["recorded"].append(tensortap.label(logits, "logits"))
        told["labels"]["logits"] = list(logits.shape)
        told["recorded"].append(tensortap.stats(loss.detach(), "loss"))
        told["recorded"].append(tensortap.gradients(model) == 6)
        optimizer.step()
        losses.append(float(loss))
    for name, parameter in model.named_parameters():
        grad = parameter.grad
        told["gradients"].append([name, None if grad is None else math.sqrt(math.fsum(v * v for v in grad.flatten().tolist()))])
    base = torch.arange(24, dtype=torch.float32).view(4, 6) / 7 - 1
    record("plain", base)
    record("offset", base[1:])
    record("transposed", base.t())
    record("strided", base[:, ::2])
    record("half", base.half())
    record("bfloat16", base.bfloat16())
    record("double", base.double() * 1e-3)
    record("integers", torch.arange(-3, 4))
    record("bool", base > 0)
    record("empty", torch.empty(0, 5))
    record("scalar", torch.tensor(2.5))
    record("not finite", torch.tensor([1.0, float("nan"), float("inf")]))
    record("sparse", torch.eye(3).to_sparse().to_dense())
    told["recorded"].append(tensortap.stats(torch.eye(3).to_sparse(), "really sparse"))
    told["complex"] = tensortap.stats(torch.ones(2, dtype=torch.complex64), "complex")
    # Gradients that the probe cannot read where they lie.
    embedding = nn.Embedding(10, 4, sparse=True)
    embedding(torch.tensor([1, 2, 2])).sum().backward()
    told["recorded"].append(tensortap.gradients([("weight", embedding.weight)], root="embedding") == 1)
    told["embedding"] = math.sqrt(4 + 4 * 4)
    with tensortap.range("thread's"):
        pass
    print(json.dumps(told))
    return 0


if __name__ == "__main__":
    jobkit.run(jobkit.parser(steps=5).parse_args(), describe, main)
