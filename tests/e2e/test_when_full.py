"""A job that is faster than its collector: what is lost is counted, or the job waits and nothing is lost."""
import os
import signal
import time

import support

THREADS, COUNT = 2, 120000  # a ring holds the records of about half of them


def run(torch, daemon, policy):
    """The operators that the job runs are known; a collector that stands still in their midst falls behind for sure."""
    job = daemon.popen(torch.cpp("sequence", "--threads", THREADS, "--count", COUNT), env={"TENSORTAP_WHEN_FULL": policy})
    support.wait_until(daemon.runs, "the run does not begin")
    os.kill(daemon.process.pid, signal.SIGSTOP)
    time.sleep(1.5)
    os.kill(daemon.process.pid, signal.SIGCONT)
    out, err = job.communicate(timeout=300)
    assert (job.returncode, out, err) == (0, b"", b"")
    finished = daemon.only_run(120)
    ledger = finished.info["ledger"]
    assert ledger["offered"] == ledger["stored"] + sum(ledger["dropped"].values()), ledger
    rows = finished.report["timing"]["operators"]["rows"]
    return next(row["calls"] for row in rows if row["name"] == "aten::full"), ledger, finished.info["diagnostics"]


def test_a_job_that_blocks_loses_nothing(torch):
    for _ in range(5):  # on a busy machine the job may be over before the collector stands still
        with support.Daemon() as daemon:
            seen, ledger, noticed = run(torch, daemon, "block")
        assert not ledger["dropped"], ledger
        assert seen == THREADS * COUNT
        if noticed.get("waited_for_room"):
            return
    raise AssertionError("it never had to wait: this shows nothing")


def test_a_job_that_drops_says_how_much(torch, daemon):
    seen, ledger, _ = run(torch, daemon, "drop")
    assert seen <= THREADS * COUNT
    assert (seen == THREADS * COUNT) == (not ledger["dropped"]), (seen, ledger)
