"""Fixtures of the end-to-end tests: the torches to test with, the peer crate, traces that several tests look at.

Run by tests/run, which sets the TENSORTAP_* variables; by hand `/usr/bin/python3 -m pytest tests/e2e` uses
build/release and what the cache folder holds.
"""
import glob
import os
import signal
import subprocess

import pytest

import support

# A background run of a shell, or nohup, has them ignored, and so would every job here.
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, handler)


class Torch:
    def __init__(self, label, python, version):
        self.label, self.python, self.version = label, python, version
        self.ttjob = os.path.join(support.BUILD, "bin", "ttjob-" + version)

    def py(self, name, *arguments):
        return [self.python] + support.job(name, *arguments)

    def cpp(self, *arguments):
        return [self.ttjob] + [str(a) for a in arguments]


PIP_PYTHON = os.environ.get("TENSORTAP_PIP_PYTHON") or os.path.join(support.CACHE, "torch2-venv", "bin", "python3")
CANDLE_GRAPH = os.environ.get("TENSORTAP_CANDLE_GRAPH") or os.path.join(
    support.CACHE, "candle-graph", "bin", "candle-graph")
CANDLE_PEER = os.environ.get("TENSORTAP_CANDLE_PEER") or os.path.join(
    support.CACHE, "candle-peer", "target", "debug", "candle-peer")


def pip_version():
    """Major.minor of pip's torch by its folder's name: importing it would take seconds."""
    found = glob.glob(os.path.join(os.path.dirname(PIP_PYTHON), "..", "lib", "python3*", "site-packages", "torch-*.dist-info"))
    return ".".join(os.path.basename(found[0]).split("-")[1].split(".")[:2]) if found else ""


@pytest.fixture(scope="session", params=["debian", "pip"])
def torch(request):
    """Each torch in turn: Debian's 1.13, and pip's 2.x where it is installed."""
    if request.param == "debian":
        return Torch("debian", "/usr/bin/python3", "1.13")
    reason = os.environ.get("TENSORTAP_SKIP_PIP")
    if not reason and not os.path.exists(PIP_PYTHON):
        reason = "pip's torch is not installed (tests/run makes it)"
    if reason:
        pytest.skip("torch 2.x from pip: " + reason)
    return Torch("pip", PIP_PYTHON, pip_version())


@pytest.fixture(scope="session")
def candle_graph_path():
    """The peer crate's program."""
    reason = os.environ.get("TENSORTAP_SKIP_CANDLE")
    if not reason and not os.path.exists(CANDLE_GRAPH):
        reason = "the crate candle-graph is not installed (tests/run does it where cargo is)"
    if reason:
        pytest.skip(reason)
    return CANDLE_GRAPH


@pytest.fixture(scope="session")
def candle_graph(candle_graph_path):
    """Runs the peer crate's summary on a trace file and yields (exit code, its words)."""

    def summary(trace_path, folder, *options):
        plain = os.path.join(str(folder), "trace.jsonl")
        with open(plain, "wb") as stream:
            subprocess.run(["zstd", "-dcq", trace_path], stdout=stream, check=True)
        result = subprocess.run([candle_graph_path, "summary", *options, plain], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, timeout=300)
        os.unlink(plain)
        return result.returncode, result.stdout.decode(errors="replace")

    return summary


@pytest.fixture(scope="session")
def candle_peer():
    """Runs the program of tests/conformance/peer, a producer that is not ours; yields what it printed."""
    reason = os.environ.get("TENSORTAP_SKIP_CANDLE")
    if not reason and not os.path.exists(CANDLE_PEER):
        reason = "the peer program is not built (tests/run does it where cargo is)"
    if reason:
        pytest.skip(reason)

    def run(*arguments):
        return subprocess.run([CANDLE_PEER, *map(str, arguments)], stdout=subprocess.PIPE, check=True,
                              timeout=60).stdout.decode()

    return run


@pytest.fixture
def daemon():
    with support.Daemon() as running:
        yield running


@pytest.fixture(scope="session")
def traced(request):
    """Traces a job once per session: traced(argv) -> (result of the process, finalized Run, all runs).

    The folders stay when a test of the session failed."""
    cache, daemons = {}, []

    def trace(argv):
        key = tuple(argv)
        if key not in cache:
            running = support.Daemon()
            daemons.append(running)
            result = running.run(argv)
            cache[key] = (result, running.only_run(), running.finished_runs())
            running.stop()
        return cache[key]

    yield trace
    for running in daemons:
        running.__exit__("failed" if request.session.testsfailed else None)


def pytest_collection_modifyitems(session, config, items):
    """Says once, before any test, that the build is not there, rather than once in each."""
    missing = [p for p in (support.COLLECTORD, support.TRACE_RUN, support.TRACE_ANALYZE, support.PRELOAD)
               if not os.path.exists(p)]
    if items and missing:
        raise pytest.UsageError("not built: %s (run tests/run, or set TENSORTAP_BUILD)" % ", ".join(missing))
