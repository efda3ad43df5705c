"""Samples of the process's memory: the resident set against what limits it, in trace/10's form."""
import json
import os
import subprocess

import pytest

import support

# argv: file that lets it end. Holds 200 MiB that it has touched.
HOLDS = """
import os, sys, time, torch
torch.set_num_threads(1)
held = torch.ones(200 << 20, dtype=torch.uint8)
print("held", flush=True)
while not os.path.exists(sys.argv[1]):
    held[:8].add_(0)
    time.sleep(0.01)
"""


def machine_bytes():
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def resident(pid):
    with open("/proc/%d/statm" % pid) as stream:
        return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def samples(trace):
    return [r for r in trace.records if r["kind"] == "device_memory"]


def stored(run):
    """Samples of a run that is still being written: whole lines of whole frames."""
    text = subprocess.run(["zstd", "-dcq", run.trace_path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    lines = text[:text.rfind(b"\n") + 1].splitlines()
    return [json.loads(line) for line in lines if b'"kind":"device_memory"' in line]


def check_form(trace):
    (window,) = [span for span in trace.spans.values() if span.measured]
    found = samples(trace)
    assert found
    times = [sample["timestamp_ns"] for sample in found]
    assert times == sorted(times) and window.start <= times[0] and times[-1] <= window.end
    for sample in found:
        assert set(sample) == {"kind", "timestamp_ns", "device", "used_bytes", "capacity_bytes"}, "what is not observed is left out"
        assert sample["device"] == "cpu"
        assert 0 < sample["used_bytes"] <= sample["capacity_bytes"] <= machine_bytes()
    return found


def test_the_resident_set_is_sampled_while_the_window_is_open(torch, daemon, tmp_path):
    stop = str(tmp_path / "stop")
    with daemon.popen([torch.python, "-c", HOLDS, stop]) as job:
        assert job.stdout.readline() == b"held\n"

        def known():
            return resident(job.pid) if daemon.runs() else None

        seen = support.wait_until(known, "no run")
        assert seen > 200 << 20
        # As many looks as it takes: the job lives on until one of them is in the file.
        support.wait_until(lambda: any(s["used_bytes"] > 200 << 20 for r in daemon.runs() for s in stored(r)), "no such sample")
        open(stop, "w").close()
        assert job.wait(60) == 0
    found = check_form(daemon.only_run().trace)
    greatest = max(sample["used_bytes"] for sample in found)
    assert seen * 0.9 < greatest < seen * 1.5, (seen, greatest)


def test_a_job_of_a_moment_has_a_sample_too(torch, daemon):
    result = daemon.run(torch.cpp("sequence", "--count", 1))
    assert result.returncode == 0, result.stderr.decode()
    check_form(daemon.only_run().trace)


@pytest.mark.parametrize("job", ["mlp", "cnn"])
def test_the_report_shows_them(torch, traced, job):
    _, run, _ = traced(torch.cpp(job, "--steps", 12 if job == "mlp" else 8))
    check_form(run.trace)
    assert run.trace.meta["capture_contract"]["physical_memory"] == "partial", "nobody says that all were taken"
