"""What a trace says of a model is what the model is: modules, calls, shapes and steps, worked out by hand.

The truth is each job's `--describe`: formulas written down beside the model, not a run of it.
"""
import collections
import json
import subprocess

import pytest

import support

PYTHON_JOBS = {
    "cnn_train": ("--steps", 12),
    "transformer_train": ("--steps", 6),
    "infer_loop": ("--steps", 12),
    "killed": ("--kill-step", -1),
}
CPP_JOBS = {"mlp": ("--steps", 12), "cnn": ("--steps", 8), "infer": ("--steps", 12)}


@pytest.fixture(params=sorted(PYTHON_JOBS))
def python_job(request, torch, traced):
    argv = torch.py(request.param, *PYTHON_JOBS[request.param])
    result, run, _ = traced(argv)
    assert result.returncode == 0, result.stderr.decode()
    return support.describe(argv), run


@pytest.fixture(params=sorted(CPP_JOBS))
def cpp_job(request, torch, traced):
    argv = torch.cpp(request.param, *CPP_JOBS[request.param])
    result, run, _ = traced(argv)
    assert result.returncode == 0, result.stderr.decode()
    return support.describe(argv), run


def class_name(text):
    """LinearImpl of torch::nn::LinearImpl and Linear of torch.nn.modules.linear.Linear are both Linear."""
    name = text.replace("::", ".").split(".")[-1]
    return name[:-4] if name.endswith("Impl") else name


def calls_by_module(trace, root_type):
    """{path: (class, calls)}; the root module, whose path is empty, stands under its class's name or ''."""
    found = collections.defaultdict(list)
    for span in trace.modules():
        cls = class_name(span.ext["type"])
        path = "" if cls == root_type and "." not in span.name and span.name in ("", root_type) else span.name
        found[path].append(cls)
    return {path: (classes[0], len(classes)) for path, classes in found.items() if len(set(classes)) == 1}


def test_python_modules_have_the_models_paths_classes_and_call_counts(python_job):
    truth, run = python_job
    expected = {m["path"]: (m["type"], m["calls"]) for m in truth["modules"]}
    assert calls_by_module(run.trace, expected[""][0]) == expected


def test_output_shapes_of_python_modules_are_the_formulas(python_job):
    truth, run = python_job
    expected = {m["path"]: m["output"] for m in truth["modules"]}
    checked = collections.Counter()
    for span in run.trace.modules():
        if span.name not in expected or expected[span.name] is None:
            continue
        ops = run.trace.top_ops_inside(span)
        assert ops, "module call without operators: " + span.name
        if span.name == "pool":  # called for two blocks: the first call has the larger picture
            batch, width, side, _ = expected["pool"]
            shapes = ([batch, width, side, side], [batch, width // 2, side * 2, side * 2])
            assert ops[-1]["shape"] in shapes
        else:
            assert ops[-1]["shape"] == expected[span.name], (span.name, ops[-1])
        checked[span.name] += 1
    assert len(checked) >= len(expected) - 1, "only %s were found" % sorted(checked)


def test_modules_nest_by_their_paths(python_job):
    _, run = python_job
    trace = run.trace
    for span in trace.modules():
        if "." not in span.name:
            continue
        around = [a.name for a in trace.ancestors(span.parent_id) if a.kind == "module"]
        parents = [name for name in around if name and span.name.startswith(name + ".")]
        containers = {"blocks", "encoder.layers"}  # a ModuleList has no call of its own
        expected = span.name.rsplit(".", 1)[0]
        while expected in containers:
            expected = expected.rsplit(".", 1)[0] if "." in expected else ""
        assert not expected or parents[:1] == [expected], (span.name, around)


def test_steps_are_the_loops(python_job):
    truth, run = python_job
    check_steps(run.trace, truth["steps"], trains=truth["job"] != "infer_loop")


def test_cpp_steps_are_the_loops(cpp_job):
    truth, run = cpp_job
    check_steps(run.trace, truth["steps"], trains=truth["job"] != "infer")


def check_steps(trace, count, trains):
    steps = trace.steps()
    assert [s.ext["step_number"] for s in steps[:count]] == list(range(count))
    assert [s.name for s in steps[:count]] == ["step-%012d" % n for n in range(count)]
    # What the program does after its last iteration (the loop's last `item()`) may open one more.
    assert len(steps) <= count + 1, [s.name for s in steps]
    for step in steps[:count]:
        phases = {span.step for span in trace.inside(step)} - {None}
        assert "forward" in phases, (step.name, phases)
        assert ({"backward", "optimizer"} <= phases) == trains, (step.name, phases)
    for step in steps[count:]:
        assert not {span.step for span in trace.inside(step)} & {"backward", "optimizer"}, step.name
    for before, after in zip(steps, steps[1:]):
        assert before.end <= after.start, "steps overlap: %s, %s" % (before.name, after.name)


# Module classes of torch::nn whose forward is a template in torch's headers: the compiler puts it into the program
# itself, no call crosses a library's border, and the probe says that it does not see them.
INLINED = {"BatchNorm2d"}


def test_cpp_modules_of_torch_nn_have_the_models_paths_and_call_counts(cpp_job):
    truth, run = cpp_job
    known = {m["path"]: (class_name(m["type"]), m["calls"]) for m in truth["modules"] if "torch::nn" in m["type"]}
    expected = {path: call for path, call in known.items() if call[0] not in INLINED}
    found = calls_by_module(run.trace, class_name(truth["root"]))
    assert {path: call for path, call in found.items() if path in known} == expected


def test_layers_parameters_and_batches_have_the_models_shapes_in_the_operators(torch, traced):
    """conv1 of the drawn-digits CNN: input, weight and bias as its formula says, in every one of its calls."""
    argv = torch.py("cnn_train", *PYTHON_JOBS["cnn_train"])
    _, run, _ = traced(argv)
    calls = 0
    for span in run.trace.modules():
        if span.name == "block1.conv":
            (conv,) = [op for op in run.trace.top_ops_inside(span) if op["op_name"] == "aten::conv2d"]
            tensors = [arg for arg in conv["ext"]["args"] if isinstance(arg, dict) and "shape" in arg]
            assert [t["shape"] for t in tensors] == [[32, 1, 16, 16], [8, 1, 3, 3], [8]]
            assert all(t["dtype"] == "f32" for t in tensors) and conv["dtype"] == "f32" and conv["device"] == "cpu"
            assert conv["shape"] == [32, 8, 16, 16]
            calls += 1
    assert calls == 12


def test_the_report_names_the_models_modules_and_the_loops_steps(torch, traced):
    """What the quickstart prints: the text of trace-analyze, and its JSON, for the real training run."""
    argv = torch.py("cnn_train", *PYTHON_JOBS["cnn_train"])
    _, run, _ = traced(argv)
    text = subprocess.run([support.TRACE_ANALYZE, run.trace_path], stdout=subprocess.PIPE, check=True).stdout.decode()
    for words in ("block1.conv", "block2.norm", "head", "aten::convolution_backward", "12 steps"):
        assert words in text, "not in the report: %s\n%s" % (words, text)
    assert "\x1b" not in text, "colours although this is no terminal"
    answer = subprocess.run([support.TRACE_ANALYZE, "--json", run.trace_path], stdout=subprocess.PIPE, check=True)
    report = json.loads(answer.stdout)
    assert report == run.report, "live and offline analysis differ"

    truth = support.describe(argv)
    rows = {row["name"]: (row["type"], row["calls"]) for row in report["timing"]["modules"]["rows"]}
    expected = {m["path"] or m["type"]: (m["type"], m["calls"]) for m in truth["modules"]}
    assert rows == expected
    assert report["timing"]["steps"]["complete"]["value"] == 12
    counted = {row["name"]: [row["calls"], row["top_level"]] for row in report["counts"]["by_operator"]["rows"]}
    assert {name: calls for name, calls in counted.items() if name.startswith("aten::")} == run.trace.counts()
