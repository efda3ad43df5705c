"""The earliest operator a script can run: right after `import torch`. Exits with 7, so that a changed code shows."""
import sys

import torch

torch.full((1,), 31337)
print("torch", torch.__version__)
sys.exit(7)
