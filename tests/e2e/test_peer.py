"""We read what the public crate's own session writes: from its file, and line by line through our socket."""
import collections
import json
import math
import subprocess

import pytest

import support


def records_of(path):
    with open(path, encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


def same(a, b):
    """Equal, but that the crate reads a float with an error of up to one unit in its last place, and writes what it read."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, float) and isinstance(b, float):
        return a == b or math.nextafter(a, b) == b
    return a == b


@pytest.fixture(params=[(), ("--failed",)], ids=["complete", "failed"])
def session(request, candle_peer, tmp_path):
    path = tmp_path / "session.jsonl"
    candle_peer("session", path, *request.param)
    return path, "failed" if request.param else "complete"


def test_the_file_of_its_session_is_valid(session):
    path, outcome = session
    result = subprocess.run([support.TRACE_ANALYZE, "validate", "--json", str(path)], stdout=subprocess.PIPE)
    document = json.loads(result.stdout)["files"][0]
    assert result.returncode == 0, document
    assert document["structurally_valid"] and document["capture_complete"] == (outcome == "complete"), document
    counts = collections.Counter(record["kind"] for record in records_of(path))
    assert len(counts) == 12, "the session writes every kind: %s" % counts
    coverage = document["coverage"]
    assert coverage["spans"] == counts["span_start"] and coverage["closed_spans"] == counts["span_end"]
    assert (coverage["operations"], coverage["tensors"], coverage["memory_events"], coverage["gradients"]) == (
        counts["op"], counts["tensor"], counts["memory"], counts["gradient"])


def test_what_it_sends_line_by_line_is_stored_as_it_was(session, candle_peer, daemon):
    path, outcome = session
    sent = json.loads(candle_peer("send", path, daemon.socket))
    run = daemon.only_run()
    assert run.state == outcome, run.info
    plain = subprocess.run(["zstd", "-dcq", run.trace_path], stdout=subprocess.PIPE, check=True).stdout
    stored = [json.loads(line) for line in plain.splitlines()]
    assert collections.Counter(record["kind"] for record in stored) == sent
    for record in stored:
        record.pop("ext", None)  # what the daemon adds to meta and terminal
    written = records_of(path)
    assert len(stored) == len(written)
    for ours, theirs in zip(stored, written):
        assert same(ours, theirs), (ours, theirs)
