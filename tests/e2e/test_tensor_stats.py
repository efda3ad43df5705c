"""Statistics of what asked-for modules return, and of the masks they are given: torch's own figures, in trace/10's form."""
import json
import subprocess

import pytest

import support

# Hooks of torch's own in a job of the test's: they say what each call of the modules returned.
SCRIPT = """
import json, torch
torch.manual_seed(5)
torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 3))
class Pair(torch.nn.Module):
    def forward(self, x):
        return {"double": x.double() * 3, "rest": (x[:, :0], torch.tensor([1.0, float("inf")])), "half": x.bfloat16()}
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.pair = net, Pair()
    def forward(self, x):
        return self.pair(self.body(x))
model, seen = Net(), []
def note(name):
    def hook(module, args, output):
        if not isinstance(output, torch.Tensor):
            return
        o = output.detach().double()
        seen.append([name, list(o.shape), o.square().mean().sqrt().item(), o.abs().max().item(), o.mean().item()])
    return hook
with torch.no_grad():
    x = torch.randn(5, 4)
    out = model(x)
    y = net[0](x)
    for name, value in (("body.0", net[0](x)), ("body.2", net(x)), ("pair.double", out["double"]), ("pair.half", out["half"])):
        note(name)(None, None, value)
print(json.dumps(seen))
"""


@pytest.fixture(scope="module")
def told(torch):
    with support.Daemon() as daemon:
        result = daemon.run([torch.python, "-c", SCRIPT], env={"TENSORTAP_STATS": "body.0,*.2,pair"})
        assert result.returncode == 0, result.stderr.decode()
        run = daemon.only_run()
        code = subprocess.run([support.TRACE_ANALYZE, "validate", run.trace_path], stdout=subprocess.DEVNULL).returncode
        return json.loads(result.stdout), run.trace, code


def stats(trace):
    found = {}
    for record in trace.records:
        if record["kind"] == "tensor_stats":
            found.setdefault(record["label"], record)
    return found


def test_figures_are_torchs_own(told):
    truth, trace, code = told
    found = stats(trace)
    for label, shape, rms, greatest, mean in truth:
        record = found[label]
        assert record["shape"] == shape and record["non_finite"] == 0, label
        assert record["rms"] == pytest.approx(rms, rel=1e-6)
        assert record["abs_max"] == pytest.approx(greatest, rel=1e-6)
        assert record["mean"] == pytest.approx(mean, rel=1e-6, abs=1e-12)
    assert found["pair.half"]["dtype"] == "bf16" and found["pair.double"]["dtype"] == "f64"
    assert code == 0


def test_nothing_else_is_read_and_the_odd_ones_follow_the_rules(told):
    _, trace, _ = told
    found = stats(trace)
    assert set(found) == {"body.0", "body.2", "pair.double", "pair.rest.0", "pair.rest.1", "pair.half"}
    empty = found["pair.rest.0"]
    assert (empty["elements"], empty["rms"], empty["abs_max"], empty["mean"]) == (0, 0, 0, 0)
    infinite = found["pair.rest.1"]
    assert (infinite["non_finite"], infinite["rms"], infinite["abs_max"], infinite["mean"]) == (1, 0, 0, 0)


def test_they_are_charged_to_the_modules_call(told):
    _, trace, _ = told
    for label, record in stats(trace).items():
        span = trace.spans[record["span_id"]]
        assert span.kind == "module" and (label == span.name or label.startswith(span.name + ".")), label


def test_nobody_asked_nothing_is_read(torch):
    with support.Daemon() as daemon:
        daemon.run([torch.python, "-c", SCRIPT])
        assert not stats(daemon.only_run().trace)


MASKS = """
import torch
torch.manual_seed(5)
torch.set_num_threads(1)
attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.layer = attention, layer
    def forward(self, x, *masks, **named):
        self.attention(x, x, x, *masks)
        return self.layer(x, **named)
net, x = Net(), torch.randn(2, 3, 8)
causal = torch.ones(3, 3, dtype=torch.bool).triu(1)
padding = torch.tensor([[False, False, True], [False, False, False]])
floats = torch.zeros(3, 3).masked_fill(causal, float("-inf"))
odd = floats.clone()
odd[2, 0] = float("nan")
net(x, None, False, causal, src_mask=floats)
net(x, padding, False, torch.zeros(3, 3, dtype=torch.bool), src_mask=odd, src_key_padding_mask=torch.zeros(2, 3))
net(x, None, False, causal.expand(4, 3, 3), src_mask=causal.t())
"""


def test_masks_of_asked_for_attention_are_summarized(torch):
    with support.Daemon() as daemon:
        result = daemon.run([torch.python, "-c", MASKS], env={"TENSORTAP_STATS": "attention,layer"})
        assert result.returncode == 0, result.stderr.decode()
        run = daemon.only_run()
        trace, diagnostics = run.trace, run.info["diagnostics"]
        code = subprocess.run([support.TRACE_ANALYZE, "validate", run.trace_path], stdout=subprocess.DEVNULL).returncode
    found = {}
    for record in trace.records:
        if record["kind"] == "tensor_stats" and record["ext"]["source"] == "mask":
            ext = record["ext"]
            span = trace.spans[record["span_id"]]
            assert span.kind == "module" and record["label"].rpartition(".")[0] == span.name
            found.setdefault(record["label"], []).append(
                (record["dtype"], record["shape"], ext["has_nan_or_posinf"], ext["blocked_any"],
                 ext["blocked_equals_strict_upper"]))
    assert found == {
        "attention.attn_mask": [("bool", [3, 3], False, True, True), ("bool", [3, 3], False, False, False)],
        "attention.key_padding_mask": [("bool", [2, 3], False, True, False)],
        "layer.src_mask": [("f32", [3, 3], False, True, True), ("f32", [3, 3], True, True, True)],
        "layer.src_key_padding_mask": [("f32", [2, 3], False, False, False)],
    }
    # The expanded and the transposed one stand in memory otherwise than their indices say.
    assert diagnostics["values_not_recorded"] == 2
    assert code == 0


def test_masks_nobody_asked_for_are_not_read(torch):
    with support.Daemon() as daemon:
        daemon.run([torch.python, "-c", MASKS], env={"TENSORTAP_STATS": "nothing"})
        run = daemon.only_run()
        assert not stats(run.trace) and "values_not_recorded" not in run.info["diagnostics"]
