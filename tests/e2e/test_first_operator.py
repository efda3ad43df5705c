"""The first operator after `import torch` is seen, every time, and nothing hangs or changes its exit code."""
import support

MARK = 31337


def test_the_first_operator_after_import_is_seen_in_every_run(torch):
    argv = torch.py("first_op")
    expected = support.plain(argv)
    assert expected.returncode == 7
    count = support.repetitions(full=200, ci=20)
    with support.Daemon() as daemon:
        for number in range(count):
            result = daemon.run(argv, timeout=60)
            assert (result.returncode, result.stdout, result.stderr) == (7, expected.stdout, expected.stderr), number
        runs = daemon.finished_runs(count=count)
        assert len(runs) == count
        for run in runs:
            full = [op for op in run.trace.ops if op["op_name"] == "aten::full"]
            assert len(full) == 1 and MARK in full[0]["ext"]["args"], run.folder
            names = [op["op_name"] for op in run.trace.ops]
            assert set(names) <= {"aten::full", "aten::empty", "aten::fill_"}, (run.folder, names)
            assert run.state == "complete", run.info


def test_the_first_operator_of_a_cpp_program_is_seen_in_every_run(torch, tmp_path):
    count = support.repetitions(full=200, ci=20)
    with support.Daemon() as daemon:
        for number in range(count):
            result = daemon.run(torch.cpp("sequence", "--count", 1), timeout=60)
            assert (result.returncode, result.stdout, result.stderr) == (0, b"", b""), number
        runs = daemon.finished_runs(count=count)
        assert len(runs) == count
        for run in runs:
            assert [op["ext"]["args"][1] for op in run.trace.ops if op["op_name"] == "aten::full"] == [1000000], run.folder
