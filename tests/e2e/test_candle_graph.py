"""The peer crate reads every trace of every job, on each torch: structurally valid, and complete where the job ended well; and it
says of each what we say."""
import json
import os
import subprocess
import sys

import pytest

import support

sys.path.insert(0, os.path.join(support.REPOSITORY, "tests", "conformance"))
import candle_compare  # noqa: E402

ENDED_WELL = [
    ("py", "cnn_train", "--steps", 12), ("py", "transformer_train", "--steps", 3), ("py", "infer_loop", "--steps", 12),
    ("py", "killed", "--kill-step", -1), ("py", "threads"), ("py", "first_op"), ("py", "warns"),
    ("py", "golden_job", "resnet_mini"), ("py", "golden_job", "gpt_mini"), ("py", "golden_job", "checkpointed"),
    ("cpp", "mlp", "--steps", 12), ("cpp", "cnn", "--steps", 8), ("cpp", "infer", "--steps", 12), ("cpp", "threads"),
    ("cpp", "sequence"),
]
DIED = [("py", "killed", "--how", how) for how in ("kill", "abort", "segv")] + [
    ("cpp", "mlp", "--steps", 10, "--kill-step", 7, "--how", how) for how in ("kill", "abort", "segv")]


def argv(torch, job):
    return torch.py(*job[1:]) if job[0] == "py" else torch.cpp(*job[1:])


def says_what_we_say(theirs, trace_path):
    """Summary, health and memory figures: the whole document, by the rules for its free texts."""
    ours = subprocess.run([support.TRACE_ANALYZE, "summary", trace_path], stdout=subprocess.PIPE, check=True, timeout=120).stdout
    ours, theirs = json.loads(ours), json.loads(theirs)
    for document in (ours, theirs):
        document.pop("input")  # we read the compressed file, the crate a copy of its text
    different = candle_compare.differences(ours, theirs)
    assert not different, different[:20]


def named(job):
    return "-".join(str(part).strip("-") for part in job)


@pytest.mark.parametrize("job", ENDED_WELL, ids=named)
def test_the_crate_finds_the_trace_of_a_job_that_ended_well_valid(job, torch, traced, candle_graph, tmp_path):
    _, run, runs = traced(argv(torch, job))
    assert run.state == "complete", run.info
    code, words = candle_graph(run.trace_path, tmp_path, "--require-valid")
    assert code == 0, words[-3000:]
    says_what_we_say(words, run.trace_path)
    for worker in runs:
        if worker.is_worker:
            options = ("--require-valid",) if worker.state == "complete" else ()
            code, words = candle_graph(worker.trace_path, tmp_path, *options)
            assert code == 0, words[-3000:]


@pytest.mark.parametrize("job", DIED, ids=named)
def test_the_crate_reads_the_trace_of_a_job_that_died(job, torch, traced, candle_graph, tmp_path):
    _, run, _ = traced(argv(torch, job))
    assert run.state == "failed"
    code, words = candle_graph(run.trace_path, tmp_path)
    assert code == 0, words[-3000:]
    says_what_we_say(words, run.trace_path)


@pytest.mark.parametrize("job", ENDED_WELL + DIED, ids=named)
def test_our_own_judge_finds_it_valid(job, torch, traced):
    _, run, _ = traced(argv(torch, job))
    result = subprocess.run([support.TRACE_ANALYZE, "validate", run.trace_path], stdout=subprocess.PIPE)
    assert result.returncode == 0, result.stdout.decode()[-3000:]


@pytest.mark.parametrize("job", [("py", "golden_job", "resnet_mini"), ("cpp", "mlp", "--steps", 12)], ids=named)
def test_our_schemas_accept_every_line_of_it(job, torch, traced):
    jsonschema = pytest.importorskip("jsonschema", reason="python3-jsonschema is not installed (deploy/setup does it)")
    _, run, _ = traced(argv(torch, job))
    lines = subprocess.run(["zstd", "-dcq", run.trace_path], stdout=subprocess.PIPE, check=True).stdout.splitlines()
    for name in ("trace-10", "ext"):
        with open(os.path.join(support.REPOSITORY, "proto", "schemas", name + ".schema.json"), encoding="utf-8") as stream:
            schema = jsonschema.Draft202012Validator(json.load(stream))
        for line in lines[:1500] + lines[-500:]:
            error = jsonschema.exceptions.best_match(schema.iter_errors(json.loads(line)))
            assert error is None, (line[:500], error and error.message[:300])


@pytest.mark.parametrize("job", ENDED_WELL + DIED, ids=named)
def test_the_ledger_adds_up(job, torch, traced):
    _, run, _ = traced(argv(torch, job))
    for ledger in (run.info["ledger"], run.trace.terminal["ext"]["ledger"]):
        assert ledger["offered"] == ledger["stored"] + sum(ledger["dropped"].values()), ledger
    assert not any(run.info["ledger"]["dropped"].values()), run.info["ledger"]


def test_a_trace_can_be_read_with_plain_zstd_and_by_our_own_analyzer(torch, traced):
    _, run, _ = traced(torch.py("infer_loop", "--steps", 12))
    subprocess.run(["zstd", "-tq", run.trace_path], check=True)
    for options in ([], ["--json"]):
        subprocess.run([support.TRACE_ANALYZE, *options, run.trace_path], stdout=subprocess.DEVNULL, check=True)
