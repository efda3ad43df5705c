"""The job stays the job: results bit by bit, operators, compiled graphs, the profiler's own figures, stderr."""
import collections
import json
import re

import pytest

import support


def both(argv, daemon, capture="now"):
    """The job without and with the probe; what it prints and how it ends must not differ."""
    plain = support.plain(argv)
    assert plain.returncode == 0, plain.stderr.decode()[-2000:]
    traced = daemon.run(argv, env={"TENSORTAP_CAPTURE": capture})
    assert (traced.returncode, traced.stdout) == (plain.returncode, plain.stdout)
    assert without_times(traced.stderr) == without_times(plain.stderr)
    return traced


def without_times(text):
    """torch's profiler logs with a time of day and its pid; 2.15's also says when it starts and stops, with figures of time."""
    lines = [line for line in text.splitlines() if b"SyncActivityProfilerHandler" not in line]
    return [re.sub(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \d+:\d+ ", b"TIME PID ", line) for line in lines]


@pytest.mark.parametrize("capture", ["now", "idle", "steps=1:2", "always-on", "always-on=1"])
def test_results_are_the_same_bit_by_bit(capture, torch, daemon):
    both(torch.py("stays", "results"), daemon, capture)


def test_results_are_the_same_with_values_read(torch, daemon):
    argv = torch.py("stays", "results")
    plain = support.plain(argv)
    traced = daemon.run(argv, env={"TENSORTAP_GRADIENTS": "1", "TENSORTAP_STATS": "*"})
    assert (traced.returncode, traced.stdout, traced.stderr) == (0, plain.stdout, plain.stderr)


def test_module_capture_adds_and_removes_no_operator(torch, daemon, tmp_path):
    """A hook on a module would take TransformerEncoderLayer off its fused path: other operators would run."""
    without, beside = tmp_path / "without.json", tmp_path / "with.json"
    assert support.plain(torch.py("stays", "operators", str(without))).returncode == 0
    assert daemon.run(torch.py("stays", "operators", str(beside))).returncode == 0
    expected = json.loads(without.read_text())
    assert json.loads(beside.read_text()) == expected
    assert expected.get("aten::_transformer_encoder_layer_fwd", 0) > 0, "the fused path was not taken at all"
    # And the probe saw these: the same inference runs twice, once before the profiler.
    seen = collections.Counter(op["op_name"] for op in daemon.only_run().trace.ops)
    assert seen["aten::_transformer_encoder_layer_fwd"] == 2 * expected["aten::_transformer_encoder_layer_fwd"]
    paths = {span.name for span in daemon.only_run().trace.spans.values() if span.kind == "module"}
    assert "encoder" in paths and "head" in paths, paths


def test_the_jobs_own_profiler_sees_its_memory_and_we_ours(torch, daemon):
    both(torch.py("stays", "memory"), daemon)
    records = [r for r in daemon.only_run().trace.records if r["kind"] == "memory"]
    assert any(r["bytes"] == 32 * 64 * 4 and r["action"] == "alloc" for r in records)


@pytest.mark.parametrize("capture", ["now", "idle"])
def test_the_same_graphs_are_compiled(capture, torch, daemon):
    if torch.label == "debian":
        pytest.skip("torch 1.13 has no torch.compile")
    result = both(torch.py("stays", "compiled"), daemon, capture)
    assert b'"unique_graphs"' in result.stdout, result.stdout
    if capture == "now":  # this backend runs the graph's operators one by one
        assert any(op["op_name"] == "aten::addmm" for op in daemon.only_run().trace.ops)
        # What is fused inside is out of sight: said, though torch 2.15 names no region unless a profiler runs.
        assert "compiled_region" in json.dumps(daemon.only_run().report)
