"""Helpers of the end-to-end tests: real programs, a private daemon for each test, and a reader of what they leave.

    with Daemon() as daemon:
        result = daemon.run([python, "train.py"])        # under plain LD_PRELOAD
        run = daemon.only_run()                          # waits until the daemon finalized it
        assert run.trace.steps()[0].name == "step-000000000000"

The reader here is a second, independent one (zstd and json): it shares nothing with the code under test.
"""
import collections
import functools
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("TENSORTAP_BUILD") or os.path.join(REPOSITORY, "build", "release")
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "tensortap")
JOBS = os.path.join(REPOSITORY, "tests", "jobs", "python")
COLLECTORD, TRACE_RUN, TRACE_ANALYZE = (
    os.path.join(BUILD, "bin", name) for name in ("collectord", "trace-run", "trace-analyze"))
PRELOAD = os.path.join(BUILD, "lib", "tensortap", "libtensortap.so")


def repetitions(full, ci):
    """How often a statistical test repeats: `full` is what the project promises, `ci` what CI has time for."""
    return full if os.environ.get("TENSORTAP_REPETITIONS") == "full" else ci


def clean_environment(**more):
    """The caller's environment without anything of ours, one compute thread, no files written beside sources."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("TENSORTAP_") and k not in ("LD_PRELOAD", "PYTHONPATH")}
    env.update(OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1", LC_ALL="C.UTF-8")
    env.update(more)
    return env


def wait_until(condition, what, seconds=20.0):
    """Polls until condition() is truthy and yields that value."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError("not within %g s: %s" % (seconds, what() if callable(what) else what))
        time.sleep(0.02)


class Daemon:
    """A collectord with a socket and a state folder of its own."""

    def __init__(self, start=True, root=None):
        self.root = root or tempfile.mkdtemp(prefix="tt-e2e-")  # short: a socket path has 107 bytes
        self.owns_root = root is None
        self.socket = os.path.join(self.root, "s")
        self.state = os.path.join(self.root, "state")
        self.log = os.path.join(self.root, "log")
        self.process = None
        if start:
            self.start()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.stop()
        if self.owns_root and kind is None:
            shutil.rmtree(self.root, ignore_errors=True)

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([COLLECTORD, "--listen", self.socket, "--state", self.state], stdout=log,
                                            stderr=log, stdin=subprocess.DEVNULL, env=clean_environment())
        wait_until(self._listening, lambda: "collectord does not listen; its log:\n" + self.log_tail())

    def _listening(self):
        import socket

        if self.process.poll() is not None:
            raise AssertionError("collectord ended with %d:\n%s" % (self.process.returncode, self.log_tail()))
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(self.socket) == 0

    def stop(self):
        """Asks it to end (SIGTERM) and yields its exit code."""
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
                raise AssertionError("collectord ignored SIGTERM; its log:\n" + self.log_tail())
        return self.process.wait() if self.process else None

    def kill(self):
        self.process.kill()
        self.process.wait()

    def log_tail(self):
        with open(self.log, errors="replace") as stream:
            return "".join(stream.readlines()[-25:])

    def environment(self, **more):
        """What a job needs to be traced by this daemon without a launcher."""
        return clean_environment(LD_PRELOAD=PRELOAD, TENSORTAP_SOCKET=self.socket, **more)

    def popen(self, argv, **options):
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        env = self.environment(**options.pop("env", {}))
        return subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, **options)

    def run(self, argv, timeout=120, **options):
        with self.popen(argv, **options) as process:
            try:
                out, err = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                raise AssertionError("hangs under the probe: %s" % " ".join(argv))
        return subprocess.CompletedProcess(argv, process.returncode, out, err)

    def runs(self):
        """Every run's folder in the state, workers' too, oldest first."""
        found = []
        for path, folders, files in os.walk(os.path.join(self.state, "runs")):
            folders.sort()
            if "run.json" in files:
                found.append(Run(path))
        return found

    def finished_runs(self, seconds=20.0, count=0):
        """All runs, once there are `count` of them and none is open any more."""
        wait_until(lambda: len(self.runs()) >= count,
                   lambda: "%d runs of %d; the daemon's log:\n%s" % (len(self.runs()), count, self.log_tail()), seconds)
        wait_until(lambda: all(run.state != "open" for run in self.runs()),
                   lambda: "runs are still open; the daemon's log:\n" + self.log_tail(), seconds)
        return self.runs()

    def only_run(self, seconds=20.0):
        """The one run that has no parent, finalized."""
        wait_until(self.runs, lambda: "no run arrived; the daemon's log:\n" + self.log_tail(), seconds)
        runs = [run for run in self.finished_runs(seconds) if not run.is_worker]
        assert len(runs) == 1, [run.folder for run in runs]
        return runs[0]


class Run:
    """One run's folder."""

    def __init__(self, folder):
        self.folder = folder
        self.trace_path = os.path.join(folder, "trace.jsonl.zst")
        self.is_worker = os.path.basename(os.path.dirname(folder)) == "workers"

    @property
    def info(self):
        with open(os.path.join(self.folder, "run.json")) as stream:
            return json.load(stream)

    @property
    def state(self):
        return self.info["state"]

    @functools.cached_property
    def trace(self):
        return Trace(self.trace_path)

    @functools.cached_property
    def report(self):
        with open(os.path.join(self.folder, "report.json")) as stream:
            return json.load(stream)


class Span:
    def __init__(self, record):
        self.id, self.name, self.kind = record["id"], record["name"], record["span_kind"]
        self.parent_id, self.step = record.get("parent_id"), record.get("step")
        self.start, self.end = record["start_ns"], None
        self.measured = record.get("measured", False)
        self.ext, self.end_ext = record.get("ext", {}), {}


class Trace:
    """A trace in memory: `records` in the order of the file, spans by id, operators with their nesting."""

    def __init__(self, path):
        text = subprocess.run(["zstd", "-dcq", path], stdout=subprocess.PIPE, check=True).stdout
        self.records = [json.loads(line) for line in text.splitlines() if line.strip()]
        self.meta, self.terminal = self.records[0], self.records[-1]
        assert self.meta["kind"] == "meta", self.meta
        self.spans, self.ops = {}, []
        for record in self.records:
            if record["kind"] == "span_start":
                assert record["id"] not in self.spans, "span twice: %s" % record["id"]
                self.spans[record["id"]] = Span(record)
            elif record["kind"] == "span_end":
                span = self.spans[record["id"]]
                assert span.end is None, "span ends twice: %s" % record["id"]
                span.end, span.end_ext = span.start + record["duration_ns"], record.get("ext", {})
            elif record["kind"] == "op":
                self.ops.append(record)
        self._own = self._find_own_records()

    def _find_own_records(self):
        """Which op records are an op span's own: the last one of its name that is charged to it, if the span ended."""
        own = {}
        for index, op in enumerate(self.ops):
            span = self.spans.get(op["span_id"])
            if span and span.kind == "op" and span.name == op["op_name"] and span.end is not None:
                if "cut" not in span.end_ext:
                    own[span.id] = index
        return set(own.values())

    def ancestors(self, span_id):
        while span_id is not None:
            span = self.spans[span_id]
            yield span
            span_id = span.parent_id

    def enclosing_spans(self, index):
        """The spans around operator `index`, innermost first, without the operator's own span."""
        chain = list(self.ancestors(self.ops[index]["span_id"]))
        return chain[1:] if index in self._own else chain

    def counts(self, choose=lambda op: True):
        """{name: [calls, calls that no other aten operator encloses]} of the aten operators."""
        by_name = collections.defaultdict(lambda: [0, 0])
        for index, op in enumerate(self.ops):
            if op["op_name"].startswith("aten::") and choose(op):
                by_name[op["op_name"]][0] += 1
                inside = any(s.kind == "op" and s.name.startswith("aten::") for s in self.enclosing_spans(index))
                by_name[op["op_name"]][1] += not inside
        return dict(by_name)

    def modules(self):
        return [span for span in self.spans.values() if span.kind == "module"]

    def steps(self):
        """The iterations, by their number."""
        found = [s for s in self.spans.values() if "step_number" in s.ext]
        return sorted(found, key=lambda span: span.ext["step_number"])

    def inside(self, outer):
        """Spans below `outer`."""
        return [s for s in self.spans.values() if any(a is outer for a in self.ancestors(s.parent_id))]

    def top_ops_inside(self, span):
        """Operators below a span that no other operator encloses, in the order of their ends."""
        found = []
        for index, op in enumerate(self.ops):
            chain = self.enclosing_spans(index)
            if any(s is span for s in chain) and not any(s.kind == "op" for s in chain):
                found.append(op)
        return sorted(found, key=lambda op: op["timestamp_ns"] + op["duration_ns"])


def job(name, *arguments):
    return [os.path.join(JOBS, name + ".py")] + [str(a) for a in arguments]


def plain(argv, timeout=120, **options):
    """Runs a program without anything of ours."""
    env = clean_environment(**options.pop("env", {}))
    return subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=timeout, **options)


def describe(argv):
    return json.loads(plain(argv + ["--describe"]).stdout)


def profiler_counts(argv, folder):
    """Operator counts of a job by PyTorch's own profiler, without anything of ours in the process."""
    path = os.path.join(str(folder), "counts.json")
    result = plain(argv + ["--counts", path])
    assert result.returncode == 0, result.stderr.decode()
    with open(path) as stream:
        return {name: list(calls) for name, calls in json.load(stream)["by_name"].items()}


def died_of(process_or_code, sig):
    code = getattr(process_or_code, "returncode", process_or_code)
    return code == -int(sig)


SIGNALS = {"kill": signal.SIGKILL, "abort": signal.SIGABRT, "segv": signal.SIGSEGV}
