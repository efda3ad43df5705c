"""Random traces: our graph must be, byte by byte, the `graph` member of the crate's evidence packet; where the
packet has none, ours must be refused.

    candle_graph_crosscheck.py TRACE_ANALYZE [FIRST_SEED LAST_SEED]

Skipped (77) with the reason where the crate's program is not there; tests/run installs it where cargo is.
"""
import collections
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import candle_fuzz
from candle_crosscheck import CRATE, program_and_seeds


def with_edges(records, rng):
    """Adds recorded edges that keep a valid trace valid: calls as the spans nest, data between known tensors."""
    starts = {r["id"]: r for r in records if r["kind"] == "span_start"}
    calls = [(starts[r["id"]]["parent_id"], r["id"], r.get("duration_ns", 0)) for r in records
             if r["kind"] == "span_end" and starts.get(r["id"], {}).get("parent_id")]
    tensors = [t for r in records if r["kind"] == "op" for t in r.get("inputs", []) + [r.get("output")] if t]
    tensors += [r["tensor_id"] for r in records if r["kind"] == "tensor"]
    edges = []
    for _ in range(rng.randint(0, 4)):
        if calls and rng.random() < 0.5:
            parent, child, duration = rng.choice(calls)
            edges.append({"edge_kind": "call", "from_span": parent, "to_span": child, "host_duration_ns": duration})
        elif tensors:
            edges.append({"edge_kind": "data", "from_tensor": rng.choice(tensors), "to_tensor": rng.choice(tensors)})
    for edge in edges:
        records.insert(rng.randint(1, len(records) - 1), {"kind": "edge", **edge})
        if rng.random() < 0.3:
            records.insert(rng.randint(1, len(records) - 1), {"kind": "edge", **edge})
    return records


def graph_of_the_crate(folder):
    packet = subprocess.run([CRATE, "import", "t.jsonl"], cwd=folder, capture_output=True, timeout=60)
    if packet.returncode != 0:
        return None
    graph = json.loads(packet.stdout).get("graph")
    return graph and json.dumps(graph, indent=2, ensure_ascii=False) + "\n"


def first_difference(ours, theirs):
    for number, (a, b) in enumerate(zip(ours.splitlines(), theirs.splitlines()), 1):
        if a != b:
            return f"line {number}: {a.strip()} instead of {b.strip()}"
    return f"{len(ours)} bytes instead of {len(theirs)}"


def check(ours, seed, folder, counts):
    records = with_edges(candle_fuzz.lines(seed), random.Random(-seed))
    lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    pathlib.Path(folder, "t.jsonl").write_text("".join(lines), encoding="utf-8")
    result = subprocess.run([ours, "graph", "t.jsonl"], cwd=folder, capture_output=True, timeout=60)
    theirs = graph_of_the_crate(folder)
    if theirs is None:
        counts["without graph"] += 1
        return None if result.returncode == 3 and not result.stdout else "a graph, and the crate has none"
    counts["compared"] += 1
    if result.returncode != 0:
        return "refused: " + result.stderr.decode()
    text = result.stdout.decode("utf-8")
    return None if text == theirs else first_difference(text, theirs)


def main():
    ours, first, last = program_and_seeds(150)
    counts, differences = collections.Counter(), 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, last):
            difference = check(ours, seed, folder, counts)
            if difference:
                differences += 1
                print(f"seed {seed}: {difference}")
    print(f"seeds {first} to {last - 1}:", dict(counts), f"{differences} differences")
    return 1 if differences or not counts["compared"] else 0


if __name__ == "__main__":
    sys.exit(main())
