"""What a trace says of modules, their parameters and their calls is what torch itself says (the job prints that, --truth)."""
import json
import subprocess

import pytest

import support

STEPS = 3
JOB = ("evidence", "--steps", STEPS)


@pytest.fixture
def told(torch, traced):
    """(what torch said, the trace)"""
    result, run, _ = traced(torch.py(*JOB, "--truth"))
    assert result.returncode == 0, result.stderr.decode()
    return json.loads(result.stdout.decode().splitlines()[0]), run.trace


def first_calls(trace):
    return {span.name or span.ext["type"]: span for span in trace.modules() if span.ext["call_index"] == 0}


def named_tensors(trace, source):
    return [r for r in trace.records if r["kind"] == "tensor" and r.get("ext", {}).get("source") == source]


def product(shape):
    total = 1
    for size in shape:
        total *= size
    return total


def test_classes_and_training_flags_are_those_of_named_modules(told):
    truth, trace = told
    for name, span in first_calls(trace).items():
        path = "" if name == "Everything" else name
        assert [span.ext["class"], span.ext["training"]] == truth["modules"][path], name
    assert {"Everything", "embed", "conv", "blocks.1.attention", "picky", "head"} <= set(first_calls(trace))


def test_a_module_has_one_number_for_all_its_calls_and_tells_its_facts_once(told):
    _, trace = told
    numbers, facts = {}, {}
    for span in trace.modules():
        numbers.setdefault(span.name, set()).add(span.ext["module"])
        facts[span.name] = facts.get(span.name, 0) + ("config" in span.ext)
        assert ("config" in span.ext) == (span.ext["call_index"] == 0)
    assert all(len(found) == 1 for found in numbers.values()), numbers
    assert len({n for found in numbers.values() for n in found}) == len(numbers)
    assert set(facts.values()) == {1}


def test_settings_are_the_models(told):
    _, trace = told
    spans = first_calls(trace)
    expected = {
        "embed": {"num_embeddings": 11, "embedding_dim": 8, "padding_idx": 0, "max_norm": None, "weight": True},
        "conv": {"kernel_size": [3], "stride": [2], "padding": [1], "dilation": [1], "groups": 2, "in_channels": 8,
                 "out_channels": 8, "bias": False, "weight": True, "transposed": False},
        "blocks.0.norm": {"normalized_shape": [8], "eps": 1e-6, "elementwise_affine": True, "bias": True},
        "blocks.0.attention": {"embed_dim": 8, "num_heads": 2, "dropout": 0.25, "batch_first": True, "kdim": 8, "vdim": 8,
                               "add_zero_attn": False, "in_proj_bias": True},
        "blocks.0.act": {"approximate": "tanh"},
        "drop": {"p": 0.125, "inplace": False},
        "head": {"in_features": 8, "out_features": 11, "bias": False},
    }
    for name, settings in expected.items():
        found = spans[name].ext["config"]
        assert {key: found.get(key, "absent") for key in settings} == settings, name
        assert spans[name].ext["exact"] is True, name
    for name in ("Everything", "blocks.0", "picky"):
        assert spans[name].ext["exact"] is False, name


def test_parameters_and_buffers_are_the_models_also_of_modules_never_called(told):
    truth, trace = told
    parameters = {r["label"]: [r["shape"], r["requires_grad"]] for r in named_tensors(trace, "parameter")}
    parameters_of_torch = dict(truth["parameters"])
    if "head.weight" not in parameters_of_torch:  # 1.13 names a shared one once
        parameters_of_torch["head.weight"] = parameters_of_torch["embed.weight"]
    assert parameters == parameters_of_torch
    assert "unused.weight" in parameters and "unused" not in first_calls(trace)
    assert {r["label"]: r["shape"] for r in named_tensors(trace, "buffer")} == truth["buffers"]
    assert all(r["dtype"] == "f32" and r["device"] == "cpu" for r in named_tensors(trace, "parameter"))
    by_id = {r["tensor_id"]: r for r in named_tensors(trace, "parameter")}
    assert sum(product(r["shape"]) for r in by_id.values()) == truth["elements"]
    labels = [r["label"] for r in named_tensors(trace, "parameter")]
    assert len(labels) == len(set(labels)), "a capture tells each parameter once"


def test_a_tied_weight_is_one_tensor_and_operators_use_the_ids(told):
    _, trace = told
    ids = {r["label"]: r["tensor_id"] for r in named_tensors(trace, "parameter")}
    assert ids["embed.weight"] == ids["head.weight"]
    (embedding, *_) = [op for op in trace.ops if op["op_name"] == "aten::embedding"]
    assert embedding["inputs"][0] == ids["embed.weight"]
    norm = [op for op in trace.ops if op["op_name"] == "aten::native_layer_norm"][0]
    assert norm["inputs"][1:3] == [ids["blocks.0.norm.weight"], ids["blocks.0.norm.bias"]]


def test_owner_numbers_of_parameters_are_those_of_the_spans(told):
    _, trace = told
    spans = first_calls(trace)
    for record in named_tensors(trace, "parameter") + named_tensors(trace, "buffer"):
        owner = record["label"].rpartition(".")[0] or "Everything"
        if owner in spans:
            assert record["ext"]["module"] == spans[owner].ext["module"], record["label"]


def test_arguments_and_results_are_nested_as_the_call_was(told):
    _, trace = told
    spans = first_calls(trace)
    block = spans["blocks.0"]
    (argument,) = block.ext["args"]
    assert argument["kind"] == "mapping" and argument["type"] == "dict"
    (item,) = argument["items"]
    assert (item["key"], item["key_type"]) == ("x", "str")
    x = item["value"]
    assert (x["kind"], x["shape"], x["dtype"], x["device"], x["requires_grad"]) == ("tensor", [4, 3, 8], "f32", "cpu", True)
    assert block.ext["kwargs"] == {"residual": {"kind": "scalar", "type": "bool"}}
    assert spans["blocks.0.norm"].ext["args"][0]["id"] == x["id"], "the same tensor has the same id"
    output = block.end_ext["output"]
    assert [i["key"] for i in output["items"]] == ["x", "extra"]
    assert output["items"][1]["value"] == {
        "kind": "tuple", "items": [{"kind": "scalar", "type": "int"}, {"kind": "none"}]}
    attention = spans["blocks.0.attention"]
    assert len({a["id"] for a in attention.ext["args"]}) == 1 and len(attention.ext["args"]) == 3
    assert attention.end_ext["output"]["kind"] == "tuple"
    tokens = spans["Everything"].ext["args"][0]
    assert (tokens["shape"], tokens["dtype"], tokens["requires_grad"]) == ([4, 6], "i64", False)
    assert spans["Everything"].end_ext["output"]["shape"] == [4, 3, 11]


def test_a_call_that_raised_says_so_and_only_that_one(told):
    _, trace = told
    failed = [span.name for span in trace.modules() if span.end_ext.get("failed")]
    assert failed == ["picky"] * STEPS
    assert all("output" in span.end_ext for span in trace.modules() if span.name != "picky")


def test_the_modes_at_the_roots_call_are_told(torch, traced, told):
    _, trace = told
    roots = [span for span in trace.modules() if span.name == "Everything"]
    assert [span.ext["grad_mode"] for span in roots] == [True] * STEPS
    _, run, _ = traced(torch.py("infer_loop", "--steps", 12))
    outer = [span for span in run.trace.modules() if "grad_mode" in span.ext]
    assert outer and all(not span.ext["grad_mode"] for span in outer)
    assert all(span.ext["training"] is False for span in run.trace.modules())


def test_every_node_of_the_backward_pass_leads_to_its_forward_operator(told):
    """Of the operators with the node's sequence number on the node's forward thread that began before the node, the last."""
    _, trace = told
    names = {
        "NllLossBackward0": "aten::nll_loss_forward", "LogSoftmaxBackward0": "aten::_log_softmax", "MmBackward0": "aten::mm",
        "AddmmBackward0": "aten::addmm", "BmmBackward0": "aten::bmm", "TBackward0": "aten::t", "GeluBackward0": "aten::gelu",
        "TransposeBackward0": "aten::transpose", "ViewBackward0": "aten::view", "UnsafeViewBackward0": "aten::_unsafe_view",
        "NativeLayerNormBackward0": "aten::native_layer_norm", "ConvolutionBackward0": "aten::convolution",
        "EmbeddingBackward0": "aten::embedding", "CloneBackward0": "aten::clone", "SumBackward0": "aten::sum",
        "SoftmaxBackward0": "aten::_softmax", "SplitBackward0": "aten::split",
    }
    by_seq = {}
    for op in trace.ops:
        if "seq" in op["ext"]:
            by_seq.setdefault((op["ext"]["thread"], op["ext"]["seq"]), []).append(op)
    joined = set()
    for span in trace.spans.values():
        if span.ext.get("scope") != "backward_function" or "seq" not in span.ext or "forward_thread" not in span.ext:
            continue
        before = [op for op in by_seq.get((span.ext["forward_thread"], span.ext["seq"]), ()) if op["timestamp_ns"] < span.start]
        if span.name in names:
            assert before, span.name
            assert max(before, key=lambda op: op["timestamp_ns"])["op_name"] == names[span.name], span.name
            joined.add(span.name)
    assert {"MmBackward0", "GeluBackward0", "NativeLayerNormBackward0", "ConvolutionBackward0", "EmbeddingBackward0"} <= joined


def test_the_job_computes_the_same_bit_by_bit_and_prints_nothing_more(torch, traced):
    argv = torch.py(*JOB)
    result, _, _ = traced(argv)
    alone = support.plain(argv)
    assert (result.returncode, result.stdout, result.stderr) == (alone.returncode, alone.stdout, alone.stderr)


def test_no_operator_is_ours(torch, traced, tmp_path):
    argv = torch.py(*JOB)
    _, run, _ = traced(argv)
    assert run.trace.counts() == support.profiler_counts(argv, tmp_path)


def test_the_crate_and_our_own_judge_find_it_valid(torch, traced, candle_graph, tmp_path):
    _, run, _ = traced(torch.py(*JOB))
    code, words = candle_graph(run.trace_path, tmp_path, "--require-valid")
    assert code == 0, words[-3000:]
    assert subprocess.run([support.TRACE_ANALYZE, "validate", run.trace_path], stdout=subprocess.DEVNULL).returncode == 0


# C++: ttjob's jobs.

CPP_SETTINGS = {
    "mlp": {"Linear": {"in_features", "out_features", "bias"}},
    "cnn": {"Conv2d": {"in_channels", "out_channels", "kernel_size", "stride", "padding", "groups", "bias"},
            "Linear": {"in_features", "out_features", "bias"}},
}


@pytest.fixture(params=sorted(CPP_SETTINGS))
def cpp_told(request, torch, traced):
    result, run, _ = traced(torch.cpp(request.param, "--steps", 12 if request.param == "mlp" else 8))
    assert result.returncode == 0, result.stderr.decode()
    return request.param, run.trace


def test_cpp_settings_fit_the_shapes_of_parameters_and_calls(cpp_told):
    job, trace = cpp_told
    tensors = {}
    for record in named_tensors(trace, "parameter"):
        tensors.setdefault(record["ext"]["module"], {})[record["label"].rpartition(".")[2]] = record
    seen = set()
    for span in trace.modules():
        if "config" not in span.ext:
            continue
        cls = span.ext["class"].rpartition("::")[2].replace("Impl", "")
        config = span.ext["config"]
        assert CPP_SETTINGS[job].get(cls, set()) <= set(config), (cls, config)
        seen.add(cls)
        if cls == "Linear":
            weight = tensors[span.ext["module"]]["weight"]
            assert weight["shape"] == [config["out_features"], config["in_features"]] and weight["requires_grad"]
            assert ("bias" in tensors[span.ext["module"]]) == config["bias"]
            assert span.ext["args"][0]["shape"][-1] == config["in_features"]
            assert span.end_ext["output"]["shape"] == span.ext["args"][0]["shape"][:-1] + [config["out_features"]]
        if cls == "Conv2d":
            weight = tensors[span.ext["module"]]["weight"]
            assert weight["shape"] == [config["out_channels"], config["in_channels"] // config["groups"]] + config["kernel_size"]
        assert span.ext["exact"] is True and span.ext["training"] is True
    assert set(CPP_SETTINGS[job]) <= seen


def test_cpp_parameters_have_their_full_names_and_operators_use_their_ids(cpp_told):
    job, trace = cpp_told
    owners = {span.ext["module"]: span.name for span in trace.modules() if "module" in span.ext}
    used = {tensor for op in trace.ops for tensor in op["inputs"]}
    records = named_tensors(trace, "parameter")
    assert records
    uncalled = set()
    for record in records:
        path = record["label"].rpartition(".")[0]
        if record["ext"]["module"] not in owners:
            uncalled.add(path)
        else:
            assert path == owners[record["ext"]["module"]]
        assert record["tensor_id"] in used, record["label"]
    assert uncalled == ({"norm1", "norm2"} if job == "cnn" else set()), "the forward of BatchNorm is in a header"
    labels = [record["label"] for record in records]
    assert len(labels) == len(set(labels))


def test_cpp_nodes_lead_to_their_operators(cpp_told):
    _, trace = cpp_told
    joined = 0
    for span in trace.spans.values():
        if span.ext.get("scope") == "backward_function" and span.name == "AddmmBackward0":
            before = [op for op in trace.ops if op["timestamp_ns"] < span.start and op["ext"].get("seq") == span.ext["seq"]
                      and op["ext"]["thread"] == span.ext["forward_thread"]]
            assert max(before, key=lambda op: op["timestamp_ns"])["op_name"] == "aten::addmm"
            joined += 1
    assert joined >= 8
