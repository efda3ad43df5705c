"""Trains a small transformer to continue sequences t[i+1] = (a t[i] + b) mod 11 (options: jobkit.py).

PyTorch's own encoder layers beside an attention written out by hand; AdamW, gradient clipping, a schedule.
"""
import jobkit

VOCABULARY, LENGTH, WIDTH, HEADS = 11, 12, 32, 4


def describe(options):
    n, b = options.steps, options.batch
    wide = (b, LENGTH, WIDTH)
    modules = [
        jobkit.module("", "Continuer", n, (b, LENGTH, VOCABULARY)),
        jobkit.module("embed", "Embedding", n, wide),
        jobkit.module("encoder", "TransformerEncoder", n, wide),
    ]
    for layer in range(2):
        path = "encoder.layers.%d" % layer
        modules.append(jobkit.module(path, "TransformerEncoderLayer", n, wide))
        modules.append(jobkit.module(path + ".self_attn", "MultiheadAttention", n, wide))
        for name, cls, last in (
            ("dropout1", "Dropout", WIDTH), ("norm1", "LayerNorm", WIDTH), ("linear1", "Linear", 64),
            ("dropout", "Dropout", 64), ("linear2", "Linear", WIDTH), ("dropout2", "Dropout", WIDTH),
            ("norm2", "LayerNorm", WIDTH),
        ):
            modules.append(jobkit.module("%s.%s" % (path, name), cls, n, (b, LENGTH, last)))
    modules += [
        jobkit.module("attention", "WrittenOut", n, wide),
        jobkit.module("attention.qkv", "Linear", n, (b, LENGTH, 3 * WIDTH)),
        jobkit.module("attention.proj", "Linear", n, wide),
        jobkit.module("head", "Linear", n, (b, LENGTH, VOCABULARY)),
    ]
    return {"job": "transformer_train", "steps": n, "modules": modules}


def main(options):
    import torch
    from torch import nn

    class WrittenOut(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
            self.proj = nn.Linear(WIDTH, WIDTH)

        def forward(self, x, mask):
            b, t, _ = x.shape
            q, k, v = self.qkv(x).view(b, t, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
            weight = torch.softmax(q @ k.transpose(-2, -1) * (WIDTH // HEADS) ** -0.5 + mask, -1)
            return self.proj((weight @ v).transpose(1, 2).reshape(b, t, WIDTH))

    class Continuer(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(VOCABULARY, WIDTH)
            self.position = nn.Parameter(0.1 * torch.randn(LENGTH, WIDTH))
            layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 64, dropout=0.1, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2)
            self.attention = WrittenOut()
            self.head = nn.Linear(WIDTH, VOCABULARY)

        def forward(self, tokens, mask):
            x = self.embed(tokens) + self.position
            x = self.encoder(x, mask)
            return self.head(x + self.attention(x, mask))

    def sequences(step):
        rows = []
        for row in range(options.batch):
            token, a, b = (7 * step + row) % VOCABULARY, (2, 3, 7)[row % 3], (1, 5)[row % 2]
            line = [token]
            for _ in range(LENGTH):
                line.append((a * line[-1] + b) % VOCABULARY)
            rows.append(line)
        return torch.tensor(rows)

    model = Continuer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10, 0.7)
    mask = torch.full((LENGTH, LENGTH), float("-inf")).triu(1)
    losses = []
    for step in range(options.steps):
        tokens = sequences(step)
        logits = model(tokens[:, :-1], mask)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        if step == options.kill_step:
            jobkit.die(options.how)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        if step % 10 == 0:
            print("step %d loss %.4f" % (step, losses[-1]))
    return jobkit.learned(losses)


if __name__ == "__main__":
    parser = jobkit.parser(steps=30)
    parser.add_argument("--batch", type=int, default=12)
    jobkit.run(parser.parse_args(), describe, main)
