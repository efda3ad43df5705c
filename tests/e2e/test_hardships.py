"""Forks, execs, very many threads, signals, scripted functions, sanitizers, restarts of the collector: no job minds."""
import collections
import concurrent.futures
import os
import shutil
import subprocess
import threading
import time

import pytest

import support


def adds(run):
    return sum(op["op_name"] == "aten::add" for op in run.trace.ops)


def assert_valid(run):
    check = subprocess.run([support.TRACE_ANALYZE, "validate", run.trace_path], stdout=subprocess.PIPE, text=True)
    assert check.returncode == 0, check.stdout


def test_children_that_leave_by_exit_or_exec_have_their_own_operators(torch, daemon):
    result = daemon.run(torch.py("hardships", "fork-exit"))
    assert (result.returncode, result.stderr) == (0, b""), result
    assert result.stdout.split() == [b"exit", b"5", b"plain", b"exec", b"0"], result.stdout
    runs = daemon.finished_runs(count=4)
    parent = [run for run in runs if adds(run) == 100]
    children = [run for run in runs if adds(run) == 7]
    program = [run for run in runs if adds(run) == 50]
    assert (len(runs), len(parent), len(children), len(program)) == (4, 1, 2, 1)
    for child in children:
        assert child.info["parent_run"] == parent[0].info["run"] and child.is_worker
    for run in parent + program:
        assert run.state == "complete"
        assert_valid(run)


def test_very_many_threads(torch, daemon):
    count = 400
    result = daemon.run(torch.py("hardships", "threads", count), timeout=300)
    assert result.stdout == b"threads %d\n" % count and result.stderr == b"", result
    run = daemon.only_run()
    assert run.state == "complete" and not run.info["ledger"]["dropped"]
    by_thread = collections.Counter(op["ext"]["thread"] for op in run.trace.ops if op["op_name"] == "aten::add")
    assert len(by_thread) == count and set(by_thread.values()) == {50}
    assert_valid(run)


def test_operators_in_signal_handlers(torch, daemon):
    result = daemon.run(torch.py("hardships", "signals"))
    assert (result.returncode, result.stdout, result.stderr) == (0, b"signals\n", b""), result
    run = daemon.only_run()
    assert sum(op["op_name"] == "aten::mul" for op in run.trace.ops) >= 50
    assert_valid(run)


def test_scripted_functions_are_recorded_as_what_they_are_and_disclosed(torch, daemon):
    result = daemon.run(torch.py("hardships", "script"))
    assert result.returncode == 0 and result.stdout.startswith(b"script"), result
    run = daemon.only_run()
    assert any(span.ext.get("scope") == "torchscript_function" for span in run.trace.spans.values())
    assert run.info["diagnostics"]["script_function"] > 0
    assert run.trace.meta["capture_contract"]["operations"] == "partial"
    assert_valid(run)


def test_operators_of_static_constructors_and_destructors(torch, daemon):
    argv = torch.cpp("threads", "--rounds", 2)
    plain = support.plain(argv, env={"TTJOB_STATICS": "1"})
    traced = daemon.run(argv, env={"TTJOB_STATICS": "1"})
    assert (traced.returncode, traced.stdout, traced.stderr) == (plain.returncode, plain.stdout, plain.stderr) and plain.returncode == 0
    run = daemon.only_run()
    names = collections.Counter(op["op_name"] for op in run.trace.ops)
    assert run.state == "complete" and names["aten::add_"] == 2, "before main (a scalar's overload calls the tensor's)"
    assert names["aten::mul_"] == 1, "after main: the probe's own exit handler runs behind them"
    assert_valid(run)


def test_a_plugin_that_comes_and_goes(torch, daemon):
    plugin = os.path.join(support.BUILD, "bin", "ttplugin-%s.so" % torch.version)
    result = daemon.run(torch.py("hardships", "plugin", plugin))
    assert (result.returncode, result.stdout, result.stderr) == (0, b"plugin 80\n", b""), result
    assert adds(daemon.only_run()) == 20 * 4 * 2 + 20, "at::add of a scalar is two events, torch.add one"
    assert_valid(daemon.only_run())


def test_a_sanitized_job(torch, daemon):
    asan = subprocess.run(["gcc", "-print-file-name=libasan.so"], stdout=subprocess.PIPE, text=True).stdout.strip()
    if not os.path.isabs(asan):
        pytest.skip("gcc's libasan.so is not here")
    argv = torch.py("hardships", "plain")
    env = support.clean_environment(LD_PRELOAD=asan, ASAN_OPTIONS="detect_leaks=0")
    plain = subprocess.run(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
    if plain.returncode != 0:
        pytest.skip("this python does not run under libasan: " + plain.stderr.decode()[-200:])
    traced = subprocess.run([support.TRACE_RUN, "--socket", daemon.socket, "--quiet", "--"] + argv, env=env,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
    assert (traced.returncode, traced.stdout, traced.stderr) == (0, plain.stdout, plain.stderr)
    assert adds(daemon.only_run()) == 50


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a program another user's set-user-id bit")
@pytest.mark.parametrize("torch", ["debian"], indirect=True)  # pip's may lie where the other user can't look
def test_a_set_user_id_job_runs_unchanged_and_the_launcher_says_why_it_is_not_seen(torch, daemon, tmp_path):
    program = str(tmp_path / "job")
    shutil.copy(torch.ttjob, program)
    os.chown(program, 65534, 65534)
    os.chmod(program, 0o4755)
    argv = [program, "infer", "--steps", "3"]
    plain = support.plain(argv)
    assert plain.returncode == 0, plain.stderr.decode()
    traced = support.plain([support.TRACE_RUN, "--socket", daemon.socket, "--"] + argv)
    assert (traced.returncode, traced.stdout) == (0, plain.stdout)
    assert b"set-user-id" in traced.stderr, traced.stderr.decode()
    assert not daemon.runs()


class Restarts:
    """Stops and starts the collector without end: by SIGTERM and by SIGKILL in turn."""

    def __init__(self, daemon):
        self.daemon, self.over, self.count = daemon, threading.Event(), 0
        self.thread = threading.Thread(target=self.loop)

    def loop(self):
        while not self.over.is_set():
            time.sleep(0.15)
            (self.daemon.kill if self.count % 2 else self.daemon.stop)()
            time.sleep(0.05)
            self.daemon.start()
            self.count += 1

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


@pytest.mark.parametrize("kind", ["cpp", "python"])
def test_short_jobs_do_not_notice_restarts_of_the_collector(kind, torch):
    full, ci = (500, 50) if kind == "cpp" else (25, 3)  # of each torch
    jobs = support.repetitions(full, ci)
    argv = torch.cpp("threads", "--rounds", 5) if kind == "cpp" else torch.py("hardships", "plain")
    expected = support.plain(argv)
    assert expected.returncode == 0

    with support.Daemon() as daemon:
        env = daemon.environment()

        def one(_):
            result = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, timeout=120)
            return result.returncode, result.stdout, result.stderr

        with Restarts(daemon) as restarts, concurrent.futures.ThreadPoolExecutor(2) as pool:
            results = collections.Counter(pool.map(one, range(jobs)))
        assert results == {(expected.returncode, expected.stdout, expected.stderr): jobs}, results
        assert restarts.count > 0
        for run in daemon.finished_runs(60):
            if run.state == "complete":
                assert run.trace.terminal["outcome"] == "complete"
