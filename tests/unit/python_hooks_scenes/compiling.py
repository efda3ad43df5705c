"""torch.compile and torch.export, with the hooks put in place before or (late) after."""

import torch
from torch import nn

from job import Net, core, late, scene, torch2, wait_for_hooks


def compile_counters(net, x, **options):
    import torch._dynamo
    from torch._dynamo.testing import CompileCounter

    torch._dynamo.reset()
    counter = CompileCounter()
    compiled = torch.compile(net, backend=counter, **options)
    results = [compiled(x).sum().item() for _ in range(3)]
    if late:
        core.fake_core_start()
        wait_for_hooks()
    results += [compiled(x).sum().item() for _ in range(3)]
    counts = {k: dict(v) for k, v in torch._dynamo.utils.counters.items() if v}
    print(counter.frame_count, counter.op_count, results, counts.get("graph_break"), counts.get("stats"))
    print(counts.get("recompiles"), sorted(counts.get("frames", {}).items()))


def with_hooks():
    net = Net()
    net.register_forward_hook(lambda module, inputs, output: print("hook", type(module).__name__))
    return net


@scene
def compile_graphs():
    if not torch2:
        return
    torch.manual_seed(0)
    compile_counters(Net(), torch.ones(2, 4), fullgraph=True)
    compile_counters(with_hooks(), torch.ones(2, 4))  # print breaks the graph
    compile_counters(Net(lambda: torch._dynamo.graph_break()), torch.ones(2, 4))
    compile_counters(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0), torch.ones(5, 1, 8))
    outer = nn.Sequential(torch.compile(Net(), backend="eager"), nn.ReLU())
    print(outer(torch.ones(2, 4)).shape)


@scene
def compile_function():
    if not torch2:
        return
    import torch._dynamo

    torch.manual_seed(0)
    net = Net()
    compile_counters(lambda x: net(x) + net.first(x).sum(), torch.ones(2, 4), fullgraph=True)
    explained = torch._dynamo.explain(net)(torch.ones(2, 4))
    print(explained.graph_count, explained.graph_break_count, explained.op_count, explained.break_reasons)
    print([str(g.graph) for g in explained.graphs])


@scene
def compile_aot():
    if not torch2:
        return
    torch.manual_seed(0)
    net = Net()
    compiled = torch.compile(net, backend="aot_eager", fullgraph=True)
    for _ in range(3):
        compiled(torch.ones(2, 4)).sum().backward()
        if late:
            core.fake_core_start()
            wait_for_hooks()
    print(net.head.weight.grad)
    compiled = torch.compile(net, backend="eager")
    compiled(torch.ones(2, 5))


@scene
def compile_in_place():
    if not torch2:
        return
    net = Net()
    net.compile(backend="eager", fullgraph=True)
    print(net(torch.ones(2, 4)).shape, torch.compiler.is_compiling())


@scene
def compile_inductor():
    import shutil

    if not torch2 or not shutil.which("g++"):
        return
    torch.manual_seed(0)
    compiled = torch.compile(Net(), fullgraph=True)
    print(compiled(torch.ones(2, 4)))


@scene
def export():
    if not torch2:
        return
    torch.manual_seed(0)
    for strict in (True, False):
        exported = torch.export.export(Net(), (torch.ones(2, 4),), strict=strict)
        print(exported.graph, exported.graph_signature)
        print([n.meta.get("nn_module_stack") and list(n.meta["nn_module_stack"].values()) for n in exported.graph.nodes])
        print(exported.module()(torch.ones(2, 4)))
