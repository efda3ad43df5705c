"""Trains an MLP and dies in step 7 of 10 unless told otherwise (options: jobkit.py; --kill-step -1: it lives)."""
import jobkit


def describe(options):
    n, b = options.steps, 16
    modules = [
        jobkit.module("", "Sequential", n, (b, 2)),
        jobkit.module("0", "Linear", n, (b, 16)),
        jobkit.module("1", "Tanh", n, (b, 16)),
        jobkit.module("2", "Linear", n, (b, 2)),
    ]
    return {"job": "killed", "steps": n, "kill_step": options.kill_step, "modules": modules}


def main(options):
    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for step in range(options.steps):
        x = torch.linspace(-1, 1, 32).view(16, 2) + 0.01 * step
        y = (x.sum(1) > 0).long()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        if step == options.kill_step:
            jobkit.die(options.how)
        loss.backward()
        optimizer.step()
        print("step", step)
    return 0


if __name__ == "__main__":
    parser = jobkit.parser(steps=10)
    parser.set_defaults(kill_step=7)
    jobkit.run(parser.parse_args(), describe, main)
