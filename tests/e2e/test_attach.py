"""trace-attach: a running job is traced from the middle on and stays the job it was; what can't be attached to is refused
with the reason, and left alone."""
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

import support

TRACE_ATTACH = os.path.join(support.BUILD, "bin", "trace-attach")


def ptrace_problem():
    """Why no process of ours can be traced here, or None: asked of the kernel itself."""
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        try:
            with open("/proc/%d/mem" % sleeper.pid, "rb+"):
                return None
        except OSError as error:
            return "ptrace is not allowed here: %s" % error
        finally:
            sleeper.kill()


PROBLEM = ptrace_problem()
pytestmark = pytest.mark.skipif(PROBLEM is not None, reason=str(PROBLEM))


def attach(pid, *options, program=TRACE_ATTACH, prefix=(), **more):
    """(exit code, the JSON object that it printed)"""
    argv = [*prefix, program, "--json", *map(str, options), str(pid)]
    result = subprocess.run(argv, env=support.clean_environment(**more), stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=90)
    said = json.loads(result.stdout) if result.stdout.strip() else {}
    assert not said or said["exit"] == result.returncode
    return result.returncode, said


class Held:
    """A job that has come to its waiting place; `finish()` lets it go on and yields (exit code, stdout, stderr)."""

    def __init__(self, argv, folder, **environment):
        self.go = os.path.join(str(folder), "go")
        self.process = subprocess.Popen([word.replace("GO", self.go) for word in argv], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        env=support.clean_environment(**environment))
        self.pid, self.before = self.process.pid, []
        watchdog = threading.Timer(120, self.process.kill)
        watchdog.start()
        while True:
            line = self.process.stdout.readline()
            assert line, "the job ended before it held: " + self.process.stderr.read().decode()
            self.before.append(line)
            if line == b"held\n":
                break
        watchdog.cancel()
        self.threads_before = self.threads()

    def threads(self):
        names = []
        for thread in os.listdir("/proc/%d/task" % self.pid):
            with open("/proc/%d/task/%s/comm" % (self.pid, thread)) as stream:
                names.append(stream.read().strip())
        return names

    def is_hooked(self):
        """The thread that places the module hooks was started before the drain, and ends when it is done."""
        names = self.threads()
        return "tensortap" in names and len(names) == len(self.threads_before) + 1

    def finish(self):
        with open(self.go, "w"):
            pass
        out, err = self.process.communicate(timeout=120)
        return self.process.returncode, b"".join(self.before) + out, err

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        if os.path.exists(self.go):
            os.unlink(self.go)


def untouched(argv, folder):
    with Held(argv, folder) as job:
        return job.finish()


def python_job(torch, how, steps=30):
    return torch.py("held_train", "--hold", "GO", "--while", how, "--steps", steps)


def is_valid(run):
    answer = subprocess.run([support.TRACE_ANALYZE, "validate", run.trace_path], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT)
    assert answer.returncode == 0, answer.stdout.decode()


def kinds(trace):
    return {record["kind"] for record in trace.records}


@pytest.mark.parametrize("how", ["sleep", "busy", "c-call"])
def test_a_python_job_is_traced_from_the_middle_and_stays_the_same(torch, daemon, tmp_path, how):
    argv = python_job(torch, how)
    expected = untouched(argv, tmp_path)
    with Held(argv, tmp_path) as job:
        code, said = attach(job.pid, "--socket", daemon.socket)
        assert code == 0, said
        print("paused for %.2f ms in %d stops" % (said["paused_ns"] / 1e6, said["stops"]))
        assert said["torch"].startswith(torch.version)
        support.wait_until(job.is_hooked, "the module hooks are not placed")
        assert job.finish() == expected
    run = daemon.only_run()
    assert run.state == "complete" and run.trace_path == said["trace"]
    is_valid(run)
    trace = run.trace
    assert {"aten::addmm", "aten::mse_loss", "aten::pow"} & {op["op_name"] for op in trace.ops}
    paths = {span.name for span in trace.modules()}
    assert {"0", "1", "2"} <= paths and any("Sequential" in path for path in paths), paths
    assert "memory" in kinds(trace)
    full = [s for s in trace.steps() if {"forward", "backward", "optimizer"} <= {i.step for i in trace.inside(s)}]
    assert len(full) >= 19, [s.name for s in trace.steps()]  # 20 are left; the first one's border may be the second's
    assert "late_arm" in json.dumps(run.report)


def test_a_cpp_job_is_traced_from_the_middle_and_stays_the_same(torch, daemon, tmp_path):
    argv = torch.cpp("mlp", "--steps", 40, "--hold", "GO")
    expected = untouched(argv, tmp_path)
    with Held(argv, tmp_path) as job:
        code, said = attach(job.pid, "--socket", daemon.socket)
        assert code == 0, said
        print("paused for %.2f ms in %d stops" % (said["paused_ns"] / 1e6, said["stops"]))
        assert job.finish() == expected
    run = daemon.only_run()
    assert run.state == "complete"
    is_valid(run)
    trace = run.trace
    # The model is older than the capture: each call is seen, with its type; the user's class that holds them is not known.
    assert [span.ext["type"] for span in trace.modules()] == ["torch::nn::LinearImpl"] * 90
    counts = trace.counts()
    assert counts["aten::addmm"][0] == 90
    assert "memory" in kinds(trace)
    assert len(trace.steps()) in (29, 30, 31), [s.name for s in trace.steps()]


def test_many_threads_are_all_seen_and_only_one_is_stopped(torch, daemon, tmp_path):
    argv = torch.cpp("sequence", "--threads", 48, "--count", 1500, "--pace-us", 4000)
    job = subprocess.Popen(argv, env=support.clean_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE)
    support.wait_until(lambda: len(os.listdir("/proc/%d/task" % job.pid)) > 40, "the job's threads do not start")
    code, said = attach(job.pid, "--socket", daemon.socket)
    assert code == 0, said
    print("paused for %.2f ms in %d stops" % (said["paused_ns"] / 1e6, said["stops"]))
    out, err = job.communicate(timeout=120)
    assert (job.returncode, out, err) == (0, b"", b"")
    run = daemon.only_run(60)
    is_valid(run)
    assert run.trace.counts()["aten::full"][0] > 48 * 100


def test_a_private_collector_stays_until_the_job_ends(torch, tmp_path):
    state = tmp_path / "state"
    with Held(python_job(torch, "sleep"), tmp_path) as job:
        code, said = attach(job.pid, "--socket", tmp_path / "nobody", "--state", state, HOME=str(tmp_path))
        assert code == 0 and said["state"] == str(state), said
        assert os.path.exists(said["socket"])
        support.wait_until(lambda: os.path.exists(said["trace"]), "there is no trace")
        assert job.finish()[0] == 7
    folder = os.path.dirname(said["trace"])
    support.wait_until(lambda: support.Run(folder).state == "complete", "the run is not finalized")
    support.wait_until(lambda: not os.path.exists(said["socket"]), "the private collector does not end")
    is_valid(support.Run(folder))


def test_forked_workers_of_an_attached_job_are_traced(torch, daemon, tmp_path):
    script = tmp_path / "forks.py"
    script.write_text("import os, sys, time, torch\nprint('held', flush=True)\n"
                      "while not os.path.exists(sys.argv[1]): time.sleep(0.002)\n"
                      "pid = os.fork()\ntorch.ones(3) + 1\n"
                      "if pid == 0: sys.stdout.flush(); sys.exit(3)\n"
                      "print('child', os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n")
    with Held([torch.python, str(script), "GO"], tmp_path) as job:
        assert attach(job.pid, "--socket", daemon.socket)[0] == 0
        assert job.finish()[:2] == (0, b"held\nchild 3\n")
    runs = daemon.finished_runs()
    assert [run.is_worker for run in runs].count(True) == 1 and len(runs) == 2
    assert all("aten::add" in run.trace.counts() for run in runs)


def test_twenty_attaches_to_fresh_jobs(torch, daemon, tmp_path):
    for _ in range(support.repetitions(20, 4)):
        with Held(python_job(torch, "busy", 20), tmp_path) as job:
            code, said = attach(job.pid, "--socket", daemon.socket)
            assert code == 0, said
            assert job.finish()[0] == 7
    assert all(run.state == "complete" for run in daemon.finished_runs())


def test_a_trace_attach_that_is_killed_leaves_the_job_unharmed(torch, daemon, tmp_path):
    argv = python_job(torch, "busy")
    expected = untouched(argv, tmp_path)
    for delay_ms in (1, 3, 6, 10, 15, 25)[:: 6 // support.repetitions(6, 2)]:
        with Held(argv, tmp_path) as job:
            tool = subprocess.Popen([TRACE_ATTACH, "--quiet", "--socket", daemon.socket, str(job.pid)],
                                    env=support.clean_environment(), stderr=subprocess.DEVNULL)
            time.sleep(delay_ms / 1000)
            tool.kill()
            tool.wait()
            assert job.finish() == expected


# ---- refusals


def test_no_such_process():
    code, said = attach(4194301)
    assert code == 3 and "no process 4194301" in said["reason"]


def test_a_process_without_torch():
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        code, said = attach(sleeper.pid)
        sleeper.kill()
    assert code == 8 and "no torch" in said["reason"] and "trace-run" in said["remedy"]


def test_a_python_that_has_not_imported_torch_yet(torch):
    argv = [torch.python, "-c", "import time; print(1, flush=True); time.sleep(60)"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as job:
        job.stdout.readline()
        code, said = attach(job.pid)
        job.kill()
    assert code == 8 and "import torch" in said["reason"]


def test_a_static_program(tmp_path):
    source = tmp_path / "static.c"
    source.write_text("#include <unistd.h>\nint main(void) { sleep(60); return 0; }\n")
    subprocess.run(["gcc", "-static", "-o", tmp_path / "static", source], check=True)
    with subprocess.Popen([tmp_path / "static"]) as job:
        code, said = attach(job.pid)
        job.kill()
    assert code == 6 and "statically linked" in said["reason"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to run as another user")
def test_another_users_process():
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        nobody = ("setpriv", "--reuid=65534", "--clear-groups")
        code, said = attach(sleeper.pid, prefix=nobody)
        sleeper.kill()
    assert code == 4 and "belongs to root" in said["reason"] and "root" in said["remedy"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make a namespace")
def test_another_mount_namespace():
    with subprocess.Popen(["unshare", "-m", "sleep", "60"]) as sleeper:
        support.wait_until(lambda: open("/proc/%d/comm" % sleeper.pid).read() == "sleep\n", "unshare does not start")
        code, said = attach(sleeper.pid)
        sleeper.kill()
    assert code == 5 and "mount namespace" in said["reason"]


@pytest.fixture
def without_backends(tmp_path):
    """Where this build's programs are installed, without any backend."""
    installed = tmp_path / "prefix"
    shutil.copytree(os.path.join(support.BUILD, "lib", "tensortap"), installed / "lib" / "tensortap",
                    ignore=shutil.ignore_patterns("*.a", "libtensortap-torch*"))
    os.makedirs(installed / "bin")
    for name in ("trace-attach", "collectord"):
        shutil.copy(os.path.join(support.BUILD, "bin", name), installed / "bin")
    (installed / "lib" / "tensortap" / "backends.txt").write_text("")
    return installed


def test_a_torch_without_a_backend(torch, tmp_path, without_backends):
    installed = without_backends
    with Held(python_job(torch, "sleep"), tmp_path) as job:
        code, said = attach(job.pid, program=str(installed / "bin" / "trace-attach"))
        with open("/proc/%d/maps" % job.pid) as stream:
            library = next(line.split()[-1] for line in stream if "/libtorch_cpu.so" in line)
        assert job.finish()[0] == 7
    assert code == 9 and torch.version in said["reason"] and "backends for: none" in said["reason"]
    assert said["remedy"].endswith("tensortap-build-backend --torch " + library), said["remedy"]


def test_a_backend_that_was_built_on_the_spot_is_found(torch, daemon, tmp_path, without_backends):
    """In the user's folder, by the environment that the job was started with."""
    cache = tmp_path / "cache"
    with open(without_backends / "lib" / "tensortap" / "backend-key") as stream:
        folder = cache / "tensortap" / "backends" / stream.read().strip()
    shutil.copytree(os.path.join(support.BUILD, "lib", "tensortap"), folder)
    program = str(without_backends / "bin" / "trace-attach")
    with Held(python_job(torch, "sleep"), tmp_path, XDG_CACHE_HOME=str(cache)) as job:
        os.chmod(folder, 0o777)  # anybody could have put it there
        code, _ = attach(job.pid, program=program)
        assert code == 9
        os.chmod(folder, 0o755)
        code, said = attach(job.pid, "--socket", daemon.socket, program=program)
        assert code == 0, said
        assert job.finish()[0] == 7
    assert daemon.only_run().state == "complete"


def test_what_to_capture_is_said_at_the_attach(torch, daemon, tmp_path):
    with Held(torch.cpp("mlp", "--steps", 40, "--hold", "GO"), tmp_path) as job:
        code, said = attach(job.pid, "--socket", daemon.socket, "--capture", "next=2")
        assert code == 0, said
        assert job.finish()[0] == 0
    run = daemon.only_run()
    assert run.state == "complete" and len(run.trace.steps()) == 2, [s.name for s in run.trace.steps()]


def test_twice(torch, daemon, tmp_path):
    with Held(python_job(torch, "sleep"), tmp_path) as job:
        assert attach(job.pid, "--socket", daemon.socket)[0] == 0
        code, said = attach(job.pid, "--socket", daemon.socket)
        assert job.finish()[0] == 7
    assert code == 10 and "traced already" in said["reason"] and "trace-ctl" in said["remedy"]
    daemon.only_run()


def test_a_debugger_is_there(torch, tmp_path):
    """PTRACE_SEIZE by a process of ours, as gdb or strace would."""
    debugger = ("import ctypes, sys, time; c = ctypes.CDLL(None, use_errno=True);"
                "print(c.ptrace(0x4206, int(sys.argv[1]), None, None), flush=True); time.sleep(60)")
    with Held(python_job(torch, "sleep"), tmp_path) as job:
        with subprocess.Popen([sys.executable, "-c", debugger, str(job.pid)], stdout=subprocess.PIPE) as tracer:
            assert tracer.stdout.readline() == b"0\n"
            code, said = attach(job.pid)
            tracer.kill()
        assert job.finish()[0] == 7
    assert code == 11 and str(tracer.pid) in said["reason"]


def test_a_stopped_job(torch, tmp_path):
    with Held(python_job(torch, "sleep"), tmp_path) as job:
        os.kill(job.pid, signal.SIGSTOP)
        support.wait_until(lambda: "State:\tT" in open("/proc/%d/status" % job.pid).read(), "it does not stop")
        code, said = attach(job.pid)
        os.kill(job.pid, signal.SIGCONT)
        assert job.finish()[0] == 7
    assert code == 12 and "kill -CONT" in said["remedy"]


def test_a_job_that_switched_the_probe_off(torch):
    argv = [torch.python, "-c", "import torch, time; print(1, flush=True); time.sleep(60)"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, env=support.clean_environment(TENSORTAP_DISABLE="1")) as job:
        job.stdout.readline()
        code, said = attach(job.pid)
        job.kill()
    assert code == 4 and "TENSORTAP_DISABLE" in said["reason"]


def test_a_dry_run_touches_nothing(torch, tmp_path):
    with Held(python_job(torch, "sleep"), tmp_path) as job:
        code, said = attach(job.pid, "--dry-run")
        with open("/proc/%d/maps" % job.pid) as stream:
            assert "libtensortap" not in stream.read()
        assert job.finish()[0] == 7
    assert code == 0 and said["attached"] is False and said["torch"].startswith(torch.version)


def test_wrong_options_and_help():
    for arguments in ([], ["x"], ["--nothing", "1"], ["-5"], ["1", "--socket", "/" + "x" * 120]):
        result = subprocess.run([TRACE_ATTACH, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert result.returncode == 2 and result.stderr.startswith(b"trace-attach: "), arguments
    text = subprocess.run([TRACE_ATTACH, "--help"], stdout=subprocess.PIPE, check=True).stdout.decode()
    assert "Exit status" in text and "Examples" in text
