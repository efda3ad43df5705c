"""Bad input: one clear line on stderr that names the thing, a non-zero exit code, nothing on stdout, no hang."""
import os
import socket

import pytest

import support


def refused(argv, *words, **options):
    result = support.plain(argv, timeout=20, **options)
    text = result.stderr.decode()
    assert result.returncode not in (0, -6, -11), (result.returncode, text)
    assert result.stdout == b"", result.stdout
    lines = [line for line in text.splitlines() if line.strip()]
    assert len(lines) == 1, text
    for word in words:
        assert word in text, text
    return text


def test_a_socket_path_that_is_too_long(tmp_path):
    path = "/tmp/" + "x" * 110
    refused([support.COLLECTORD, "--listen", path, "--state", str(tmp_path)], "107")
    refused([support.TRACE_RUN, "--socket", path, "--", "/bin/true"], "107")


def test_a_socket_that_another_daemon_has(daemon, tmp_path):
    refused([support.COLLECTORD, "--listen", daemon.socket, "--state", str(tmp_path)], daemon.socket)
    assert daemon.process.poll() is None, "the first daemon died of it"


def test_a_listen_path_that_is_a_file_is_not_removed(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    refused([support.COLLECTORD, "--listen", str(path), "--state", str(tmp_path)], "notes.txt")
    assert path.read_text() == "mine"


def test_a_stale_socket_of_a_dead_daemon_is_taken_over():
    with support.Daemon() as daemon:
        daemon.kill()
        assert os.path.exists(daemon.socket)
        daemon.start()
        assert daemon.process.poll() is None


def test_a_listen_path_in_a_folder_that_is_not_there(tmp_path):
    refused([support.COLLECTORD, "--listen", str(tmp_path / "none" / "s"), "--state", str(tmp_path)], "none")


def test_a_state_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    refused([support.COLLECTORD, "--listen", str(tmp_path / "s"), "--state", str(tmp_path / "file" / "state")], "file")
    refused([support.COLLECTORD, "--listen", str(tmp_path / "s"), "--state", "/proc/tensortap"], "/proc/tensortap")


def test_a_trace_that_is_none(tmp_path):
    paths = {
        "missing.jsonl": None, "empty.jsonl": b"", "words.txt": b"hello\nworld\n", "binary.jsonl.zst": os.urandom(4000),
        "object.jsonl": b'{"kind":"span_start"}\n', "array.jsonl": b"[1,2,3]\n",
    }
    for name, content in paths.items():
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        refused([support.TRACE_ANALYZE, str(path)], name)
    refused([support.TRACE_ANALYZE, str(tmp_path)], str(tmp_path))


def test_a_trace_cut_in_the_middle_yields_what_is_there_or_one_clear_line(torch, traced, tmp_path):
    _, run, _ = traced(torch.py("infer_loop", "--steps", 12))
    with open(run.trace_path, "rb") as stream:
        whole = stream.read()
    for fraction in (0.2, 0.5, 0.9, 0.999):
        cut = tmp_path / "cut.jsonl.zst"
        cut.write_bytes(whole[: int(len(whole) * fraction)])
        result = support.plain([support.TRACE_ANALYZE, str(cut)])
        assert result.returncode in (0, 1, 2, 3) and (result.stdout or result.stderr), result
        assert result.returncode != 0 or result.stdout, "success without a report"


@pytest.mark.parametrize("program", ["COLLECTORD", "TRACE_RUN", "TRACE_ANALYZE"])
def test_help_and_unknown_options(program):
    path = getattr(support, program)
    help_text = support.plain([path, "--help"])
    assert help_text.returncode == 0 and help_text.stdout and not help_text.stderr
    unknown = support.plain([path, "--no-such-option", *(["trace.jsonl"] if program == "TRACE_ANALYZE" else [])])
    assert unknown.returncode not in (0, -6, -11) and b"--no-such-option" in unknown.stderr and not unknown.stdout


def test_commands_that_are_not_there_or_not_executable(tmp_path):
    """As a shell says it: 127 for what is not found, 126 for what cannot be executed."""
    with support.Daemon() as daemon:
        missing = support.plain([support.TRACE_RUN, "--socket", daemon.socket, "--", "/nonexistent/program"])
        assert missing.returncode == 127 and b"/nonexistent/program" in missing.stderr
        plain_file = tmp_path / "file"
        plain_file.write_text("x")
        denied = support.plain([support.TRACE_RUN, "--socket", daemon.socket, "--", str(plain_file)])
        assert denied.returncode == 126 and b"file" in denied.stderr
    nothing = support.plain([support.TRACE_RUN])
    assert nothing.returncode not in (0, -6, -11) and nothing.stderr


def test_strangers_on_the_socket_cost_the_daemon_nothing(daemon, torch):
    for text in (b"", b"GET / HTTP/1.1\r\n\r\n", b"{}\n", b"\x00" * 4096, b'{"kind":"hello"}\n', b"x" * (2 << 20)):
        with socket.socket(socket.AF_UNIX) as stranger:
            stranger.settimeout(5)
            stranger.connect(daemon.socket)
            try:
                stranger.sendall(text)
                stranger.shutdown(socket.SHUT_WR)
                stranger.recv(4096)
            except OSError:
                pass  # refused in the middle of it
    assert daemon.process.poll() is None
    assert daemon.run(torch.cpp("sequence", "--count", 5)).returncode == 0
    assert daemon.only_run().state == "complete"


def test_a_plain_producer_of_lines_is_welcome(daemon):
    """Any program that writes trace/10 lines to the socket: one connection, one run."""
    lines = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "plain_producer.jsonl"), "rb").read()
    with socket.socket(socket.AF_UNIX) as producer:
        producer.connect(daemon.socket)
        producer.sendall(lines)
        producer.shutdown(socket.SHUT_WR)
        producer.settimeout(5)
        producer.recv(1)
    run = daemon.only_run()
    assert run.state == "complete", run.info
    assert len(run.trace.records) == len(lines.splitlines())


def test_the_daemon_ends_cleanly_on_sigterm_and_removes_its_socket():
    with support.Daemon() as daemon:
        assert daemon.stop() == 0
        assert not os.path.exists(daemon.socket)
