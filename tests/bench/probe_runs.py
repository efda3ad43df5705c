"""Runs of bench programs: pinned, without us, under an empty callback, under the probe with a real daemon."""
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BENCH = ROOT / "tests/bench"


def torches(build):
    """(version, probe_ops program or None, python with that torch or None) for each backend of the build."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
    pythons = ["/usr/bin/python3", str(cache / "tensortap/torch2-venv/bin/python3")]
    by_version = {}
    for python in filter(os.path.exists, pythons):
        asked = subprocess.run([python, "-c", "import torch; print(torch.__version__.split('+')[0])"],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        by_version.setdefault(asked.stdout.strip(), python)
    for line in (build / "lib/tensortap/backends.txt").read_text().splitlines():
        version = line.split()[1]
        program = build / "bin" / ("probe_ops-" + version)
        yield version, str(program) if program.exists() else None, by_version.get(version)


def cores():
    """(the job's core, the one of drain and daemon); the same where there is only one."""
    allowed = sorted(os.sched_getaffinity(0))
    return allowed[0], allowed[-1]


class Collector:
    """A daemon on the other core, with a state folder of its own."""

    def __init__(self, build):
        self.folder = tempfile.TemporaryDirectory(prefix="tensortap-bench-")
        self.socket = self.folder.name + "/s"
        self.state = self.folder.name + "/state"
        self.environment = {"LD_PRELOAD": str(build / "lib/tensortap/libtensortap.so"), "TENSORTAP_SOCKET": self.socket}
        self.process = subprocess.Popen(
            ["taskset", "-c", str(cores()[1]), str(build / "bin/collectord"), "--listen", self.socket, "--state", self.state],
            stderr=subprocess.DEVNULL)
        while not os.path.exists(self.socket):
            if self.process.poll() is not None:
                sys.exit("the collector ended")
            time.sleep(0.01)

    def newest_run(self):
        """run.json of the newest run once it is finished, and its folder."""
        for _ in range(6000):
            infos = sorted(pathlib.Path(self.state, "runs").glob("*/run.json"), key=lambda p: p.stat().st_mtime)
            if infos:
                info = json.loads(infos[-1].read_text())
                if info["state"] != "open":
                    return info, infos[-1].parent
            time.sleep(0.02)
        sys.exit("the collector did not finish a run")

    def dropped(self):
        return sum(self.newest_run()[0].get("ledger", {}).get("dropped", {}).values())

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.folder.cleanup()


def measure(command, environment=None):
    """What the program says of its loop. Its own thread goes to the first core, all others to the other one."""
    job, other = cores()
    done = subprocess.run(["taskset", "-c", "%d" % other] + command + ["--core", str(job)],
                          env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})},
                          stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout)


def interleaved(variants, rounds):
    """{name: (command, collector or None)}: each measured `rounds` times, in turn; adds the drops of each run."""
    results = {name: [] for name in variants}
    for _ in range(rounds):
        for name, (command, collector) in variants.items():
            one = measure(command, collector and collector.environment)
            one["dropped"] = collector.dropped() if collector else 0
            results[name].append(one)
    return results


def median(results, key="thread_cpu_ns", per="operators"):
    return statistics.median(one[key] / one[per] for one in results)


def instructions_per_operator(command, environment=None, operators=20000):
    """User-space instructions of the job's thread by callgrind: nine tenths of the loop less one tenth of it, so that what
    comes with a part whatever its length falls out."""
    with tempfile.TemporaryDirectory(prefix="tensortap-callgrind-") as folder:
        subprocess.run(["valgrind", "--tool=callgrind", "--separate-threads=yes", "--instr-atstart=no", "-q",
                        "--callgrind-out-file=" + folder + "/out"] + command + ["--operators", str(operators)],
                       env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})},
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        short, long = (
            int(re.search(r"^summary: (\d+)", pathlib.Path(folder, "out.%d-01" % part).read_text(), re.M).group(1))
            for part in (1, 2))
    return (long - short) / (0.8 * operators)
