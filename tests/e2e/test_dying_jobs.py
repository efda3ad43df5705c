"""A job that dies leaves everything up to its last finished operator; a daemon that dies harms no job."""
import signal
import time

import pytest

import support

MARKER = 4242
STEPS, KILL_STEP = 10, 7


@pytest.fixture(params=["python", "cpp", "cpp-cnn"])
def dying(request, torch):
    """argv of a job that dies in step 7 of 10 as asked, and the same job when it lives."""
    def argv(how, kill_step=KILL_STEP):
        ending = ("--steps", STEPS, "--kill-step", kill_step, "--how", how)
        if request.param == "python":
            return torch.py("killed", *ending)
        return torch.cpp("cnn" if request.param == "cpp-cnn" else "mlp", *ending)

    return argv


@pytest.mark.parametrize("how", ["kill", "abort", "segv"])
def test_a_job_that_dies_in_step_7_leaves_steps_0_to_6_and_the_finished_operators_of_step_7(how, dying, traced):
    result, run, _ = traced(dying(how))
    _, whole, _ = traced(dying(how, kill_step=-1))
    assert support.died_of(result, support.SIGNALS[how])
    trace, complete = run.trace, whole.trace

    assert run.state == "failed"
    assert trace.terminal["outcome"] == "failed" and trace.terminal["reason"], trace.terminal
    assert run.info["reason"] == trace.terminal["reason"]

    steps = trace.steps()
    assert [s.ext["step_number"] for s in steps] == list(range(KILL_STEP + 1))
    assert all(step.end is not None for step in steps[:KILL_STEP])
    assert steps[KILL_STEP].end is None, "the step in which the job died has no end"
    for step in steps[:KILL_STEP]:
        assert {"forward", "backward", "optimizer"} <= {s.step for s in trace.inside(step)}

    # The job's main thread, operator for operator: what the living job did, up to the marker, and then nothing.
    names = [op["op_name"] for op in trace.ops]
    marker = next(i for i, op in enumerate(trace.ops)
                  if op["op_name"] == "aten::full" and MARKER in op["ext"]["args"])
    assert names[marker + 1:] == [], "operators after the last one the job ran"
    before = names[:marker - 2]  # without full and the two it calls
    assert names[marker - 2:marker] == ["aten::empty", "aten::fill_"]
    assert before == [op["op_name"] for op in complete.ops][:len(before)]
    losses = sum(name == "aten::cross_entropy_loss" for name in names)
    assert losses == KILL_STEP + 1, "the loss of the step in which the job died was computed and is there"


def test_a_report_of_a_dead_job_says_so(torch, traced):
    _, run, _ = traced(torch.py("killed", "--how", "kill"))
    with open(run.folder + "/report.txt") as stream:
        text = stream.read()
    assert "failed" in text.lower() and run.info["reason"] in text, text


def test_a_job_that_leaves_by_exit_is_complete_or_says_why_not(torch, traced):
    """os._exit in step 7: no destructor runs; the daemon takes the rest out of the rings."""
    result, run, _ = traced(torch.py("killed", "--how", "exit"))
    assert result.returncode == 3
    markers = [op for op in run.trace.ops if op["op_name"] == "aten::full" and MARKER in op["ext"]["args"]]
    assert len(markers) == 1


@pytest.mark.parametrize("sig", [signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP])
def test_a_job_whose_daemon_is_gone_ends_as_if_nothing_had_happened(sig, torch):
    argv = torch.py("cnn_train", "--steps", 40)
    expected = support.plain(argv)
    with support.Daemon() as daemon:
        with daemon.popen(argv) as process:
            support.wait_until(daemon.runs, "no run arrived")
            time.sleep(0.3)
            daemon.process.send_signal(sig)
            out, err = process.communicate(timeout=60)
        if sig == signal.SIGSTOP:
            daemon.process.send_signal(signal.SIGCONT)
        assert (process.returncode, out, err) == (expected.returncode, expected.stdout, expected.stderr)


def test_without_a_daemon_a_job_runs_as_ever_and_nothing_is_printed(torch):
    argv = torch.py("killed", "--kill-step", -1)
    expected = support.plain(argv)
    result = support.plain(argv, env={"LD_PRELOAD": support.PRELOAD, "TENSORTAP_SOCKET": "/nonexistent/socket"})
    assert (result.returncode, result.stdout, result.stderr) == (0, expected.stdout, expected.stderr)
