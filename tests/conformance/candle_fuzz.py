"""Random traces for the cross-check with the candle-graph crate: seeded, small, mostly readable.

    lines(seed) -> the JSON records of one trace, as dicts

Two kinds take turns: traces made from nothing, in which names, tensors and storages repeat often, and fixtures
with a few fields, lines or orders changed.
"""
import copy
import json
import pathlib
import random

FIXTURES = pathlib.Path(__file__).parent
LEVELS = ["none", "partial", "complete"]
DEVICES = ["cpu", "cuda:0", "cuda:1", "CPU:1", "cpux"]
CATEGORIES = ["parameter", "activation", "activation", "activation", "gradient", "optimizer", "other"]


def _contract(rng, names):
    contract = {"measurement_scope": rng.choice(["unknown", "profiled_work", "production_equivalent"])}
    for field in ("operations", "activations", "tensors", "logical_memory", "physical_memory", "device_timing"):
        contract[field] = rng.choice(LEVELS + ["complete"])
    contract["gradients"] = rng.choice(["none", "partial"])
    if rng.random() < 0.3:
        contract["required_semantic_labels"] = rng.sample(names, rng.randint(0, 2))
    return contract


def _interval(rng, begin, end):
    a, b = sorted((rng.randint(begin, end), rng.randint(begin, end)))
    return a, b - a


class _Trace:
    def __init__(self, rng):
        self.rng = rng
        self.records = []
        self.spans = []  # (id, begin, end)
        self.end = rng.choice([20, 200, 5000])

    def span(self, parent, begin, duration, measured=False):
        rng = self.rng
        name = f"{rng.choice(['s', 's', 'x/op/', 'z'])}{len(self.spans)}"
        record = {"kind": "span_start", "id": name, "name": rng.choice("abcdefg"), "start_ns": begin,
                  "span_kind": rng.choice(["function", "module", "op", "op"]), "measured": measured}
        if parent:
            record["parent_id"] = parent
        if rng.random() < 0.3:
            record["step"] = rng.choice(["forward", "backward", "optimizer"])
        self.records.append(record)
        if not self.failed or rng.random() < 0.9:
            self.records.append({"kind": "span_end", "id": name, "duration_ns": duration})
        self.spans.append((name, begin, begin + duration))
        return name

    def tree(self):
        rng = self.rng
        root = self.span(None, 0, self.end)
        a, d = _interval(rng, 0, self.end)
        if rng.random() < 0.1:
            a, d = 0, self.end
        window = self.span(root, a, d, measured=True)
        for _ in range(rng.randint(0, 14)):
            parent, begin, end = rng.choice(self.spans if rng.random() < 0.7 else self.spans[:2])
            self.span(parent, *_interval(rng, begin, end), measured=self.failed and rng.random() < 0.1)
        return window

    def place(self):
        return self.rng.choice(self.spans[1:] if self.rng.random() < 0.9 else self.spans)

    def op(self):
        rng = self.rng
        span, begin, end = self.place()
        start, duration = _interval(rng, begin, end)
        record = {"kind": "op", "span_id": span, "op_name": rng.choice(["mm", "add", "relu"]),
                  "inputs": [f"t{rng.randint(0, 6)}" for _ in range(rng.randint(0, 3))],
                  "shape": [rng.choice([0, 2, 3, 2**40]) for _ in range(rng.randint(0, 3))],
                  "dtype": rng.choice(["f32", " BF16 ", "q4k", "bool"]), "device": rng.choice(DEVICES),
                  "duration_ns": duration, "timestamp_ns": start, "input_dense_bytes": 0}
        if rng.random() < 0.8:
            record["output"] = f"t{rng.randint(0, 6)}"
        if rng.random() < 0.2:
            record["output_dense_bytes"] = rng.choice([0, 7, 2**64 - 1])
        self.records.append(record)

    def memory(self):
        rng = self.rng
        span, begin, end = self.place()
        time = rng.randint(begin, end)
        storage, size = f"st{rng.randint(0, 4)}", rng.choice([1, 8, 8, 2**63])
        record = {"kind": "memory", "timestamp_ns": time, "storage_id": storage, "tensor_id": f"t{rng.randint(0, 6)}",
                  "span_id": span, "device": rng.choice(DEVICES[:2]), "bytes": size, "action": "alloc",
                  "dtype": "f32", "category": rng.choice(CATEGORIES)}
        if rng.random() < 0.5:
            record["op_name"] = rng.choice(["mm", "add", "relu", "none"])
        if self.invalid:
            record["storage_id"] = f"st{rng.randint(0, 4)}"
            self.records.append(record)
            if rng.random() < 0.7:
                self.records.append({**record, "action": rng.choice(["free", "alloc"]), "timestamp_ns": rng.randint(begin, end)})
            return
        # Each storage once, so that the trace stays valid.
        record["storage_id"] = f"st{self.storages}"
        self.storages += 1
        self.records.append(record)
        later = sorted(rng.randint(time, end) for _ in range(2))
        if rng.random() < 0.4:
            self.records.append({**record, "tensor_id": f"x{rng.randint(0, 3)}", "timestamp_ns": later[0]})
        if rng.random() < 0.7:
            self.records.append({**record, "action": "free", "timestamp_ns": later[1]})

    def other(self):
        rng = self.rng
        kind = rng.choice(["tensor", "tensor", "device_memory", "device_interval", "device_interval",
                           "tensor_stats", "gradient"])
        span, begin, end = self.place()
        if kind == "tensor":
            record = {"span_id": span, "tensor_id": f"t{rng.randint(0, 8)}", "shape": [2], "dtype": "f32",
                      "device": "cpu", "category": rng.choice(CATEGORIES)}
            if rng.random() < 0.3:
                record["label"] = rng.choice("pqr")
        elif kind == "device_memory":
            record = {"timestamp_ns": rng.randint(0, self.end), "device": rng.choice(DEVICES), "used_bytes": rng.randint(0, 3)}
        elif kind == "device_interval":
            record = {"span_id": span, "device": rng.choice(DEVICES[:3]), "stream_id": rng.choice("12"),
                      "clock_id": rng.choice(["c0", "c1"]), "backend": rng.choice(["cupti", "event"]),
                      "start_ns": rng.randint(0, 50), "duration_ns": rng.randint(1, 30)}
        elif kind == "tensor_stats":
            record = {"span_id": span, "label": rng.choice("lm"), "shape": [2], "dtype": "f32", "elements": 2,
                      "non_finite": rng.randint(0, 1), "rms": 0.5, "abs_max": 1.0, "mean": 0.25}
        else:
            record = {"event_id": f"g{len(self.records)}", "root": "p", "key": rng.choice("abc"),
                      "state": rng.choice(["missing", "non_finite"])}
        self.records.append({"kind": kind, **record})

    def make(self):
        rng = self.rng
        self.failed = rng.random() < 0.25
        self.invalid = rng.random() < 0.25
        self.storages = 0
        self.tree()
        for _ in range(rng.randint(0, 12)):
            self.op()
        for _ in range(rng.randint(0, 8)):
            self.memory()
        for _ in range(rng.randint(0, 8)):
            self.other()
        if rng.random() < 0.3:
            loose = [r for r in self.records if r["kind"] not in ("span_start", "span_end")]
            rng.shuffle(loose)
            self.records = loose + [r for r in self.records if r["kind"] in ("span_start", "span_end")]
        meta = {"kind": "meta", "schema": "candle-graph/trace/10", "run_id": "r", "correlation_id": "c",
                "entrypoint": "e", "phase": rng.choice(["train", "infer"]), "timestamp": "t", "capture_step": 1,
                "warmup_steps": 0, "device": "cpu", "timing_mode": "host",
                "capture_contract": _contract(rng, list("abcdefg")), "tags": {}}
        terminal = {"kind": "terminal", "outcome": "failed" if self.failed else "complete", "timestamp_ns": self.end}
        if self.failed:
            terminal["reason"] = "why"
        return [meta, *self.records, terminal]


def _fixture_lines():
    files = sorted(FIXTURES.glob("trace10/valid/*.jsonl")) + sorted(FIXTURES.glob("trace10/invalid/*.jsonl"))
    files += sorted(FIXTURES.glob("candle/*/input.jsonl"))
    for file in files:
        try:
            yield [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
        except ValueError:
            continue


_known_fixtures = []


def _values(records):
    by_key = {}
    for record in records:
        for key, value in record.items():
            by_key.setdefault(key, []).append(value)
    return by_key


def _mutated(rng):
    if not _known_fixtures:
        _known_fixtures.extend(_fixture_lines())
    records = copy.deepcopy(rng.choice(_known_fixtures))
    for _ in range(rng.randint(1, 4)):
        inner = range(1, len(records) - 1)
        if not inner:
            break
        at = rng.choice(inner)
        how = rng.random()
        if how < 0.15:
            del records[at]
        elif how < 0.25:
            records.insert(at, copy.deepcopy(records[rng.choice(inner)]))
        elif how < 0.4:
            other = rng.choice(inner)
            records[at], records[other] = records[other], records[at]
        elif how < 0.5:
            contract = records[0]["capture_contract"]
            field = rng.choice([k for k, v in contract.items() if v in LEVELS])
            contract[field] = rng.choice(LEVELS)
        else:
            keys = [k for k in records[at] if k not in ("kind", "edge_kind", "schema")]
            if not keys:
                continue
            key = rng.choice(keys)
            value = records[at][key]
            if isinstance(value, int) and not isinstance(value, bool) and rng.random() < 0.5:
                records[at][key] = max(0, value + rng.choice([-1, 1, 10, -10, 100]))
            else:
                records[at][key] = copy.deepcopy(rng.choice(_values(records)[key]))
    return records


def lines(seed):
    rng = random.Random(seed)
    return _Trace(rng).make() if seed % 2 else _mutated(rng)
