"""trace-run: the launcher starts what is missing, gets out of the way, and says at the end where the trace is."""
import os
import signal
import subprocess

import pytest

import support


def trace_run(*arguments, home, timeout=60, **options):
    """trace-run in a home of its own, so that default folders are the test's."""
    return support.plain([support.TRACE_RUN, *map(str, arguments)], timeout=timeout, env=private(home), **options)


def private(home):
    runtime = os.path.join(str(home), "r")
    os.makedirs(runtime, exist_ok=True)
    return {"HOME": str(home), "XDG_RUNTIME_DIR": runtime, "XDG_STATE_HOME": os.path.join(str(home), "state")}


@pytest.fixture
def home():
    """A short path: the default socket lies below it."""
    import shutil
    import tempfile

    path = tempfile.mkdtemp(prefix="tt-home-")
    yield path
    shutil.rmtree(path, ignore_errors=True)


def run_folders(state):
    found = []
    for path, _, files in os.walk(os.path.join(str(state), "runs")):
        if "run.json" in files and os.path.basename(os.path.dirname(path)) != "workers":
            found.append(support.Run(path))
    return found


def collectors_of(home):
    """collectord processes whose command line or environment speaks of this home."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as stream:
                command = stream.read()
            with open("/proc/%s/environ" % pid, "rb") as stream:
                environment = stream.read()
        except OSError:
            continue
        if b"collectord" in command.split(b"\0")[0] and str(home).encode() in command + environment:
            found.append(int(pid))
    return found


def test_a_private_collector_is_started_used_and_ended(torch, home):
    argv = torch.cpp("mlp", "--steps", 10)
    expected = support.plain(argv)
    result = trace_run("--", *argv, home=home)
    assert (result.returncode, result.stdout) == (0, expected.stdout)
    (run,) = run_folders(os.path.join(home, "state", "tensortap"))
    assert run.state == "complete"
    words = result.stderr.decode()
    assert run.trace_path in words and "trace-analyze" in words, words
    support.wait_until(lambda: not collectors_of(home), "the private collector is still there")
    command = next(line for line in words.splitlines() if "trace-analyze" in line and run.trace_path in line)
    command = command[command.index("trace-analyze"):] if not os.path.exists(command.split()[0]) else command
    env = support.clean_environment(PATH=os.path.join(support.BUILD, "bin") + ":" + os.environ["PATH"])
    answer = subprocess.run(["/bin/sh", "-c", command], env=env, stdout=subprocess.PIPE, check=True)
    assert b"aten::" in answer.stdout


def test_state_chooses_where_the_private_collector_keeps_its_runs(torch, home, tmp_path):
    result = trace_run("--state", tmp_path / "here", "--", *torch.cpp("mlp", "--steps", 5), home=home)
    assert result.returncode == 0
    assert len(run_folders(tmp_path / "here")) == 1


def test_a_daemon_that_listens_is_used_by_option_and_by_variable(torch, daemon, home):
    argv = torch.cpp("mlp", "--steps", 5)
    result = trace_run("--socket", daemon.socket, "--", *argv, home=home)
    assert result.returncode == 0
    assert len(daemon.finished_runs()) == 1 and daemon.runs()[0].trace_path in result.stderr.decode()
    env = dict(private(home), TENSORTAP_SOCKET=daemon.socket)
    assert support.plain([support.TRACE_RUN, "--", *argv], env=env).returncode == 0
    assert len(daemon.finished_runs()) == 2
    assert not os.path.exists(os.path.join(home, "state")), "a private collector was started beside the daemon"


def test_quiet_says_nothing(torch, daemon, home):
    argv = torch.cpp("mlp", "--steps", 5)
    result = trace_run("--quiet", "--socket", daemon.socket, "--", *argv, home=home)
    assert (result.returncode, result.stderr) == (0, b"")
    assert daemon.only_run().state == "complete"


@pytest.mark.parametrize("how, code", [("exit", 3), ("kill", 128 + 9), ("abort", 128 + 6), ("segv", 128 + 11)])
def test_it_exits_as_the_job_did(how, code, torch, daemon, home):
    argv = torch.cpp("mlp", "--steps", 10, "--kill-step", 7, "--how", how)
    result = trace_run("--quiet", "--socket", daemon.socket, "--", *argv, home=home)
    assert result.returncode == code, result.stderr


def test_a_program_without_torch_can_be_launched_too(daemon, home):
    result = trace_run("--socket", daemon.socket, "--", "/bin/sh", "-c", "echo hello; exit 5", home=home)
    assert (result.returncode, result.stdout) == (5, b"hello\n")
    assert daemon.runs() == []
    assert b"torch" in result.stderr, "it says that no torch was seen, so nothing was traced: %s" % result.stderr


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_go_on_to_the_job(sig, torch, daemon, home):
    with subprocess.Popen([support.TRACE_RUN, "--socket", daemon.socket, "--quiet", "--",
                           *torch.cpp("sequence", "--count", 10**7, "--pace-us", 1000)],
                          env=support.clean_environment(**private(home)), stdin=subprocess.DEVNULL,
                          preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler)) as process:
        support.wait_until(daemon.runs, "no run arrived")
        process.send_signal(sig)
        assert process.wait(20) == 128 + sig
    assert daemon.only_run().state == "failed"


def test_ctrl_c_stops_the_job_and_not_its_private_collector(torch, home):
    """The whole foreground process group gets SIGINT; the trace is finished all the same."""
    process = subprocess.Popen([support.TRACE_RUN, "--", *torch.cpp("sequence", "--count", 10**7, "--pace-us", 1000)],
                               env=support.clean_environment(**private(home)), stdin=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, start_new_session=True)
    state = os.path.join(home, "state", "tensortap")
    meta_frame = 1 << 16
    support.wait_until(lambda: [run for run in run_folders(state) if os.path.exists(run.trace_path)
                                and os.path.getsize(run.trace_path) > meta_frame + 1000], "no operator arrived")
    os.killpg(process.pid, signal.SIGINT)
    _, words = process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGINT
    (run,) = run_folders(state)
    assert run.state == "failed" and run.trace_path in words.decode()
    assert run.trace.ops


def test_exec_becomes_the_job_with_the_same_pid_and_says_nothing(torch, daemon, home):
    code = "import os, torch; torch.zeros(1); print(os.getpid())"
    with subprocess.Popen([support.TRACE_RUN, "--exec", "--socket", daemon.socket, "--", torch.python, "-c", code],
                          env=support.clean_environment(**private(home)), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, b"%d\n" % process.pid, b"")
    assert daemon.only_run().info["pid"] == process.pid


def test_exec_starts_a_private_collector_that_outlives_the_launcher_and_ends_after_the_job(torch, home):
    result = trace_run("--exec", "--", *torch.cpp("mlp", "--steps", 5), home=home)
    assert result.returncode == 0
    state = os.path.join(home, "state", "tensortap")
    support.wait_until(lambda: [r for r in run_folders(state) if r.state == "complete"], "the run was not finished")
    support.wait_until(lambda: not collectors_of(home), "the private collector is still there", seconds=30)


def test_input_and_output_are_the_jobs_own(torch, daemon, home):
    result = subprocess.run([support.TRACE_RUN, "--quiet", "--socket", daemon.socket, "--", "/bin/cat"],
                            env=support.clean_environment(**private(home)), input=b"through", stdout=subprocess.PIPE,
                            timeout=30)
    assert (result.returncode, result.stdout) == (0, b"through")


def test_two_jobs_at_once_have_a_run_each(torch, daemon, home):
    jobs = [subprocess.Popen([support.TRACE_RUN, "--quiet", "--socket", daemon.socket, "--",
                              *torch.cpp("mlp", "--steps", count)], stdout=subprocess.DEVNULL,
                             env=support.clean_environment(**private(home))) for count in (5, 6)]
    assert [job.wait(60) for job in jobs] == [0, 0]
    steps = sorted(len(run.trace.steps()) for run in daemon.finished_runs())
    assert len(steps) == 2 and steps[1] == steps[0] + 1
