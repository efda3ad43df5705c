"""Kills at random moments of job, daemon or both: what is stored is exact.

The job runs full((1,), base + i) for i = 0, 1, 2, … on two threads and writes into a shared file mapping how many it
has finished, which survives any death. So the truth is known: the stored operators of a thread must be exactly the
sequence's beginning - nothing twice, nothing missing, nothing out of order - and
- while the daemon lives, everything the job finished is there, however the job died;
- while the job lives, everything is there at the end, however often the daemon died;
- when both die, the beginning that is there is exact, and the rest is stated as unknown, never as nothing.
"""
import os
import random
import struct
import tempfile
import time

import pytest

import support

THREADS, BASE = 2, 1000000
SEED = int(os.environ.get("TENSORTAP_SEED", "0")) or random.SystemRandom().randrange(1, 10**9)


class Sequence:
    """A counting job under a daemon."""

    def __init__(self, torch, daemon, count, pace_us):
        self.progress_path = tempfile.mktemp(prefix="progress-", dir=daemon.root)
        self.process = daemon.popen(torch.cpp("sequence", "--count", count, "--threads", THREADS, "--pace-us", pace_us,
                                              "--progress", self.progress_path))

    def finished(self):
        """How many values each thread has finished."""
        try:
            with open(self.progress_path, "rb") as stream:
                return struct.unpack("<%dQ" % THREADS, stream.read(8 * THREADS))
        except (OSError, struct.error):
            return (0,) * THREADS

    def wait(self):
        out, err = self.process.communicate(timeout=60)
        assert (out, err) == (b"", b""), (out, err)
        return self.process.returncode


def stored_values(run, from_the_first=True):
    """How many values of each thread are stored, after checking that its operators are an exact run of the sequence.

    It begins with the job's first value unless told otherwise. Also checks what is around each value: `full` calls
    `empty` and `fill_`, in that order, each round."""
    by_thread = {}
    for op in run.trace.ops:
        by_thread.setdefault(op["ext"]["thread"], []).append(op)
    found = {}
    for ops in by_thread.values():
        values = [op["ext"]["args"][1] for op in ops if op["op_name"] == "aten::full"]
        names = [op["op_name"] for op in ops]
        pattern = ["aten::empty", "aten::fill_", "aten::full"]
        if not from_the_first:  # the capture may have begun within a round
            names = names[names.index("aten::full") + 1:] if "aten::full" in names else []
        assert names == (pattern * (len(values) + 1))[:len(names)], (run.folder, names[-9:])
        if values:
            thread = values[0] // BASE - 1
            first = BASE * (thread + 1) if from_the_first else values[0]
            assert values == list(range(first, first + len(values))), run.folder
            assert thread not in found, "one thread's operators on two threads: " + run.folder
            found[thread] = len(values)
    return [found.get(thread, 0) for thread in range(THREADS)]


@pytest.fixture(params=["job", "daemon", "both"])
def victim(request):
    return request.param


def test_what_is_stored_is_exact_after_kills_at_random_moments(victim, torch):
    dice = random.Random("%s %s %d" % (victim, torch.label, SEED))
    for number in range(support.repetitions(full=17, ci=4)):  # × 3 victims × 2 torches: 100, 20 in CI
        where = "seed %d, %s, kill %d" % (SEED, victim, number)
        with support.Daemon() as daemon:
            try:
                {"job": kill_job, "daemon": kill_daemon, "both": kill_both}[victim](torch, daemon, dice)
            except AssertionError as error:
                raise AssertionError("%s: %s\nkept: %s" % (where, error, daemon.root)) from error


def started(torch, daemon, dice, count):
    """A running job, at a random moment of its life: from its start to the middle of its work."""
    sequence = Sequence(torch, daemon, count, pace_us=dice.choice((20, 50, 200)))
    if dice.random() < 0.8:
        support.wait_until(lambda: max(sequence.finished()) > 0 or sequence.process.poll() is not None, "no progress")
        time.sleep(dice.random() * 0.3)
    else:
        time.sleep(dice.random() * 0.5)
    return sequence


def kill_job(torch, daemon, dice):
    sequence = started(torch, daemon, dice, count=10**6)
    sequence.process.kill()
    sequence.wait()
    finished = sequence.finished()
    runs = daemon.finished_runs()
    if not runs:  # it died before it could say hello: only possible before its first operators were over
        assert max(finished) < 200, "a job that worked for a while never arrived"
        return
    (run,) = runs
    assert run.state == "failed" and run.trace.terminal["outcome"] == "failed"
    stored = stored_values(run)
    dropped = sum(run.info["ledger"]["dropped"].values())
    for done, kept in zip(finished, stored):
        assert done <= kept <= done + 1 or dropped, "finished %s, stored %s" % (finished, stored)
    assert run.info["ledger"].get("unknown_tail_bytes_max", 0) == 0, run.info["ledger"]


def kill_daemon(torch, daemon, dice):
    count = 4000
    sequence = started(torch, daemon, dice, count)
    # A job that finds no daemon captures nothing until there is one; then its trace begins where the capture did.
    known = bool(daemon.runs())
    for _ in range(dice.choice((1, 1, 2))):
        daemon.kill()
        time.sleep(dice.random() * 0.4)
        daemon.start()
        time.sleep(dice.random() * 0.2)
    assert sequence.wait() == 0
    if not known and not daemon.runs():
        return  # it ended before it found a daemon
    run = daemon.only_run()
    if run.state == "failed":  # the job ended while no daemon lived: both were gone
        check_unknown_tail(run)
        assert all(kept <= count for kept in stored_values(run, known))
        return
    if known:
        assert stored_values(run) == [count] * THREADS
    else:
        stored_values(run, known)
        last = [op["ext"]["args"][1] for op in run.trace.ops if op["op_name"] == "aten::full"]
        assert {BASE * (t + 1) + count - 1 for t in range(THREADS)} <= set(last), "the end is missing"
    assert run.trace.terminal["outcome"] == "complete"


def kill_both(torch, daemon, dice):
    sequence = started(torch, daemon, dice, count=10**6)
    if dice.random() < 0.5:
        daemon.kill()
        time.sleep(dice.random() * 0.2)
        sequence.process.kill()
    else:
        sequence.process.kill()
        daemon.kill()
    sequence.wait()
    finished = sequence.finished()
    daemon.start()
    for run in daemon.finished_runs(seconds=30):
        assert run.state == "failed", run.info
        if not os.path.exists(run.trace_path):  # both died before the first write: nothing is there, and it says so
            assert run.info["ledger"]["unknown_tail_bytes_max"] > 0 and run.info["reason"], run.info
            continue
        stored = stored_values(run)
        assert all(kept <= done + 1 for kept, done in zip(stored, finished)), (stored, finished)
        if any(kept < done for kept, done in zip(stored, finished)):
            check_unknown_tail(run)


def check_unknown_tail(run):
    """What is missing is stated: an upper bound above zero, and words."""
    assert run.info["ledger"]["unknown_tail_bytes_max"] > 0, run.info["ledger"]
    assert run.trace.terminal["outcome"] == "failed" and run.trace.terminal["reason"]
