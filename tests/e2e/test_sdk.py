"""The SDK in real jobs on each torch: what a job says of itself stands in its trace, and the peer crate reads it."""
import json
import os
import subprocess

import pytest

import support

PACKAGE = os.path.join(support.REPOSITORY, "probe", "python", "package", "src")
IDENTITY = {"workload_id": "glyphs", "model_id": "mlp", "config_id": "c1", "data_id": "made-up", "seed_policy": "fixed",
            "precision": "f32", "device_state": "shared", "physical_batch": 16, "accumulation_steps": 1, "pair_id": "p1"}


@pytest.fixture(scope="module")
def python_job(torch):
    """The Python job once for each torch: (what it printed, its run)."""
    with support.Daemon() as daemon:
        result = daemon.run(torch.py("sdk_train"), env={"PYTHONPATH": PACKAGE})
        assert result.returncode == 0, result.stderr.decode()
        yield json.loads(result.stdout), daemon.only_run()


def of_kind(run, kind):
    return [record for record in run.trace.records if record["kind"] == kind]


def named(run, name):
    return [span for span in run.trace.spans.values() if span.name == name]


def inside(run, span, name):
    return any(one.name == name for one in run.trace.ancestors(span.id))


def test_everything_was_taken(python_job):
    told, run = python_job
    assert told["capturing"] and all(told["recorded"]) and not told["complex"], told
    assert run.state == "complete", run.info
    assert not any(run.info["ledger"]["dropped"].values()), run.info["ledger"]


def test_steps_are_the_jobs_own(python_job):
    _, run = python_job
    steps = run.trace.steps()
    assert [step.name for step in steps] == ["step-%012d" % n for n in range(5)]
    assert all("cut" not in step.end_ext for step in steps)
    for name in ("Optimizer.step#SGD.step", "forward pass"):
        assert [inside(run, span, steps[n].name) for n, span in enumerate(named(run, name))] == [True] * 5, name
    embedding = [span for span in run.trace.modules() if span.ext.get("type") == "Embedding"]
    assert embedding and not any(inside(run, embedding[0], step.name) for step in steps), "behind the last step: in none"


def test_ranges_and_measured_regions_are_spans(python_job):
    _, run = python_job
    assert len(named(run, "make batch")) == 5
    regions = named(run, "forward pass")
    assert [span.ext["measured_region"] for span in regions] == ["forward pass"] * 5
    assert all("measured_region" not in span.ext for span in named(run, "make batch"))
    root_calls = [span for span in run.trace.modules() if span.ext.get("type") == "Net"]
    assert len(root_calls) == 5 and all(inside(run, span, "forward pass") for span in root_calls)
    assert sum(span.measured for span in run.trace.spans.values()) == 1, "the window alone"


def test_statistics_are_those_of_the_elements(python_job):
    told, run = python_job
    found = {}
    for record in of_kind(run, "tensor_stats"):
        found.setdefault(record["label"], []).append(record)
        assert record["ext"]["source"] == "sdk" and record["span_id"] in run.trace.spans
    for name, truth in told["stats"].items():
        record, = found[name]
        for member in ("shape", "elements", "non_finite"):
            assert record[member] == truth[member], (name, record)
        for member in ("rms", "abs_max", "mean"):
            assert record[member] == pytest.approx(truth[member], rel=1e-13, abs=1e-300), (name, member)
    assert {name: found[name][0]["dtype"] for name in ("half", "bfloat16", "integers", "bool")} == {
        "half": "f16", "bfloat16": "bf16", "integers": "i64", "bool": "bool"}
    assert len(found["loss"]) == 5 and "complex" not in found
    assert found["really sparse"][0]["mean"] == pytest.approx(1 / 3)


def test_what_is_read_where_it_lies_runs_no_operator(python_job):
    _, run = python_job
    copies = named(run, "tensortap.stats")
    assert len(copies) == 3, "strided, sparse and complex: they are copied first"
    assert len(named(run, "tensortap.gradients")) == 1, "the sparse gradient"
    charged = {op["span_id"] for op in run.trace.ops}
    assert any(span.id in charged or any(inside(run, run.trace.spans[c], "tensortap.stats") for c in charged)
               for span in copies), "what a copy costs is in the trace"


def test_gradients_have_state_and_norm(python_job):
    told, run = python_job
    records = of_kind(run, "gradient")
    assert len({record["event_id"] for record in records}) == len(records) == 5 * 6 + 1
    last = {record["key"]: record for record in records if record["root"] == "Net"}
    assert list(last) == [name for name, _ in told["gradients"]]
    for name, norm in told["gradients"]:
        if norm is None:
            assert last[name]["state"] == "missing" and "norm" not in last[name]
        else:
            assert last[name]["state"] == "present" and last[name]["norm"] == pytest.approx(norm, rel=1e-12)
    embedding = records[-1]
    assert embedding["root"] == "embedding" and embedding["norm"] == pytest.approx(told["embedding"], rel=1e-6)


def test_a_label_names_the_tensor_that_operators_name(python_job):
    told, run = python_job
    labelled = [record for record in of_kind(run, "tensor") if record["ext"].get("source") == "sdk"]
    assert [record["label"] for record in labelled] == ["logits"] * 5
    made = {(op["op_name"], op.get("output")) for op in run.trace.ops}
    for record in labelled:
        assert record["shape"] == told["labels"]["logits"]
        assert record["requires_grad"] and record["category"] == "activation"
        assert {("aten::addmm", record["tensor_id"]), ("aten::linear", record["tensor_id"])} & made


def test_tags_and_identity_stand_in_meta(python_job):
    _, run = python_job
    tags = run.trace.meta["tags"]
    assert tags["early"] == "said before torch was there"
    assert tags["replaced"] == 'new \u00e9 "quoted"'
    assert tags["framework"].split(".")[0] in ("1", "2")
    assert "torch" in tags, "what the probe itself put there"
    assert run.trace.meta["comparison_identity"] == IDENTITY
    assert not any(record["kind"] == "note" for record in run.trace.records)


def test_the_crate_reads_what_the_job_said(python_job, candle_graph, tmp_path):
    _, run = python_job
    code, words = candle_graph(run.trace_path, tmp_path, "--require-valid")
    assert code == 0, words[-3000:]
    for said in ('"workload_id": "glyphs"', '"early": "said before torch was there"'):
        assert said in words


def test_it_passes_the_schemas(python_job):
    jsonschema = pytest.importorskip("jsonschema")
    _, run = python_job
    for name in ("trace-10", "ext"):
        with open(os.path.join(support.REPOSITORY, "proto", "schemas", name + ".schema.json"), encoding="utf-8") as stream:
            schema = jsonschema.Draft202012Validator(json.load(stream))
        for record in run.trace.records:
            if record["kind"] not in ("meta", "tensor_stats", "gradient") and record.get("ext", {}).get("source") != "sdk" \
                    and record.get("ext", {}).get("scope") != "user_scope":
                continue  # other tests' business
            error = jsonschema.exceptions.best_match(schema.iter_errors(record))
            assert error is None, (record, error and error.message)


@pytest.mark.parametrize("how", ["kill", "exit"])
def test_a_job_that_dies_keeps_its_tags(how, torch, daemon):
    result = daemon.run(torch.py("sdk_train", "--kill-step", 2, "--how", how), env={"PYTHONPATH": PACKAGE})
    assert result.returncode != 0
    run = daemon.only_run()
    assert run.state == "failed"
    assert run.trace.meta["tags"]["early"] and run.trace.meta["tags"]["replaced"].startswith("new")
    assert run.trace.meta["comparison_identity"] == IDENTITY
    assert len(run.trace.steps()) == 3


def test_a_job_without_a_probe_is_told_nothing_and_learns_the_same(torch):
    result = support.plain(torch.py("sdk_train"), env={"PYTHONPATH": PACKAGE})
    assert result.returncode == 0, result.stderr
    told = json.loads(result.stdout)
    assert not told["capturing"] and not any(told["recorded"])


def test_a_cpp_job(torch, daemon):
    program = os.path.join(support.BUILD, "bin", "sdkjob-" + torch.version)
    result = daemon.run([program])
    assert result.returncode == 0, result.stderr
    lines = result.stdout.decode().split("\n")
    assert lines[:2] == ["capturing 1", "tag 1"]
    one = ["unset 1", "label 1", "stats 1", "strided 0", "undefined 0", "scalar 1", "gradient 1"]
    assert lines[2:9] == one and len(lines) == 2 + 3 * 7 + 1
    run = daemon.only_run()
    assert run.state == "complete"
    assert run.trace.meta["tags"]["language"] == "C++"
    assert [step.ext["step_number"] for step in run.trace.steps()] == [0, 1, 2]
    assert [record["mean"] for record in of_kind(run, "tensor_stats") if record["label"] == "x"] == [1.0, 2.0, 3.0]
    states = [(record["key"], record["state"]) for record in of_kind(run, "gradient")]
    assert states[:2] == [("weight", "missing"), ("bias", "present")]
    handed, = named(run, "handed over")
    assert handed.end_ext == {}, "ended on the other thread, not by the window's end"
    assert len(named(run, "load")) == 3


def test_a_c_program_that_loads_torch_itself(torch, daemon):
    with open("/proc/self/maps") as stream:
        assert "libtorch" not in stream.read()
    path = subprocess.run(
        [torch.python, "-c", "import torch, os, glob; d = os.path.dirname(torch.__file__);"
         "print([p for p in glob.glob(d + '/lib/libtorch_cpu.so*') + glob.glob('/usr/lib/*/libtorch_cpu.so*')][0])"],
        stdout=subprocess.PIPE, check=True, env=support.clean_environment()).stdout.decode().strip()
    result = daemon.run([os.path.join(support.BUILD, "bin", "sdkjob-c"), path])
    assert result.returncode == 0, result.stderr
    run = daemon.only_run()
    assert [step.name for step in run.trace.steps()] == ["step-%012d" % 41]
    host, device = of_kind(run, "tensor_stats")
    assert (host["mean"], host["abs_max"], host["dtype"], host["elements"]) == (0.5, 2.5, "f64", 3)
    assert (device["rms"], device["dtype"]) == (2.0, "f16")
    assert [(g["key"], g["state"], g.get("norm")) for g in of_kind(run, "gradient")] == [
        ("w", "present", 0.25), ("b", "zero", 0.0)]
    assert run.trace.meta["tags"]["language"] == "C"


def test_a_forked_workers_run_has_the_tags_too(torch, daemon):
    code = """
import os, torch, tensortap
while not tensortap.is_capturing(): pass
tensortap.tag("family", "one")
torch.ones(1)
if os.fork() == 0:
    torch.ones(2)
    with tensortap.range("child's"): torch.ones(3)
    raise SystemExit(0)
os.wait()
"""
    result = daemon.run([torch.python, "-c", code], env={"PYTHONPATH": PACKAGE})
    assert result.returncode == 0, result.stderr
    runs = daemon.finished_runs()
    assert [run.trace.meta["tags"]["family"] for run in runs] == ["one"] * 2
    worker, = [run for run in runs if run.is_worker]
    assert len(named(worker, "child's")) == 1


def test_a_range_does_not_break_a_compiled_graph(torch, daemon):
    if torch.label == "debian":
        pytest.skip("torch 1.13 has no torch.compile")
    code = """
import torch, tensortap
def f(x):
    with tensortap.range("inner"):
        x = x + 1
    with tensortap.measured("m"), tensortap.step():
        x = x * 2
    tensortap.label(x, "x"); tensortap.stats(x, "x"); tensortap.tag("a", "b")
    return x + 5 if tensortap.is_capturing() else x
while not tensortap.is_capturing(): pass
compiled = torch.compile(f, backend="eager", fullgraph=True)
for _ in range(3):
    with tensortap.range("outer"):
        assert compiled(torch.ones(3)).tolist() == [4.0] * 3
assert f(torch.ones(3)).tolist() == [9.0] * 3
"""
    result = daemon.run([torch.python, "-c", code], env={"PYTHONPATH": PACKAGE})
    assert result.returncode == 0, result.stderr.decode()
    run = daemon.only_run()
    assert len(named(run, "outer")) == 3
    assert len(named(run, "inner")) == 1, "the compiled calls leave it out"
