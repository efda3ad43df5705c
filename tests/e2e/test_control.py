"""Captures that are ordered, begin and end while the job runs: trace-ctl, TENSORTAP_CAPTURE, always-on."""
import json
import os
import re
import signal
import subprocess
import time

import pytest

import support

TRACE_CTL = os.path.join(support.BUILD, "bin", "trace-ctl")


def ctl(daemon, *arguments, code=0, timeout=60):
    result = subprocess.run([TRACE_CTL, "--socket", daemon.socket, *[str(a) for a in arguments]], timeout=timeout,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=support.clean_environment())
    assert result.returncode == code, (arguments, result)
    return result.stdout if code == 0 else result.stderr


def listed(daemon, *arguments):
    text = subprocess.run([TRACE_CTL, "--socket", daemon.socket, "--json", "list", *arguments], stdout=subprocess.PIPE,
                          text=True, env=support.clean_environment()).stdout
    return [json.loads(line) for line in text.splitlines()]


def wait_for_probe(daemon, process, state="idle"):
    def look():
        assert process.poll() is None, process.communicate()
        found = [p for p in listed(daemon) if p["pid"] == process.pid and p["state"] == state]
        return found[0] if found else None

    return support.wait_until(look, "process %d is not %s" % (process.pid, state), 60)


@pytest.fixture
def daemon():
    with support.Daemon() as it:
        yield it


@pytest.fixture(params=["python", "cpp"])
def looping(request, torch):
    """argv of a job that trains until the file named by its last argument is there."""
    return lambda stop_file: (torch.py("paced_train", "--until", stop_file) if request.param == "python"
                              else torch.cpp("paced", "--until", stop_file))


class Running:
    """A job under the probe that is told to end by a file."""

    def __init__(self, daemon, argv, folder, capture="idle"):
        self.stop_file = os.path.join(str(folder), "stop")
        self.process = daemon.popen(argv(self.stop_file), env={"TENSORTAP_CAPTURE": capture})

    def __enter__(self):
        return self.process

    def __exit__(self, kind, *_):
        open(self.stop_file, "w").close()
        try:
            out, err = self.process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        if kind is None:
            assert self.process.returncode == 0, (out, err)
            assert err == b"" and out.startswith(b"steps "), (out, err)


def assert_whole(run, numbers):
    """A capture of these steps: each complete, nothing outside the window, forward, backward and optimizer in each."""
    trace = run.trace
    assert trace.terminal["outcome"] == "complete"
    steps = trace.steps()
    assert [s.ext["step_number"] for s in steps] == numbers
    window = next(s for s in trace.spans.values() if s.measured)
    for step in steps:
        assert step.end is not None and window.start <= step.start and step.end <= window.end
        assert {"forward", "backward", "optimizer"} <= {s.step for s in trace.inside(step)}, step.name
    assert steps[0].start == window.start, "the window opens with its first step"
    for op in trace.ops:
        assert window.start <= op["timestamp_ns"] and op["timestamp_ns"] + op["duration_ns"] <= window.end
    assert run.info["diagnostics"].get("line_after_terminal", 0) == 0
    ledger = run.info["ledger"]
    assert ledger["offered"] == ledger["stored"] and not ledger["dropped"]
    check = subprocess.run([support.TRACE_ANALYZE, "validate", run.trace_path], stdout=subprocess.PIPE, text=True)
    assert check.returncode == 0, check.stdout


def test_an_idle_probe_records_nothing_and_is_listed(looping, daemon, tmp_path, torch):
    with Running(daemon, looping, tmp_path) as process:
        probe = wait_for_probe(daemon, process)
        assert probe["torch"].startswith(torch.version) and probe["command"], probe
        text = ctl(daemon, "list")
        assert re.search(r"^%d +idle .*--until" % process.pid, text, re.M), text
        assert listed(daemon, "--pid", str(process.pid)) == [probe] and listed(daemon, "--pid", "1") == []
    assert daemon.runs() == []
    support.wait_until(lambda: listed(daemon) == [], "the probe of a job that ended is still listed")


def test_the_next_three_steps_are_captured_whole(looping, daemon, tmp_path):
    with Running(daemon, looping, tmp_path) as process:
        wait_for_probe(daemon, process)
        text = ctl(daemon, "start", "--next", 3)
        run = daemon.only_run()
        assert run.trace_path in text
        wait_for_probe(daemon, process)
    first = run.trace.steps()[0].ext["step_number"]
    assert_whole(run, [first, first + 1, first + 2])
    operators = [[op["op_name"] for op in run.trace.ops if step.start <= op["timestamp_ns"] < step.end]
                 for step in run.trace.steps()]
    assert operators[0] == operators[1] == operators[2] != []


def test_captures_follow_each_other_in_one_process(looping, daemon, tmp_path):
    with Running(daemon, looping, tmp_path) as process:
        wait_for_probe(daemon, process)
        for _ in range(4):
            ctl(daemon, "start", "--next", 2, "--pid", process.pid)
        ctl(daemon, "start", "--duration", "200ms")
        ctl(daemon, "start")
        wait_for_probe(daemon, process, "capturing")
        assert "a capture is under way" in ctl(daemon, "start", "--next", 1, code=1)
        ctl(daemon, "stop")
        wait_for_probe(daemon, process)
    runs = sorted(daemon.finished_runs(count=6), key=lambda run: run.trace.meta["timestamp"])
    assert len(runs) == 6 and len({run.info["run"] for run in runs}) == 6
    for run in runs:
        assert run.state == "complete"
        assert run.trace.ops, "each capture sees operators"
        check = subprocess.run([support.TRACE_ANALYZE, "validate", run.trace_path], stdout=subprocess.PIPE, text=True)
        assert check.returncode == 0, check.stdout
    for run in runs[:4]:
        assert len(run.trace.steps()) == 2
    names = [sorted({op["op_name"] for op in run.trace.ops}) for run in runs[:4]]
    assert names[0] == names[1] == names[2] == names[3]


def test_steps_of_a_launched_job_are_numbered_from_its_beginning(torch, daemon):
    result = daemon.run(torch.py("killed", "--how", "kill", "--kill-step", "-1", "--steps", "10"),
                        env={"TENSORTAP_CAPTURE": "steps=4:6"})
    assert result.returncode == 0, result
    assert_whole(daemon.only_run(), [4, 5, 6])


def test_a_step_that_never_comes_leaves_no_trace_and_trace_run_says_so(torch, tmp_path):
    result = subprocess.run([support.TRACE_RUN, "--state", str(tmp_path / "state"), "--socket", str(tmp_path / "s"),
                             "--steps", "1000:", "--"] + torch.py("killed", "--how", "kill", "--kill-step", "-1"),
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=support.clean_environment(),
                            timeout=120)
    assert result.returncode == 0 and "before the first of the steps 1000:" in result.stderr, result


def test_a_captured_job_that_is_killed_keeps_its_steps(torch, daemon):
    result = daemon.run(torch.py("killed", "--how", "kill", "--kill-step", "7"), env={"TENSORTAP_CAPTURE": "steps=5:9"})
    assert support.died_of(result, signal.SIGKILL)
    run = daemon.only_run()
    assert run.state == "failed"
    assert [s.ext["step_number"] for s in run.trace.steps()] == [5, 6, 7]


def test_several_probes_are_not_ordered_by_accident(torch, daemon, tmp_path):
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        folder.mkdir()
    argv = lambda stop_file: torch.cpp("paced", "--until", stop_file)
    with Running(daemon, argv, folders[0]) as first, Running(daemon, argv, folders[1]) as second:
        wait_for_probe(daemon, first)
        wait_for_probe(daemon, second)
        assert "--pid" in ctl(daemon, "start", "--next", 1, code=2)
        ctl(daemon, "start", "--next", 1, "--all")
        assert len(daemon.finished_runs()) == 2
        ctl(daemon, "start", "--next", 1, "--pid", second.pid)
        assert sorted(run.info["pid"] for run in daemon.finished_runs()) == sorted([first.pid, second.pid, second.pid])
        assert "no probe" in ctl(daemon, "start", "--next", 1, "--rank", 3, code=1)


def test_idle_probes_outlive_the_collector(looping, daemon, tmp_path):
    with Running(daemon, looping, tmp_path) as process:
        wait_for_probe(daemon, process)
        for kill in (daemon.stop, daemon.kill):
            kill()
            daemon.start()
            wait_for_probe(daemon, process)
            ctl(daemon, "start", "--next", 1)
    assert len(daemon.finished_runs()) == 2


def test_no_collector_is_said_with_its_remedy(tmp_path):
    result = subprocess.run([TRACE_CTL, "--socket", str(tmp_path / "none"), "list"], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)
    assert result.returncode == 3 and "collectord --listen" in result.stderr, result
    for wrong in (["start", "--steps", "5:3"], ["start", "--next", "0"], ["start", "--duration", "5"], ["list", "--pid", "x"], []):
        result = subprocess.run([TRACE_CTL, *wrong], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert result.returncode == 2 and "--help" in result.stderr, (wrong, result)


def test_always_on_counts_every_operator_when_asked_to(torch, daemon):
    """Share 1: counts are exact, and the same as a full capture's."""
    argv = torch.py("killed", "--how", "kill", "--kill-step", "-1", "--steps", "6", "--linger", "5")
    full = daemon.run(argv)
    assert full.returncode == 0, full
    captured = {}
    for op in daemon.only_run().trace.ops:
        captured[op["op_name"]] = captured.get(op["op_name"], 0) + 1
    process = daemon.popen(argv, env={"TENSORTAP_CAPTURE": "always-on=1"})
    counts = {}

    def look():
        for probe in listed(daemon, "--pid", str(process.pid)):
            for entry in probe.get("always_on", {}).get("operators", []):
                counts[entry["name"]] = entry
        return counts.get("aten::cross_entropy_loss", {}).get("calls") == 6

    support.wait_until(look, lambda: "no counts: %s" % counts, 60)
    text = ctl(daemon, "status", "--pid", process.pid)
    assert "always-on" in text and "aten::" in text
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0 and err == b"", err
    for name, calls in captured.items():
        assert counts[name]["calls"] == calls, name
        assert sum(n for _, n in counts[name]["histogram"]) == calls
        assert counts[name]["total_ns"] >= sum(begin * n for begin, n in counts[name]["histogram"])
    assert len(daemon.runs()) == 1, "always-on writes no trace"
