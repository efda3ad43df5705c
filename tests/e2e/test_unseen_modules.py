"""Modules that nobody is seen to call: their parameters, buffers and settings are in the trace all the same. C++ classes whose
forward is in a header or the user's own, in Python what is used through its weights or not at all."""
import json

import pytest

import support
from test_module_facts import named_tensors

STEPS = 3

# A Python net: out_proj is used through its weights, `frozen` and `spare` are not used, `bare` holds nothing.
SCRIPT = """
import json, torch
torch.manual_seed(3)
torch.set_num_threads(1)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
        self.frozen = torch.nn.Sequential(torch.nn.Conv1d(8, 4, 3, stride=2, groups=2), torch.nn.BatchNorm1d(4, eps=1e-3))
        self.spare = torch.nn.Linear(8, 3, bias=False)
        self.bare = torch.nn.Dropout(0.375)
        for parameter in self.frozen.parameters():
            parameter.requires_grad_(False)
    def forward(self, x):
        return self.attention(x, x, x)[0]
net = Net()
for _ in range(3):
    net(torch.randn(2, 4, 8)).square().mean().backward()
print(json.dumps({"parameters": {n: [list(p.shape), p.requires_grad] for n, p in net.named_parameters()},
                  "buffers": {n: list(b.shape) for n, b in net.named_buffers()}}))
"""


def facts_of(trace):
    """{path of the module: ext of its tensor that tells its facts}"""
    found = {}
    for record in trace.records:
        if record["kind"] == "tensor" and "config" in record.get("ext", {}):
            path = record["label"].rpartition(".")[0]
            assert path not in found, "told twice: " + path
            found[path] = record["ext"]
    return found


def product(shape):
    total = 1
    for size in shape:
        total *= size
    return total


def check_tensors(trace, truth):
    parameters, buffers = named_tensors(trace, "parameter"), named_tensors(trace, "buffer")
    assert {r["label"]: [r["shape"], r["requires_grad"]] for r in parameters} == truth["parameters"]
    assert {r["label"]: r["shape"] for r in buffers} == truth["buffers"]
    assert len(parameters) == len(truth["parameters"]) and len(buffers) == len(truth["buffers"]), "each is told once"
    assert (sum(product(r["shape"]) for r in {r["tensor_id"]: r for r in parameters}.values())
            == sum(product(shape) for shape, _ in truth["parameters"].values()))


def check_facts(trace, expected, called):
    facts = facts_of(trace)
    for path, (cls, exact, settings) in expected.items():
        assert (facts[path]["class"], facts[path]["exact"]) == (cls, exact), path
        found = facts[path]["config"]
        assert {key: found.get(key, "absent") for key in settings} == settings, path
    numbers = {span.name: span.ext["module"] for span in trace.modules() if "module" in span.ext}  # an inferred one has none
    assert called <= set(numbers)
    for path, ext in facts.items():
        if path in numbers:
            assert ext["module"] == numbers[path], path
    assert len({ext["module"] for ext in facts.values()}) == len(facts)


@pytest.fixture
def python_told(torch, daemon):
    result = daemon.run([torch.python, "-c", SCRIPT])
    assert result.returncode == 0, result.stderr.decode()
    return json.loads(result.stdout), daemon.only_run().trace


def test_python_settings_of_modules_that_are_never_called(python_told):
    truth, trace = python_told
    check_tensors(trace, truth)
    out_proj = "torch.nn.modules.linear.NonDynamicallyQuantizableLinear"
    check_facts(trace, {
        "attention.out_proj": (out_proj, True, {"in_features": 8, "out_features": 8, "weight": True, "bias": True}),
        "frozen.0": ("torch.nn.modules.conv.Conv1d", True, {"kernel_size": [3], "stride": [2], "groups": 2}),
        "frozen.1": ("torch.nn.modules.batchnorm.BatchNorm1d", True,
                     {"num_features": 4, "eps": 1e-3, "running_mean": True, "track_running_stats": True}),
        "spare": ("torch.nn.modules.linear.Linear", True, {"in_features": 8, "out_features": 3, "bias": False}),
    }, {"attention"})
    assert "Net" in {span.name for span in trace.modules()} and "" not in facts_of(trace), "its call has told the root's"


@pytest.fixture
def cpp_told(torch, daemon):
    result = daemon.run(torch.cpp("evidence", "--steps", STEPS),
                        env={"TENSORTAP_GRADIENTS": "1", "TENSORTAP_STATS": "conv,body.*,attention"})
    assert result.returncode == 0, result.stderr.decode()
    run = daemon.only_run()
    return json.loads(result.stdout), run


def test_cpp_parameters_and_buffers_of_every_module(cpp_told):
    truth, run = cpp_told
    check_tensors(run.trace, truth)
    assert {"norm.running_mean", "scale.offset"} <= {r["label"] for r in named_tensors(run.trace, "buffer")}


def test_cpp_settings_of_modules_whose_calls_are_not_seen(cpp_told):
    _, run = cpp_told
    check_facts(run.trace, {
        "norm": ("torch::nn::BatchNorm2dImpl", True,
                 {"num_features": 4, "eps": 1e-4, "momentum": 0.25, "affine": True, "track_running_stats": True}),
        "unused": ("torch::nn::LinearImpl", True, {"in_features": 8, "out_features": 3, "bias": True}),
        "frozen": ("torch::nn::LinearImpl", True, {"in_features": 8, "out_features": 2}),
        "attention.out_proj": ("torch::nn::LinearImpl", True, {"in_features": 8, "out_features": 8}),
    }, {"conv", "body.0", "body.2", "attention"})
    scale = facts_of(run.trace)["scale"]
    assert scale["class"].endswith("::ScaleImpl") and scale["exact"] is False and scale["config"] == {}


def test_cpp_gradients_without_an_optimizer_are_torchs_own(cpp_told):
    truth, run = cpp_told
    found = {}
    for record in run.trace.records:
        if record["kind"] == "gradient":
            found.setdefault(record["root"], {})[record["key"]] = record
    assert sorted(found) == ["model@%d" % step for step in range(STEPS)]
    wanted = {name for name, (_, requires_grad) in truth["parameters"].items() if requires_grad}
    for step, norms in enumerate(truth["gradients"]):
        records = found["model@%d" % step]
        assert set(records) == wanted
        for name in wanted:
            if norms[name] is None:
                assert records[name]["state"] == "missing", name
            elif norms[name] == 0:
                assert records[name]["state"] == "zero", name
            else:
                assert records[name]["state"] == "present"
                assert records[name]["norm"] == pytest.approx(norms[name], rel=1e-6), name
    assert run.trace.meta["capture_contract"]["gradients"] == "complete", run.info["diagnostics"]


def test_cpp_statistics_of_asked_for_modules(cpp_told):
    _, run = cpp_told
    labels, outputs = {}, {span.id: span.end_ext.get("output") for span in run.trace.modules()}
    for record in run.trace.records:
        if record["kind"] == "tensor_stats" and record["ext"]["source"] != "mask":
            labels[record["label"]] = labels.get(record["label"], 0) + 1
            span = run.trace.spans[record["span_id"]]
            assert record["label"].startswith(span.name) and record["ext"]["source"] == "module_output"
            output = outputs[span.id]
            if output["kind"] == "tensor":
                assert record["shape"] == output["shape"] and record["ext"]["tensor"] == output["id"]
            assert record["abs_max"] >= record["rms"] > 0 and record["non_finite"] == 0
    assert labels == {name: STEPS for name in ("conv", "body.0", "body.1", "body.2", "attention.0", "attention.1")}


def test_cpp_masks_of_asked_for_attention(cpp_told):
    _, run = cpp_told
    found = [(r["label"], r["dtype"], r["shape"], r["ext"]["has_nan_or_posinf"], r["ext"]["blocked_any"],
              r["ext"]["blocked_equals_strict_upper"])
             for r in run.trace.records if r["kind"] == "tensor_stats" and r["ext"]["source"] == "mask"]
    assert found == [("attention.attn_mask", "bool", [2, 2], False, True, True)] * STEPS


def test_cpp_job_computes_the_same_bit_by_bit(torch, cpp_told, daemon):
    argv = torch.cpp("evidence", "--steps", STEPS)
    alone = support.plain(argv)
    asked = daemon.run(argv, env={"TENSORTAP_GRADIENTS": "1", "TENSORTAP_STATS": "*"})
    assert (alone.returncode, alone.stdout, alone.stderr) == (asked.returncode, asked.stdout, asked.stderr)
