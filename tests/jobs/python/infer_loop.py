"""Inference without gradients through an own residual module, one call per request (options: jobkit.py)."""
import jobkit

WIDTH, CLASSES = 32, 5


def describe(options):
    n, b = options.steps, options.batch
    modules = [jobkit.module("", "Residual", n, (b, CLASSES))]
    for block in range(2):
        path = "blocks.%d" % block
        modules += [
            jobkit.module(path, "Block", n, (b, WIDTH)),
            jobkit.module(path + ".norm", "LayerNorm", n, (b, WIDTH)),
            jobkit.module(path + ".up", "Linear", n, (b, 2 * WIDTH)),
            jobkit.module(path + ".down", "Linear", n, (b, WIDTH)),
        ]
    modules.append(jobkit.module("head", "Linear", n, (b, CLASSES)))
    return {"job": "infer_loop", "steps": n, "modules": modules}


def main(options):
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(WIDTH)
            self.up = nn.Linear(WIDTH, 2 * WIDTH)
            self.down = nn.Linear(2 * WIDTH, WIDTH)

        def forward(self, x):
            return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))

    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList([Block(), Block()])
            self.head = nn.Linear(WIDTH, CLASSES)

        def forward(self, x):
            for block in self.blocks:
                x = block(x)
            return self.head(x).softmax(-1)

    model = Residual().eval()
    answers = []
    with torch.no_grad():
        for request in range(options.steps):
            x = torch.full((options.batch, WIDTH), 0.01 * request)
            y = model(x)
            if request == options.kill_step:
                jobkit.die(options.how)
            answers.append(y[0].argmax().item())
    print("answers", len(answers), "all in range", all(0 <= answer < CLASSES for answer in answers))
    return 0


if __name__ == "__main__":
    parser = jobkit.parser(steps=30)
    parser.add_argument("--batch", type=int, default=4)
    jobkit.run(parser.parse_args(), describe, main)
