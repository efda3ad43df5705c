"""Two processes with gloo: collectives are operators of each run, and each run says its rank and the world's size, whoever
knows them: the environment, or the process group that the job makes."""
import os
import socket

import pytest

import support
from test_attach import PROBLEM, Held, attach
from test_control import ctl, listed, wait_for_probe

WORK = """
value = torch.full((4,), float(dist.get_rank() + 1))
dist.all_reduce(value)
dist.broadcast(value, 0)
assert value.tolist() == [3.0] * 4
dist.barrier()
dist.destroy_process_group()
"""

BY_ENVIRONMENT = """
import os, torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo", rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
""" + WORK

# argv: rank, init method
BY_ARGUMENTS = """
import sys, torch, torch.distributed as dist
torch.set_num_threads(1)
assert dist.is_available()
dist.init_process_group("gloo", init_method=sys.argv[2], rank=int(sys.argv[1]), world_size=2)
""" + WORK

# As torch's own examples do it: the children get their rank as an argument. A part of the group is made, too.
SPAWNED = """
import os, sys, torch, torch.distributed as dist, torch.multiprocessing as mp
def work(rank, where):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=where, rank=rank, world_size=2)
    alone = [dist.new_group([r]) for r in range(2)][rank]
    value = torch.ones(2)
    dist.all_reduce(value, group=alone)
    assert value.tolist() == [1.0, 1.0]
    dist.all_reduce(value)
    assert value.tolist() == [2.0, 2.0]
    dist.barrier()
    dist.destroy_process_group()
if __name__ == "__main__":
    mp.start_processes(work, args=(sys.argv[1],), nprocs=2, start_method=sys.argv[2])
"""

# argv: file that says when to end. A group of one process: nobody has to be waited for.
WAITING = """
import os, sys, time, torch, torch.distributed as dist
torch.set_num_threads(1)
if "early" in sys.argv:
    dist.init_process_group("gloo", init_method="file://" + sys.argv[1] + ".group", rank=0, world_size=1)
print("held", flush=True)
while not os.path.exists(sys.argv[1] + ".init"):
    time.sleep(0.01)
if "early" not in sys.argv:
    dist.init_process_group("gloo", init_method="file://" + sys.argv[1] + ".group", rank=0, world_size=1)
while not os.path.exists(sys.argv[1]):
    torch.ones(2).add(1)
    time.sleep(0.01)
dist.destroy_process_group()
print("done")
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def init_methods(folder):
    return ["file://" + os.path.join(str(folder), "group"), "tcp://127.0.0.1:%d" % free_port()]


def touch(path):
    with open(path, "w"):
        pass


def join(jobs):
    for job in jobs:
        out, err = job.communicate(timeout=120)
        assert job.returncode == 0, err.decode()


def places(runs):
    """{rank: (world size, who says so, backend)}, of the trace; run.json and the report say the same."""
    found = {}
    for run in runs:
        ext, info, report = run.trace.meta["ext"], run.info, run.report["run"]
        assert ext["rank"] not in found
        found[ext["rank"]] = (ext["world_size"], ext["rank_source"], ext.get("backend"))
        for key in ("rank", "world_size", "rank_source", "backend"):
            assert info.get(key) == ext.get(key) and report.get(key) == ext.get(key), (key, info, report)
    return found


def test_collectives_are_operators_and_runs_know_their_rank(torch, daemon):
    port = str(free_port())
    join([daemon.popen([torch.python, "-c", BY_ENVIRONMENT],
                       env={"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port})
          for rank in range(2)])
    runs = daemon.finished_runs(count=2)
    assert places(runs) == {0: (2, "process_group", "gloo"), 1: (2, "process_group", "gloo")}
    for run in runs:
        seen = {op["op_name"] for op in run.trace.ops}
        assert {"c10d::allreduce_", "c10d::broadcast_", "c10d::barrier"} <= seen, sorted(seen)


def test_an_environment_alone_is_believed(torch, daemon):
    result = daemon.run([torch.python, "-c", "import torch; torch.ones(2).add(1)"],
                        env={"RANK": "3", "WORLD_SIZE": "8"})
    assert result.returncode == 0, result.stderr
    assert places([daemon.only_run()]) == {3: (8, "environment", None)}


@pytest.mark.parametrize("method", [0, 1], ids=["file", "tcp"])
def test_a_rank_that_only_the_process_group_knows(torch, daemon, tmp_path, method):
    where = init_methods(tmp_path)[method]
    join([daemon.popen([torch.python, "-c", BY_ARGUMENTS, str(rank), where]) for rank in range(2)])
    runs = daemon.finished_runs(count=2)
    assert places(runs) == {0: (2, "process_group", "gloo"), 1: (2, "process_group", "gloo")}
    assert all("c10d::allreduce_" in {op["op_name"] for op in run.trace.ops} for run in runs)
    assert all(run.state == "complete" for run in runs)


@pytest.mark.parametrize("how", ["spawn", "fork"])
def test_ranks_of_processes_that_torch_starts(torch, daemon, tmp_path, how):
    script = tmp_path / "spawned.py"
    script.write_text(SPAWNED)
    result = daemon.run([torch.python, str(script), init_methods(tmp_path)[0], how])
    assert result.returncode == 0, result.stderr.decode()
    runs = [run for run in daemon.finished_runs(count=2) if run.trace.ops]
    assert places(runs) == {0: (2, "process_group", "gloo"), 1: (2, "process_group", "gloo")}


def test_an_idle_process_is_found_by_the_rank_of_its_group(torch, daemon, tmp_path):
    stop = str(tmp_path / "stop")
    with daemon.popen([torch.python, "-c", WAITING, stop], env={"TENSORTAP_CAPTURE": "idle"}) as job:
        assert "rank" not in wait_for_probe(daemon, job)
        touch(stop + ".init")
        found = support.wait_until(lambda: listed(daemon, "--rank", "0"), "no process of rank 0 in the list")
        assert [(p["pid"], p["world_size"], p["backend"]) for p in found] == [(job.pid, 1, "gloo")]
        ctl(daemon, "start", "--rank", "0", "--duration", "200ms")
        touch(stop)
        assert job.wait(60) == 0
    assert places([daemon.only_run()]) == {0: (1, "process_group", "gloo")}


def test_a_group_that_is_made_while_a_capture_is_open_is_listed_at_once(torch, daemon, tmp_path):
    stop = str(tmp_path / "stop")
    with daemon.popen([torch.python, "-c", WAITING, stop]) as job:
        wait_for_probe(daemon, job, "capturing")
        assert not listed(daemon, "--rank", "0")
        touch(stop + ".init")
        found = support.wait_until(lambda: listed(daemon, "--rank", "0"), "no process of rank 0 in the list")
        assert found[0]["state"] == "capturing"
        touch(stop)
        assert job.wait(60) == 0
    assert places([daemon.only_run()]) == {0: (1, "process_group", "gloo")}


@pytest.mark.skipif(PROBLEM is not None, reason=str(PROBLEM))
def test_a_group_that_is_older_than_the_probe_is_found(torch, daemon, tmp_path):
    job = Held([torch.python, "-c", WAITING, "GO", "early"], tmp_path)
    code, said = attach(job.pid, "--socket", daemon.socket)
    assert code == 0, said
    support.wait_until(lambda: listed(daemon, "--rank", "0"), "no process of rank 0 in the list")
    touch(job.go + ".init")
    status, out, err = job.finish()
    assert (status, err) == (0, b"") and out.endswith(b"done\n"), err
    assert places([daemon.only_run()]) == {0: (1, "process_group", "gloo")}
