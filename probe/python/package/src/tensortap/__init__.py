"""What a PyTorch job can say to its own trace.

    import tensortap

    tensortap.tag("commit", "39db95d")
    for batch in tensortap.steps(loader):           # or: with tensortap.step():
        with tensortap.range("augment"):
            batch = augment(batch)
        loss = model(batch).mean()
        loss.backward()
        tensortap.gradients(model)
        tensortap.stats(loss, "loss")
        optimizer.step()

Nothing is needed for it: without a probe in the process, or while nothing is captured, every call returns at once and
has no effect. The package is pure Python, imports nothing but the standard library (torch only if the job did), and
raises only for arguments of the wrong kind, with and without a probe alike. Inside torch.compile every call is left out,
so that no graph breaks. Every function may be called from any thread.
"""
from ._evidence import gradients, label, stats
from ._notes import identity, tag
from ._probe import is_capturing
from ._spans import Measured as measured
from ._spans import Range as range  # noqa: A004  (used as tensortap.range)
from ._spans import Step as step
from ._spans import mark_steps, steps

__all__ = ["gradients", "identity", "is_capturing", "label", "mark_steps", "measured", "range", "stats", "step",
           "steps", "tag"]
__version__ = "0.1.0"
