"""Two processes with gloo: collectives are operators of each run, and each run says its rank and the world's size."""
import os
import socket
import subprocess

import support

SCRIPT = """
import os, torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo", rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
value = torch.full((4,), float(dist.get_rank() + 1))
dist.all_reduce(value)
dist.broadcast(value, 0)
assert value.tolist() == [3.0] * 4
dist.barrier()
dist.destroy_process_group()
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_collectives_are_operators_and_runs_know_their_rank(torch):
    port = str(free_port())
    with support.Daemon() as daemon:
        jobs = [
            daemon.popen([torch.python, "-c", SCRIPT],
                         env={"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port})
            for rank in range(2)
        ]
        for job in jobs:
            out, err = job.communicate(timeout=120)
            assert job.returncode == 0, err.decode()
        support.wait_until(lambda: len(daemon.runs()) == 2, "two runs")
        runs = daemon.finished_runs()
        ranks = {}
        for run in runs:
            names = [op["op_name"] for op in run.trace.ops]
            assert any("allreduce" in name for name in names), sorted(set(names))
            assert any("broadcast" in name for name in names), sorted(set(names))
            ranks[run.trace.meta["ext"]["rank"]] = run.trace.meta["ext"]["world_size"]
        assert ranks == {0: 2, 1: 2}
