"""Gradients of captured steps: states and norms are torch's own, and the contract claims what is true."""
import hashlib
import json
import os
import struct
import subprocess

import pytest

import support

STEPS = 3
GRADIENTS = {"TENSORTAP_GRADIENTS": "1"}


def trace_job(argv, **environment):
    """(result, run) of a job that is asked for its gradients."""
    with support.Daemon() as daemon:
        result = daemon.run(argv, env={**GRADIENTS, **environment})
        assert result.returncode == 0, result.stderr.decode()
        run = daemon.only_run()
        run.trace  # read before the folder goes
        checked = subprocess.run([support.TRACE_ANALYZE, "validate", run.trace_path], stdout=subprocess.PIPE)
        return result, run, run.info, checked


@pytest.fixture(scope="module")
def good(torch):
    return trace_job(torch.py("evidence", "--steps", STEPS, "--truth"))


def gradients(trace):
    """{step: {key: (state, norm)}}"""
    found = {}
    for record in trace.records:
        if record["kind"] == "gradient":
            name, step = record["root"].split("@")
            assert name == "Everything" and record["key"] not in found.get(int(step), {})
            found.setdefault(int(step), {})[record["key"]] = (record["state"], record.get("norm"))
    return found


def compare(found, truth):
    assert sorted(found) == list(range(len(truth)))
    for step, expected in enumerate(truth):
        assert set(found[step]) == set(expected)
        for key, (state, norm) in expected.items():
            assert found[step][key][0] == state, (step, key, found[step][key])
            if state == "present":
                assert found[step][key][1] == pytest.approx(norm, rel=1e-6), (step, key)


def digest(expected):
    text = b"candle-graph/gradient-manifest/1\0"
    for entry in expected:
        for name in (entry["root"], entry["key"], entry["family"]):
            text += struct.pack("<Q", len(name.encode())) + name.encode()
    return "sha256:" + hashlib.sha256(text).hexdigest()


def test_states_and_norms_are_torchs_own_in_every_step(good):
    result, run, _, _ = good
    truth = json.loads(result.stdout.decode().splitlines()[0])["gradients"]
    compare(gradients(run.trace), truth)
    states = {state for step in gradients(run.trace).values() for state, _ in step.values()}
    assert states == {"present", "missing", "zero"}


def test_the_contract_is_exact(good):
    _, run, info, checked = good
    contract = run.trace.meta["capture_contract"]
    assert contract["gradients"] == "complete", info["diagnostics"]
    manifest = contract["gradient_contract"]
    written = [(r["root"], r["key"]) for r in run.trace.records if r["kind"] == "gradient"]
    assert [(e["root"], e["key"]) for e in manifest["expected"]] == written
    assert manifest["manifest_sha256"] == digest(manifest["expected"])
    assert checked.returncode == 0, checked.stdout.decode()[-2000:]


def test_the_gradients_are_read_between_backward_and_the_optimizers_step(good):
    _, run, _, _ = good
    trace = run.trace
    for number, step in enumerate(trace.steps()[:STEPS]):
        inside = trace.inside(step)
        optimizer = min(s.start for s in inside if s.step == "optimizer")
        backward = max(s.end for s in inside if s.step == "backward")
        times = [r["ext"]["time_ns"] for r in trace.records
                 if r["kind"] == "gradient" and r["root"].endswith("@%d" % number)]
        assert times and all(backward <= time <= optimizer for time in times)


def test_the_crate_accepts_the_contract(torch, candle_graph, tmp_path):
    with support.Daemon() as daemon:
        daemon.run(torch.py("evidence", "--steps", STEPS), env=GRADIENTS)
        run = daemon.only_run()
        code, words = candle_graph(run.trace_path, tmp_path, "--require-valid")
        assert code == 0, words[-3000:]


def test_a_gradient_that_is_not_finite_makes_it_partial_and_is_said(torch):
    result, run, info, checked = trace_job(torch.py("evidence", "--steps", STEPS, "--truth", "--blow-up", 2))
    compare(gradients(run.trace), json.loads(result.stdout.decode().splitlines()[0])["gradients"])
    contract = run.trace.meta["capture_contract"]
    assert contract["gradients"] == "partial" and "gradient_contract" not in contract
    assert info["diagnostics"]["gradient_non_finite"] > 0
    assert checked.returncode == 0, checked.stdout.decode()[-2000:]


def test_nobody_asked_nothing_is_read(torch, traced):
    _, run, _ = traced(torch.py("evidence", "--steps", STEPS, "--truth"))
    assert not gradients(run.trace)
    assert run.trace.meta["capture_contract"]["gradients"] == "none"


def test_the_job_computes_the_same_bit_by_bit(torch):
    argv = torch.py("evidence", "--steps", STEPS)
    result, _, _, _ = trace_job(argv)
    assert result.stdout == support.plain(argv).stdout


def test_trace_run_asks_for_them(torch, tmp_path):
    with support.Daemon() as daemon:
        argv = [support.TRACE_RUN, "--socket", daemon.socket, "--gradients", "--"] + torch.py("evidence", "--steps", 2)
        result = subprocess.run(argv, env=support.clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
        assert result.returncode == 0, result.stderr.decode()
        assert sorted(gradients(daemon.only_run().trace)) == [0, 1]


def test_a_cpp_jobs_gradients_have_names_states_and_the_contract(torch):
    result, run, info, checked = trace_job(torch.cpp("mlp", "--steps", 12))
    found = {}
    for record in run.trace.records:
        if record["kind"] == "gradient":
            found.setdefault(record["root"], {})[record["key"]] = record
    assert sorted(found) == sorted("model@%d" % step for step in range(12))
    names = {r["label"] for r in run.trace.records if r["kind"] == "tensor" and r.get("ext", {}).get("source") == "parameter"}
    for step in found.values():
        assert set(step) == names
        assert all(record["state"] in ("present", "zero") for record in step.values())
    assert run.trace.meta["capture_contract"]["gradients"] == "complete", info["diagnostics"]
    assert checked.returncode == 0, checked.stdout.decode()[-2000:]
    assert result.stdout == support.plain(torch.cpp("mlp", "--steps", 12)).stdout
