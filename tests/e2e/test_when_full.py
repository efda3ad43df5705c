"""A job that is faster than its collector: what is lost is counted, or the job waits and nothing is lost."""
import os
import signal
import threading

import support

THREADS, COUNT = 4, 40000


def run(torch, daemon, policy):
    """The operators that the job ran are known; a collector that stands still for a second is behind for sure."""
    os.kill(daemon.process.pid, signal.SIGSTOP)
    timer = threading.Timer(1.0, os.kill, (daemon.process.pid, signal.SIGCONT))
    timer.start()
    result = daemon.run(torch.cpp("sequence", "--threads", THREADS, "--count", COUNT), timeout=300,
                        env={"TENSORTAP_WHEN_FULL": policy})
    timer.join()
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")
    finished = daemon.only_run(120)
    ledger = finished.info["ledger"]
    assert ledger["offered"] == ledger["stored"] + sum(ledger["dropped"].values()), ledger
    rows = finished.report["timing"]["operators"]["rows"]
    return next(row["calls"] for row in rows if row["name"] == "aten::full"), ledger, finished.info["diagnostics"]


def test_a_job_that_blocks_loses_nothing(torch, daemon):
    seen, ledger, noticed = run(torch, daemon, "block")
    assert noticed["waited_for_room"] > 0, "it never had to wait: this shows nothing"
    assert not ledger["dropped"], ledger
    assert seen == THREADS * COUNT


def test_a_job_that_drops_says_how_much(torch, daemon):
    seen, ledger, _ = run(torch, daemon, "drop")
    assert seen <= THREADS * COUNT
    assert (seen == THREADS * COUNT) == (not ledger["dropped"]), (seen, ledger)
