"""CPU time of an empty range in Python: range_loop.py COUNT [--torch]; beside an empty context manager of one's own."""
import sys
import time


class Empty:
    def __init__(self, name):
        self.name = name

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def best_ns(kind, count):
    best = float("inf")
    for _ in range(7):
        begin = time.thread_time_ns()
        for _ in range(count):
            with kind("range"):
                pass
        best = min(best, (time.thread_time_ns() - begin) / count)
        time.sleep(0.3)
    return best


if "--torch" in sys.argv:
    import torch  # noqa: F401
import tensortap  # noqa: E402

end = time.monotonic() + 10
while "--torch" in sys.argv and not tensortap.is_capturing() and time.monotonic() < end:
    time.sleep(0.05)
count = int(sys.argv[1])
print("%.0f %.0f %d" % (best_ns(Empty, count), best_ns(tensortap.range, count), tensortap.is_capturing()))
