"""What the probe must not change: programs without torch at all, and of jobs with torch their output and exit code."""
import os
import subprocess
import sys

import pytest

import support

PYTHON = "/usr/bin/python3"
NO_TORCH = [
    [PYTHON] + support.job("no_torch"),
    [PYTHON] + support.job("no_torch", "--exit", 9),
    [PYTHON] + support.job("no_torch", "--raise"),
    [PYTHON] + support.job("no_torch", "--signal", 15),
    [PYTHON] + support.job("no_torch", "--signal", 9),
    [PYTHON] + support.job("no_torch", "--exec"),
    [PYTHON] + support.job("no_torch", "--fork"),
    ["/bin/ls", "/"],
    ["/bin/ls", "/nonexistent"],
    ["/bin/sh", "-c", "echo out; echo err >&2; exit 3"],
    ["/bin/sh", "-c", "ulimit -n 16; /usr/bin/find /etc/apt | /usr/bin/sort"],
    [PYTHON, "-c", "import ctypes, sqlite3, ssl, json; ctypes.CDLL('libm.so.6'); print('loaded late')"],
    [PYTHON, "-c", "import numpy; print(numpy.arange(3).sum())"],
    [PYTHON, "-c", "import ctypes\ntry: ctypes.CDLL('libtorch_not_there.so')\nexcept OSError as error: print(error)"],
    [PYTHON, "-c", "import multiprocessing as m\nwith m.Pool(2) as p: print(p.map(abs, [-1, -2]))"],
]


def same(argv, daemon, **options):
    expected = support.plain(argv, **options)
    result = daemon.run(argv, **options)
    assert result.returncode == expected.returncode
    assert result.stdout.decode() == expected.stdout.decode()
    assert result.stderr.decode() == expected.stderr.decode()
    return result


@pytest.mark.parametrize("argv", NO_TORCH, ids=lambda argv: " ".join(os.path.basename(a)[:40] for a in argv))
def test_a_program_without_torch_runs_unchanged(argv, daemon):
    """no_torch.py prints its own threads and descriptors: one thread, no socket, no memfd, with the probe as without."""
    result = same(argv, daemon)
    if "no_torch.py" in argv[1]:
        assert b"parent: threads 1, sockets and the like []\n" in result.stdout
    assert daemon.runs() == [], "a program without torch opened a session"


def test_a_program_that_lives_has_no_thread_and_no_socket_of_ours(daemon):
    with daemon.popen(["/bin/sleep", "30"]) as process:
        try:
            maps = f"/proc/{process.pid}/maps"
            support.wait_until(lambda: "libtensortap" in open(maps).read(), "the preload was not loaded")
            support.wait_until(lambda: "sleep" in os.readlink(f"/proc/{process.pid}/exe"), "no exec")
            import time

            time.sleep(0.5)
            assert os.listdir(f"/proc/{process.pid}/task") == [str(process.pid)]
            links = [os.readlink(f"/proc/{process.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{process.pid}/fd")]
            assert not [link for link in links if link.startswith(("socket:", "/memfd:"))], links
        finally:
            process.kill()


@pytest.mark.parametrize("name, arguments", [
    ("cnn_train", ("--steps", 12)), ("transformer_train", ("--steps", 6)), ("infer_loop", ()), ("threads", ()),
    ("killed", ("--how", "kill")), ("killed", ("--how", "abort")), ("killed", ("--how", "exit")), ("first_op", ()),
])
def test_output_and_exit_code_of_a_python_job_are_unchanged(name, arguments, torch, daemon):
    same(torch.py(name, *arguments), daemon)


@pytest.mark.parametrize("arguments", [("mlp",), ("cnn",), ("infer",), ("threads",), ("mlp", "--kill-step", 7),
                                       ("mlp", "--kill-step", 7, "--how", "exit"), ("no-such-job",)])
def test_output_and_exit_code_of_a_cpp_job_are_unchanged(arguments, torch, daemon):
    same(torch.cpp(*arguments), daemon)


def test_warnings_from_inside_a_modules_forward_name_the_same_lines(torch, daemon):
    """warnings.warn(stacklevel=1…5) inside forward: file and line of each level."""
    same(torch.py("warns"), daemon)


def test_a_job_that_inspects_module_calls_sees_pytorchs_own(torch, daemon):
    """Name, module and signature of Module.__call__. (A job that counts its own frames sees one more for each module.)"""
    same(torch.py("warns", "--introspect"), daemon)


def test_an_uncaught_exception_inside_a_module_prints_the_same_traceback(torch, daemon):
    result = same(torch.py("warns", "--raise"), daemon)
    assert result.returncode == 1 and b"three is too many" in result.stderr


def test_a_syntax_error_and_a_failed_assertion_print_the_same(torch, daemon):
    same([torch.python, "-c", "import torch\nassert torch.zeros(1).sum() == 1, 'it is zero'"], daemon)
    same([torch.python, "-c", "import torch\nraise SystemExit('told so')"], daemon)


def test_a_job_that_reads_its_modules_sees_nothing_of_ours(torch, daemon):
    """No module of ours in sys.modules, no thread in threading, no child process, the same signal handlers."""
    code = (
        "import sys, threading, signal, torch; torch.nn.Linear(2, 2)(torch.zeros(1, 2))\n"
        "print(sorted(n for n in sys.modules if 'tensortap' in n.lower()), threading.active_count())\n"
        "print([n for n in dir(__builtins__) if 'tensortap' in n.lower()])\n"
        "print([signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGSEGV)])\n"
        "print(torch.nn.Linear(2, 2)._forward_hooks, len(torch.nn.modules.module._global_forward_hooks))\n"
    )
    same([torch.python, "-c", code], daemon)


def test_a_job_keeps_its_environment_and_its_children_inherit_the_preload_only_as_given(torch, daemon):
    code = "import os, torch; print(sorted(k for k in os.environ if k not in ('LD_PRELOAD', 'TENSORTAP_SOCKET')))"
    same([torch.python, "-c", code], daemon)


@pytest.mark.skipif(sys.platform != "linux", reason="the preload is for Linux")
def test_a_compiled_model_prints_no_warning(torch, daemon):
    """Global module hooks would make torch.compile print one; the job's graphs must be the same, too."""
    if torch.label != "pip":
        pytest.skip("torch 1.13 has no torch.compile")
    code = (
        "import torch, torch._dynamo.testing\n"
        "counter = torch._dynamo.testing.CompileCounter()\n"
        "m = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())\n"
        "c = torch.compile(m, backend=counter)\n"
        "print([float(c(torch.ones(n, 2)).sum()) == float(m(torch.ones(n, 2)).sum()) for n in (1, 3)])\n"
        "print(counter.frame_count, counter.op_count, torch._dynamo.explain(m)(torch.ones(1, 2)).graph_break_count)\n"
    )
    same([torch.python, "-c", code], daemon)


def test_many_short_jobs_leave_no_process_behind(torch, daemon):
    for _ in range(5):
        daemon.run(torch.cpp("sequence", "--count", 3))
    mine = subprocess.run(["ps", "-o", "ppid=,comm=", "-A"], stdout=subprocess.PIPE, check=True).stdout.decode()
    assert [line for line in mine.splitlines() if line.split()[0] == str(os.getpid()) and "ttjob" in line] == []
