"""Operator counts agree with torch.profiler on the same job, and with the recorded counts of known models.

Each difference that is allowed is named here with its reason; an allowed one that no longer occurs fails too.
"""
import json
import os

import pytest

import support

# (job, torch label or None for both, operator): why its count may differ.
KNOWN_DIFFERENCES = {}

PYTHON_JOBS = {
    "cnn_train": ("--steps", 12),
    "transformer_train": ("--steps", 6),
    "infer_loop": ("--steps", 12),
    "killed": ("--kill-step", -1),
}
CPP_JOBS = {"mlp": ("--steps", 12), "cnn": ("--steps", 8), "infer": ("--steps", 12)}


def compare(job, torch, counts, truth):
    differing = {name: (counts.get(name), truth.get(name))
                 for name in sorted(set(counts) | set(truth)) if counts.get(name) != truth.get(name)}
    allowed = {op for (j, label, op) in KNOWN_DIFFERENCES if j == job and label in (None, torch.label)}
    unexpected = {name: pair for name, pair in differing.items() if name not in allowed}
    assert not unexpected, "operator: ([trace total, top level], [profiler total, top level]) %s" % unexpected
    assert not allowed - set(differing), "differences that are no longer there: %s" % (allowed - set(differing))


@pytest.mark.parametrize("name", sorted(PYTHON_JOBS))
def test_python_jobs_have_the_profilers_counts(name, torch, traced, tmp_path):
    argv = torch.py(name, *PYTHON_JOBS[name])
    _, run, _ = traced(argv)
    compare(name, torch, run.trace.counts(), support.profiler_counts(argv, tmp_path))


@pytest.mark.parametrize("name", sorted(CPP_JOBS))
def test_cpp_jobs_have_the_profilers_counts(name, torch, traced, tmp_path):
    argv = torch.cpp(name, *CPP_JOBS[name])
    _, run, _ = traced(argv)
    compare(name, torch, run.trace.counts(), support.profiler_counts(argv, tmp_path))


@pytest.mark.parametrize("model", ["resnet_mini", "gpt_mini", "checkpointed"])
def test_known_models_have_the_recorded_counts(model, torch, traced):
    golden = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden_ops",
                          "%s.torch-%s.json" % (model, torch.version))
    if not os.path.exists(golden):
        pytest.skip("counts of %s are recorded for torch 1.13 and 2.15, not %s" % (model, torch.version))
    with open(golden) as stream:
        truth = json.load(stream)["by_name"]
    result, run, _ = traced(torch.py("golden_job", model))
    assert result.returncode == 0, result.stderr.decode()
    first, last = [op for op in run.trace.ops if op["op_name"] == "aten::full" and 4242 in op["ext"]["args"]]
    begin, end = first["timestamp_ns"] + first["duration_ns"], last["timestamp_ns"]
    counts = run.trace.counts(lambda op: begin <= op["timestamp_ns"] < end)
    compare(model, torch, counts, truth)


@pytest.mark.parametrize("kind", ["python", "cpp"])
def test_each_threads_operators_are_seen_on_that_thread(kind, torch, traced):
    """Two threads, 100 rounds each of {rand, rand, add} and {rand, rand, mul}."""
    result, run, _ = traced(torch.py("threads") if kind == "python" else torch.cpp("threads"))
    assert result.returncode == 0
    by_thread = {}
    for op in run.trace.ops:
        if op["op_name"] in ("aten::rand", "aten::add", "aten::mul"):
            names = by_thread.setdefault(op["ext"]["thread"], [])
            names.append(op["op_name"])
    rounds = sorted(by_thread.values(), key=lambda names: names[2])
    assert rounds == [["aten::rand", "aten::rand", "aten::add"] * 100, ["aten::rand", "aten::rand", "aten::mul"] * 100]


def test_workers_of_a_dataloader_have_runs_inside_their_parents(torch, traced):
    _, run, runs = traced(torch.py("cnn_train", "--steps", 12))
    workers = [r for r in runs if r.is_worker]
    assert len(workers) == 2, [r.folder for r in runs]
    pictures = 0
    for worker in workers:
        assert os.path.dirname(os.path.dirname(worker.folder)) == run.folder
        assert worker.info["parent_run"] == run.info["run"]
        counts = worker.trace.counts()
        pictures += counts["aten::stack"][0]
    assert pictures == 12, "each of the 12 batches was stacked by one of the workers"
    assert "aten::stack" not in run.trace.counts(), "the parent stacked nothing itself"
