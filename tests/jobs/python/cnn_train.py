"""Trains a small CNN on drawn digits, with a DataLoader and worker processes (options: jobkit.py)."""
import random

import jobkit

SIDE = 16
# Rows of 5x7 digits, the leftmost pixel in bit 4.
DIGITS = (
    (14, 17, 19, 21, 25, 17, 14), (4, 12, 4, 4, 4, 4, 14), (14, 17, 1, 2, 4, 8, 31), (31, 2, 4, 2, 1, 17, 14),
    (2, 6, 10, 18, 31, 2, 2), (31, 16, 30, 1, 1, 17, 14), (6, 8, 16, 30, 17, 17, 14), (31, 1, 2, 4, 8, 8, 8),
    (14, 17, 17, 14, 17, 17, 14), (14, 17, 17, 15, 1, 2, 12),
)


def draw(index):
    """A 16x16 picture of the digit index % 10: double size, moved by up to four pixels, noisy; rows of floats."""
    dice = random.Random(index)
    left, top = dice.randrange(5), dice.randrange(2)
    rows = [[0.3 * dice.random() for _ in range(SIDE)] for _ in range(SIDE)]
    for y in range(14):
        for x in range(10):
            if DIGITS[index % 10][y // 2] >> (4 - x // 2) & 1:
                rows[top + y][left + x] += 0.7
    return rows


def describe(options):
    n, b = options.steps, options.batch
    modules = [jobkit.module("", "GlyphNet", n, (b, 10))]
    for name, width, side in (("block1", 8, SIDE), ("block2", 16, SIDE // 2)):
        out = (b, width, side, side)
        modules += [
            jobkit.module(name, "ConvBlock", n, out),
            jobkit.module(name + ".conv", "Conv2d", n, out),
            jobkit.module(name + ".norm", "BatchNorm2d", n, out),
            jobkit.module(name + ".act", "ReLU", n, out),
        ]
    modules.append(jobkit.module("pool", "MaxPool2d", 2 * n, (b, 16, 4, 4)))
    modules.append(jobkit.module("head", "Linear", n, (b, 10)))
    return {"job": "cnn_train", "steps": n, "modules": modules, "workers": options.workers}


def main(options):
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, Dataset

    class Glyphs(Dataset):
        def __len__(self):
            return options.steps * options.batch

        def __getitem__(self, index):
            return torch.tensor([draw(index)]), index % 10

    class ConvBlock(nn.Module):
        def __init__(self, cin, cout):
            super().__init__()
            self.conv = nn.Conv2d(cin, cout, 3, padding=1)
            self.norm = nn.BatchNorm2d(cout)
            self.act = nn.ReLU()

        def forward(self, x):
            return self.act(self.norm(self.conv(x)))

    class GlyphNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.block1 = ConvBlock(1, 8)
            self.block2 = ConvBlock(8, 16)
            self.pool = nn.MaxPool2d(2)
            self.head = nn.Linear(16 * 4 * 4, 10)

        def forward(self, x):
            x = self.pool(self.block1(x))
            x = self.pool(self.block2(x))
            return self.head(x.flatten(1))

    model = GlyphNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loader = DataLoader(Glyphs(), batch_size=options.batch, num_workers=options.workers)
    losses = []
    for step, (pictures, digits) in enumerate(loader):
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(pictures), digits)
        if step == options.kill_step:
            jobkit.die(options.how)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step % 5 == 0:
            print("step %d loss %.4f" % (step, losses[-1]))
    return jobkit.learned(losses)


if __name__ == "__main__":
    parser = jobkit.parser(steps=20)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--workers", type=int, default=2)
    jobkit.run(parser.parse_args(), describe, main)
