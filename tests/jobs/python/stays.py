"""A job that says what it is: every bit of what it computes, which operators ran, what was compiled.

    stays.py results            trains and infers (a fused transformer layer, convolutions, dropout), prints a digest of each tensor
    stays.py operators FILE     the inference alone under torch.profiler: names and counts of its operators into FILE, as JSON
    stays.py compiled           a compiled model: prints graphs, graph breaks, recompilations, and a digest
    stays.py memory             prints the allocator's own figures of a step, by torch.profiler
"""
import collections
import hashlib
import json
import sys

import torch
from torch import nn


def digest(tensor):
    return hashlib.sha256(bytes(tensor.detach().contiguous().reshape(-1).view(torch.uint8).tolist())).hexdigest()[:16]


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        return self.head(self.encoder(x).mean(1))


def inference():
    model = Encoder().eval()
    x = torch.randn(3, 5, 16)
    with torch.no_grad():
        return model(x)


def training():
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.3), nn.Flatten(), nn.Linear(4 * 36, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(4):
        optimizer.zero_grad()
        loss = model(torch.randn(6, 1, 8, 8)).pow(2).mean()
        loss.backward()
        optimizer.step()
    for name, parameter in model.named_parameters():
        print(name, digest(parameter), digest(parameter.grad))
    print("generator", digest(torch.get_rng_state()))


def results():
    print("inference", digest(inference()))
    training()


def profiled(work, **options):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], **options) as profile:
        work()
    return profile


def operators(path):
    inference()  # what happens once only
    counts = collections.Counter()

    def walk(node):  # the event tree: the flat list drops a call whose only child has its name
        name = node.name() if callable(node.name) else node.name
        counts[name] += name.startswith("aten::")
        for child in node.children:
            walk(child)

    for root in profiled(inference).profiler.kineto_results.experimental_event_tree():
        walk(root)
    with open(path, "w") as stream:
        json.dump(counts, stream)


def compiled():
    from torch._dynamo.utils import counters

    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    whole = torch.compile(model, backend="aot_eager")
    for rows in (4, 4, 4):
        y = whole(torch.linspace(-1, 1, 8 * rows).reshape(rows, 8))
    y.sum().backward()
    print("compiled", digest(y), digest(model[0].weight.grad))
    stats = {key: dict(value) for key, value in counters.items() if key in ("stats", "graph_break", "recompiles")}
    print(json.dumps(stats, sort_keys=True))


def memory():
    model = nn.Linear(64, 64)
    x = torch.ones(32, 64)
    profile = profiled(lambda: model(x).sum().backward(), profile_memory=True)
    # The raw events: which operator the profiler charges one to depends on microseconds that are alike (torch 1.13).
    sizes = collections.Counter(e.nbytes() for e in profile.profiler.kineto_results.events() if e.name() == "[memory]")
    print(json.dumps(sorted(sizes.items())))


torch.set_num_threads(1)
torch.manual_seed(7)
{"results": results, "operators": operators, "compiled": compiled, "memory": memory}[sys.argv[1]](*sys.argv[2:])
