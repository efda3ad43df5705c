"""Random small traces full of ties, aliases and odd names: `memory` and `timing` of our summary must be those of
the candle-graph crate's.

    candle_planes_crosscheck.py TRACE_ANALYZE [FIRST_SEED LAST_SEED]

Skipped (77) with the reason where the crate's program is not there; tests/run installs it where cargo is.
"""
import json
import os
import random
import subprocess
import sys
import tempfile

from candle_compare import differences
from candle_crosscheck import CRATE, program_and_seeds

BIG = 2**64 - 1
CATEGORIES = ["parameter", "activation", "gradient", "optimizer", "other"]
ODD = ["", "ä", "\u0000", "a\u0000b", "\u2028", "\U0001f600", "\"\\", "007", "7", "0", "s01", "s1", "\t", "z" * 40]


def meta(rng):
    coverage = lambda: rng.choice(["none", "partial", "complete"])
    return {"kind": "meta", "schema": "candle-graph/trace/10", "run_id": "r", "correlation_id": "c", "entrypoint": "e",
            "phase": "infer", "timestamp": "t", "capture_step": 1, "warmup_steps": 0, "device": "cpu",
            "timing_mode": "host", "tags": {},
            "capture_contract": {"measurement_scope": "unknown", "operations": "none", "logical_memory": coverage(),
                                 "physical_memory": coverage(), "device_timing": coverage()}}


class Trace:
    """One random trace: few names and times, so that everything collides."""

    def __init__(self, rng):
        self.rng = rng
        odd = rng.random() < 0.3
        self.storages = [f"st{i}" for i in range(rng.randint(1, 12))] + (rng.sample(ODD, 4) if odd else [])
        self.tensors = [f"t{i}" for i in range(rng.randint(1, 12))] + (rng.sample(ODD, 4) if odd else [])
        self.spans = ["r", "a", "b10", "b9"] + (rng.sample(ODD, 3) if odd else [])
        self.devices = rng.sample(["cpu", "cuda:0", "cuda:1", "cuda:10", "cuda:2", "ä"], rng.randint(1, 4))
        self.horizon = rng.choice([3, 10, 100, 10**6, BIG])
        self.most_bytes = rng.choice([0, 2, 100, BIG])

    def time(self):
        return self.rng.randint(0, self.horizon)

    def bytes(self):
        return self.rng.choice([0, self.most_bytes, self.rng.randint(0, self.most_bytes)])

    def memory(self):
        rng = self.rng
        record = {"kind": "memory", "timestamp_ns": self.time(), "storage_id": rng.choice(self.storages),
                  "tensor_id": rng.choice(self.tensors), "span_id": rng.choice(self.spans),
                  "device": rng.choice(self.devices), "bytes": self.bytes(),
                  "action": rng.choice(["alloc", "alloc", "free"]), "dtype": rng.choice(["f32", "bf16"]),
                  "shape": [rng.randint(0, 5) for _ in range(rng.randint(0, 3))], "category": rng.choice(CATEGORIES)}
        if rng.random() < 0.5:
            record["op_name"] = rng.choice(["matmul", "relu"])
        return record

    def device_memory(self):
        record = {"kind": "device_memory", "timestamp_ns": self.time(), "device": self.rng.choice(self.devices)}
        for name in ("used_bytes", "free_bytes", "reserved_bytes", "capacity_bytes"):
            if self.rng.random() < 0.6:
                record[name] = self.rng.choice([self.bytes(), None])
        return record

    def device_interval(self):
        rng = self.rng
        return {"kind": "device_interval", "span_id": rng.choice(self.spans), "device": rng.choice(self.devices),
                "stream_id": rng.choice(["7", "13", "0"]), "clock_id": rng.choice(["c0", "c1"]),
                "backend": rng.choice(["cupti", "event"]), "start_ns": self.time(),
                "duration_ns": rng.choice([0, 1, 5, self.time()])}

    def records(self):
        rng = self.rng
        makers = rng.choices([self.memory, self.device_memory, self.device_interval], weights=[6, 2, 3],
                             k=rng.randint(0, 60))
        body = [make() for make in makers]
        if rng.random() < 0.5:
            body.sort(key=lambda record: record.get("timestamp_ns", 0))
        spans = [{"kind": "span_start", "id": "r", "name": "whole", "start_ns": 0, "span_kind": "function",
                  "measured": True}]
        end = {"kind": "span_end", "id": "r", "duration_ns": self.horizon}
        return [meta(rng), *spans, *body, end, {"kind": "terminal", "outcome": "complete", "timestamp_ns": BIG}]


def planes(program, path):
    summary = json.loads(subprocess.run([program, "summary", path], check=True, stdout=subprocess.PIPE).stdout)
    return {"memory": summary["memory"], "timing": summary["timing"]}


def main():
    ours, first, last = program_and_seeds(60)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.jsonl")
        for seed in range(first, last):
            with open(path, "w", encoding="utf-8") as file:
                for record in Trace(random.Random(seed)).records():
                    file.write(json.dumps(record, ensure_ascii=False) + "\n")
            found = differences(planes(ours, path), planes(CRATE, path))
            failed += bool(found)
            for difference in found[:3]:
                print(f"seed {seed}: {difference}")
    print(f"seeds {first} to {last - 1}: {failed} with differences")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
