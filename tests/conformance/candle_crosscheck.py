"""Random traces: our documents and those of the candle-graph crate must be equal (free texts apart).

    candle_crosscheck.py TRACE_ANALYZE [FIRST_SEED LAST_SEED]

Skipped (77) with the reason where the crate's program is not there; tests/run installs it where cargo is.
"""
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import candle_fuzz
from candle_compare import differences

CRATE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache",
                     "tensortap", "candle-graph", "bin", "candle-graph")


def document(program, kind, folder):
    result = subprocess.run([program, kind, "t.jsonl"], cwd=folder, capture_output=True, timeout=60)
    return json.loads(result.stdout) if result.returncode == 0 else None, result


def check(ours, seed, folder, counts):
    lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in candle_fuzz.lines(seed))
    pathlib.Path(folder, "t.jsonl").write_text("".join(lines), encoding="utf-8")
    for kind in ("summary", "overview"):
        our_document, our_result = document(ours, kind, folder)
        crate_document, crate_result = document(CRATE, kind, folder)
        if (our_document is None) != (crate_document is None):
            yield f"exit {our_result.returncode}, crate {crate_result.returncode}: " + repr(
                our_result.stderr + crate_result.stderr)
        elif crate_document is None:
            counts["refused by both"] += 1
        else:
            counts["compared"] += 1
            if kind == "summary":
                counts["with graph"] += crate_document["summary"] is not None
                counts["with activations"] += bool(crate_document["activations"]["operations"])
            yield from (f"{kind} {difference}" for difference in differences(our_document, crate_document))


def program_and_seeds(seeds):
    """What the command line asks for: our program, first and last seed. Ends as skipped where the crate is not."""
    reason = os.environ.get("TENSORTAP_SKIP_CANDLE")
    if not reason and not CRATE.exists():
        reason = "the crate candle-graph is not installed (tests/run does it where cargo is)"
    if reason:
        print("skipped:", reason)
        sys.exit(77)
    return (os.path.abspath(sys.argv[1]), *map(int, sys.argv[2:4] or (0, seeds)))


def main():
    ours, first, last = program_and_seeds(150)
    counts, kinds = collections.Counter(), collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, last):
            for difference in check(ours, seed, folder, counts):
                kind = re.sub(r"\d+", "N", difference)
                kinds[kind] += 1
                if kinds[kind] <= 2:
                    print(f"seed {seed}: {difference}")
    print(f"seeds {first} to {last - 1}:", dict(counts), f"{sum(kinds.values())} differences")
    return 1 if kinds or not counts["with graph"] or not counts["with activations"] else 0


if __name__ == "__main__":
    sys.exit(main())
