"""Trains a model that has a bit of everything a trace should know of modules, parameters and gradients, and says what torch itself says.

A tied weight, a module that is never called, one that raises and is caught, dictionaries and keyword arguments, a
buffer, an unused branch, a gradient of exact zeros. With --truth the job prints, as one JSON line at its end, its
named_modules(), named_parameters(), named_buffers(), and the gradient norms of every step by torch's own norm().
"""
import json

import jobkit


def build(torch):
    nn = torch.nn

    class Picky(nn.Module):
        def forward(self, x):
            raise ValueError("not today")

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.norm = nn.LayerNorm(width, eps=1e-6)
            self.attention = nn.MultiheadAttention(width, 2, dropout=0.25, batch_first=True)
            self.act = nn.GELU(approximate="tanh")
            self.register_buffer("scale", torch.full((1,), 0.5))

        def forward(self, parts, *, residual=True):
            x = self.norm(parts["x"])
            y, _ = self.attention(x, x, x, need_weights=False)
            return {"x": self.act(y) * self.scale + (parts["x"] if residual else 0), "extra": (1, None)}

    class Everything(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(11, 8, padding_idx=0)
            self.conv = nn.Conv1d(8, 8, 3, stride=2, padding=1, dilation=1, groups=2, bias=False)
            self.blocks = nn.ModuleList([Block(8), Block(8)])
            self.drop = nn.Dropout(0.125)
            self.head = nn.Linear(8, 11, bias=False)
            self.head.weight = self.embed.weight  # tied
            self.unused = nn.Linear(3, 2)
            self.picky = Picky()
            self.silent = nn.Parameter(torch.ones(4))  # its gradient is exactly zero

        def forward(self, tokens):
            x = self.embed(tokens)
            x = self.conv(x.transpose(1, 2)).transpose(1, 2)
            for block in self.blocks:
                x = block({"x": x}, residual=True)["x"]
            try:
                self.picky(x)
            except ValueError:
                pass
            return self.head(self.drop(x)) + (self.silent * 0).sum()

    return Everything()


def describe(options):
    return {"job": "evidence", "steps": options.steps, "modules": []}


def norms_of(model):
    """{parameter: [state, norm]} by torch's own arithmetic."""
    found = {}
    for name, parameter in model.named_parameters():
        if parameter.grad is None:
            found[name] = ["missing", None]
            continue
        norm = parameter.grad.double().norm().item()
        finite = norm - norm == 0
        found[name] = [("present" if norm else "zero") if finite else "non_finite", norm if finite else None]
    return found


def truth_of(model, norms):
    return {
        "modules": {name: [type(m).__module__ + "." + type(m).__qualname__, m.training] for name, m in model.named_modules()},
        "parameters": {name: [list(p.shape), p.requires_grad] for name, p in model.named_parameters(remove_duplicate=False)}
        if "remove_duplicate" in model.named_parameters.__code__.co_varnames
        else {name: [list(p.shape), p.requires_grad] for name, p in model.named_parameters()},
        "buffers": {name: list(b.shape) for name, b in model.named_buffers()},
        "elements": sum(p.numel() for p in model.parameters()),
        "gradients": norms,
    }


def main(options):
    import torch

    model = build(torch)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(3)
    norms, losses = [], []
    for step in range(options.steps):
        tokens = torch.randint(1, 11, (4, 6), generator=generator)
        optimizer.zero_grad(set_to_none=True)
        out = model(tokens)
        loss = torch.nn.functional.cross_entropy(out.reshape(-1, 11), tokens[:, ::2].reshape(-1))
        if step == options.blow_up:
            loss = loss * float("inf")
        loss.backward()
        if options.truth:
            norms.append(norms_of(model))
        optimizer.step()
        losses.append(loss.item())
    if options.truth:
        print(json.dumps(truth_of(model, norms)))
    print("%.9e" % losses[-1])
    return 0


if __name__ == "__main__":
    parser = jobkit.parser(steps=3)
    parser.add_argument("--truth", action="store_true")
    parser.add_argument("--blow-up", type=int, default=-1, help="the step whose loss becomes infinite")
    jobkit.run(parser.parse_args(), describe, main)
