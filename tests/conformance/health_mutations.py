#!/usr/bin/env python3
"""Mutated fixtures: the health that `trace-analyze validate` finds must be the one that the public crate finds.

    health_mutations.py --trace-analyze build/bin/trace-analyze --candle-graph ~/.cache/…/candle-graph --count 2000

Each mutant is a fixture of trace10/ with a few changes (parents, times, ids, sizes, lost, swapped and repeated
lines, labels, contracts), made from a seed: the same seed gives the same bytes. Compared are whether the file is
readable, the issues (severity and code, in order), the coverage and the two verdicts.
"""
import argparse
import collections
import concurrent.futures
import copy
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

FIXTURES = pathlib.Path(__file__).resolve().parent / "trace10"
NUMBERS = (0, 1, 5, 10, 19, 20, 40, 41, 64, 90, 99, 100, 101, 200, 260, 1000, 2000, 2**63, 2**64 - 1)
TEXTS = ("", " ", "\u3000", "r", "a", "b", "c", "s1", "s2", "s10", "s007", "t1", "t", "ghost", "cpu", "cuda:0", "f", "p", "w")
TIMES = ("start_ns", "duration_ns", "timestamp_ns", "bytes", "host_duration_ns")
LABEL_LISTS = ("required_semantic_labels", "gpu_expected_semantic_labels", "cpu_only_semantic_labels")
SPAN_REFERENCES = ("id", "parent_id", "span_id", "from_span", "to_span")
TENSOR_REFERENCES = ("tensor_id", "from_tensor", "to_tensor", "output", "storage_id")
NORMS = (None, 0.0, -0.0, 1.0, -1.0, 1e-300)


def load_fixtures():
    fixtures = []
    for folder in ("valid", "invalid", "no-evidence"):
        for path in sorted((FIXTURES / folder).glob("*.jsonl")):
            records = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
            fixtures.append((path.stem, records))
    return fixtures


class Mutator:
    def __init__(self, rng, records):
        self.rng, self.records = rng, records

    def pick(self, *kinds):
        found = [record for record in self.records if record["kind"] in kinds] if kinds else self.records[1:-1]
        return self.rng.choice(found) if found else None

    def texts_of(self, keys):
        found = sorted({record[key] for record in self.records for key in keys if isinstance(record.get(key), str)})
        return found + self.rng.sample(TEXTS, 3)

    def with_any(self, keys):
        found = [(record, key) for record in self.records for key in keys if key in record]
        return self.rng.choice(found) if found else (None, None)

    # ---- One change each

    def span_reference(self):
        record, key = self.with_any(SPAN_REFERENCES)
        if record:
            record[key] = self.rng.choice(self.texts_of(SPAN_REFERENCES))

    def parent(self):
        span = self.pick("span_start")
        if span and self.rng.random() < 0.2:
            span.pop("parent_id", None)
        elif span:
            span["parent_id"] = self.rng.choice(self.texts_of(("id",)))

    def tensor_reference(self):
        record, key = self.with_any(TENSOR_REFERENCES)
        if record:
            record[key] = self.rng.choice(self.texts_of(TENSOR_REFERENCES))

    def number(self):
        record, key = self.with_any(TIMES)
        if record:
            value = self.rng.choice(NUMBERS) if self.rng.random() < 0.4 else record[key] + self.rng.choice((-1, 1, -50, 50))
            record[key] = min(max(value, 0), 2**64 - 1)

    def storage(self):
        record = self.pick("memory")
        if record:
            key, values = self.rng.choice((("action", ("alloc", "free")), ("device", ("cpu", "cuda:0")), ("bytes", (32, 64)),
                                           ("storage_id", self.texts_of(("storage_id",)))))
            record[key] = self.rng.choice(values)

    def lose(self):
        if len(self.records) > 3:
            del self.records[self.rng.randrange(1, len(self.records) - 1)]

    def swap(self):
        if len(self.records) > 3:
            a, b = (self.rng.randrange(1, len(self.records) - 1) for _ in range(2))
            self.records[a], self.records[b] = self.records[b], self.records[a]

    def shuffle(self):
        middle = self.records[1:-1]
        self.rng.shuffle(middle)
        # An end before its start is unreadable, and most shuffles would be: ends go last half of the time.
        if self.rng.random() < 0.8:
            middle.sort(key=lambda record: record["kind"] == "span_end")
        self.records[1:-1] = middle

    def repeat(self):
        record = self.pick()
        if record:
            self.records.insert(self.rng.randrange(1, len(self.records)), copy.deepcopy(record))

    def flags(self):
        span = self.pick("span_start")
        if span:
            span[self.rng.choice(("measured",))] = self.rng.random() < 0.5
            span["step"] = self.rng.choice((None, "forward", "backward", "optimizer"))
            span["name"] = self.rng.choice(self.texts_of(("name",)))

    def sample(self):
        sample = self.pick("device_memory")
        if sample:
            for key in ("used_bytes", "free_bytes", "reserved_bytes", "capacity_bytes"):
                if self.rng.random() < 0.6:
                    sample.pop(key, None)

    def edge(self):
        spans, tensors = self.texts_of(("id",)), self.texts_of(TENSOR_REFERENCES)
        edge = {"kind": "edge", "edge_kind": "call", "from_span": self.rng.choice(spans), "to_span": self.rng.choice(spans),
                "host_duration_ns": self.rng.choice(NUMBERS)}
        if self.rng.random() < 0.5:
            edge = {"kind": "edge", "edge_kind": "data", "from_tensor": self.rng.choice(tensors),
                    "to_tensor": self.rng.choice(tensors)}
        self.records.insert(self.rng.randrange(1, len(self.records)), edge)

    def gradient(self):
        record = self.pick("gradient")
        if not record or self.rng.random() < 0.3:
            record = {"kind": "gradient"}
            record.update(event_id="x%d" % self.rng.randrange(3), root="p", key="w", state="present", norm=1.0)
            self.records.insert(self.rng.randrange(1, len(self.records)), record)
        key = self.rng.choice(("event_id", "root", "key", "state", "norm"))
        record[key] = (self.rng.choice(("present", "missing", "zero", "non_finite")) if key == "state" else
                       self.rng.choice(NORMS) if key == "norm" else self.rng.choice(self.texts_of((key,))))

    def contract(self):
        contract = self.records[0]["capture_contract"]
        contract["gradients"] = self.rng.choice(("none", "partial", "complete"))
        gradients = contract.get("gradient_contract")
        if not gradients:
            return
        change = self.rng.randrange(5)
        if change == 0:
            contract.pop("gradient_contract")
        elif change == 1 and gradients["families"]:
            family = self.rng.choice(gradients["families"])
            family["min_present"] = self.rng.choice((0, 1, 2, 3, 2**64 - 1))
            contract["gradients"] = "complete"
        elif change == 2 and gradients["families"]:
            family = self.rng.choice(gradients["families"])
            family["expectation"] = self.rng.choice(("active", "inactive", "data_conditional"))
            family["min_present"] = 0 if family["expectation"] == "inactive" else 1
            contract["gradients"] = "complete"
        elif change == 3 and gradients["families"]:
            self.rng.shuffle(gradients["families"])
            contract["gradients"] = "complete"
        elif gradients["expected"]:
            self.rng.choice(gradients["expected"])[self.rng.choice(("root", "key", "family"))] = self.rng.choice(TEXTS)

    def labels(self):
        contract = self.records[0]["capture_contract"]
        labels = contract.setdefault(self.rng.choice(LABEL_LISTS), [])
        if labels and self.rng.random() < 0.3:
            labels.pop(self.rng.randrange(len(labels)))
        else:
            known = self.texts_of(("name",)) + [label for key in LABEL_LISTS for label in contract.get(key, [])]
            labels.insert(self.rng.randrange(len(labels) + 1), self.rng.choice(known))

    def meta(self):
        meta = self.records[0]
        key = self.rng.choice(("run_id", "correlation_id", "entrypoint", "timestamp", "device", "phase", "capture_step",
                               "warmup_steps", "schema", "comparison_identity"))
        if key == "phase":
            meta[key] = self.rng.choice(("train", "infer"))
        elif key in ("capture_step", "warmup_steps"):
            meta[key] = self.rng.choice((0, 1, 2, 3))
        elif key == "schema":
            meta[key] = self.rng.choice(("candle-graph/trace/9", "candle-graph/trace/10"))
        elif key == "comparison_identity":
            identity = {name: "x" for name in ("workload_id", "model_id", "config_id", "data_id", "seed_policy", "precision",
                                               "device_state")}
            identity.update(physical_batch=1, accumulation_steps=1)
            name = self.rng.choice(sorted(identity) + ["implementation_id", "pair_id"])
            identity[name] = self.rng.choice((0, 1, 2)) if name in ("physical_batch", "accumulation_steps") else self.rng.choice(TEXTS)
            meta[key] = identity
        else:
            meta[key] = self.rng.choice(("", " ", "\u00a0\u2028", "x"))

    def ending(self):
        terminal = self.records[-1]
        if terminal["kind"] != "terminal":
            return
        if self.rng.random() < 0.7:
            terminal["outcome"] = self.rng.choice(("complete", "failed"))
            terminal["reason"] = None if terminal["outcome"] == "complete" else "x"
        else:
            terminal["timestamp_ns"] = self.rng.choice(NUMBERS)

    # Without this most changes of times would make the file unreadable.
    def stretch(self):
        if self.records[-1]["kind"] == "terminal":
            self.records[-1]["timestamp_ns"] = 2**64 - 1

    CHANGES = (span_reference, parent, tensor_reference, number, number, storage, lose, swap, shuffle, repeat, flags, sample,
               edge, gradient, contract, labels, meta, ending)


def mutant(seed, fixtures):
    """The name and the text of the seed's mutant."""
    rng = random.Random(seed)
    name, records = rng.choice(fixtures)
    mutator = Mutator(rng, copy.deepcopy(records))
    for _ in range(rng.choice((1, 1, 2, 3, 5, 8))):
        rng.choice(Mutator.CHANGES)(mutator)
    if rng.random() < 0.9:
        mutator.stretch()
    text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in mutator.records)
    return "%s seed %d" % (name, seed), text


def health_of(document):
    return {"issues": [(issue["severity"], issue["code"]) for issue in document["issues"]],
            "coverage": document["coverage"], "structurally_valid": document["structurally_valid"],
            "capture_complete": document["capture_complete"]}


def ours(trace_analyze, path):
    result = subprocess.run([trace_analyze, "validate", "--json", path], stdout=subprocess.PIPE, timeout=60)
    document = json.loads(result.stdout)["files"][0]
    if not document["readable"]:
        assert result.returncode == 3, result.returncode
        return None
    assert result.returncode == (0 if document["structurally_valid"] else 2), result.returncode
    return health_of(document)


def peers(candle_graph, path):
    """None: it does not read the file. The second value: its words, when it reads it and cannot build its graph."""
    result = subprocess.run([candle_graph, "summary", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    if result.returncode == 0:
        return health_of(json.loads(result.stdout)["health"]), ""
    return None, result.stderr.decode()


def is_graph_failure(words):
    return "duplicate graph node ID" in words


def compare(seed, fixtures, trace_analyze, candle_graph):
    """(what it was: same, unreadable, no graph, different; words)"""
    name, text = mutant(seed, fixtures)
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        mine, (theirs, words) = ours(trace_analyze, file.name), peers(candle_graph, file.name)
    if mine == theirs:
        return "unreadable" if mine is None else "same", ""
    if theirs is None and is_graph_failure(words):
        return "no graph", ""
    return "different", "%s\n  ours   %s\n  peer's %s %s" % (name, mine, theirs, words)


def compare_all(seeds, trace_analyze, candle_graph, workers=2):
    fixtures = load_fixtures()
    tally, differences = collections.Counter(), []
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        for verdict, words in pool.map(lambda seed: compare(seed, fixtures, trace_analyze, candle_graph), seeds):
            tally[verdict] += 1
            if words:
                differences.append(words)
    return tally, differences


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace-analyze", required=True)
    parser.add_argument("--candle-graph", required=True)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--show", type=int, help="print this seed's mutant instead")
    options = parser.parse_args()
    if options.show is not None:
        sys.stdout.write(mutant(options.show, load_fixtures())[1])
        return 0
    tally, differences = compare_all(range(options.first, options.first + options.count), options.trace_analyze,
                                     options.candle_graph, os.cpu_count() or 1)
    print("\n".join(differences[:20]))
    print(dict(tally))
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
