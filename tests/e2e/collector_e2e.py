#!/usr/bin/env python3
"""The daemon as a process: plain producers, deaths of either side, bad surroundings. Standard library only.

    collector_e2e.py PATH/TO/collectord [pattern]

What needs a probe in a real job is in the test_*.py files beside this one; here a probe is played by this script with a
memfd of its own, so that every step of the protocol can be held still.
"""
import array
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

COLLECTORD = "collectord"


def meta(run):
    return json.dumps({
        "kind": "meta", "schema": "candle-graph/trace/10", "run_id": run, "correlation_id": "c", "entrypoint": "e2e",
        "phase": "infer", "timestamp": "2026-01-01T00:00:00Z", "capture_step": 1, "warmup_steps": 0, "device": "cpu",
        "measured_region_device_synchronized": False, "timing_mode": "host", "capture_contract": {
            "measurement_scope": "unknown", "operations": "none", "logical_memory": "none", "physical_memory": "none",
            "device_timing": "none"}, "tags": {}})


ROOT = '{"kind":"span_start","id":"s0.1","parent_id":null,"name":"root","start_ns":0,"span_kind":"function","measured":true}'
ROOT_END = '{"kind":"span_end","id":"s0.1","duration_ns":1000000}'
TERMINAL = '{"kind":"terminal","outcome":"complete","timestamp_ns":1000000}'


def op(n):
    return json.dumps({"kind": "op", "span_id": "s0.1", "op_name": "aten::op%d" % n, "inputs": [], "shape": [2],
                       "dtype": "f32", "device": "cpu", "duration_ns": 5, "timestamp_ns": n * 10, "input_dense_bytes": 0})


def text(*lines):
    return "".join(line + "\n" for line in lines).encode()


def wait_until(condition, what, seconds=15):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError("not within %d s: %s" % (seconds, what))


class RingMemory:
    """A memfd as format/ring_layout.h has it, with one ring (0) of text lines. The numbers are read from the header."""

    def __init__(self, layout):
        self.layout = layout
        self.segments = 16
        size = layout["pool_offset"] + self.segments * layout["segment"]
        self.fd = os.memfd_create("tensortap-e2e", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, size)
        import fcntl
        fcntl.fcntl(self.fd, 1033, 2)  # F_ADD_SEALS, F_SEAL_SHRINK
        os.pwrite(self.fd, struct.pack("<QIIQQQQQII", 0x31474E4952545454, layout["version"], layout["rings"], size, layout["rings_offset"],
                                       layout["strings_offset"], layout["strings_bytes"], layout["pool_offset"],
                                       self.segments, 0), 0)
        os.pwrite(self.fd, struct.pack("<QQI", os.getpid(), 0, 1), 64)  # pid, clock, rings_used
        self.head = 0
        self.time = 0

    def put(self, line):
        data = line.encode() + b"\n"
        size = (16 + 8 + len(data) + 7) // 8 * 8
        segment = self.layout["segment"]
        if self.head % segment + size > segment:
            raise AssertionError("this test's ring is one segment")
        self.time += 1
        record = struct.pack("<IHHQII", size, 2, 0, self.time, len(data), 0) + data
        os.pwrite(self.fd, record.ljust(size, b"\0"), self.layout["pool_offset"] + self.head)
        self.head += size
        ring = self.layout["rings_offset"]
        os.pwrite(self.fd, struct.pack("<H", 1), ring + self.layout["ring_segment_at"])
        os.pwrite(self.fd, struct.pack("<Q", self.head), ring + self.layout["ring_head_at"])


def read_layout():
    """The offsets, from a program compiled against the header: this script must not have a copy that grows old."""
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    program = r"""
#include <cstdio>
#include "format/ring_layout.h"
using namespace tensortap::format;
int main() {
  std::printf("{\"version\":%u,\"segment\":%llu,\"rings\":%u,\"rings_offset\":%llu,\"strings_offset\":%llu,\"strings_bytes\":%llu,"
              "\"pool_offset\":%llu,\"ring_segment_at\":%zu,\"ring_head_at\":%zu,\"ring_offered_at\":%zu}",
              kRingVersion, (unsigned long long)kSegmentBytes, kMaxRings, (unsigned long long)rings_offset(),
              (unsigned long long)strings_offset(), (unsigned long long)kStringTableBytes,
              (unsigned long long)pool_offset(), offsetof(RingHeader, segment), offsetof(RingHeader, head),
              offsetof(RingHeader, offered));
}
"""
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/layout.cpp", "w") as stream:
            stream.write(program)
        subprocess.run([os.environ.get("CXX", "c++"), "-std=c++17", "-I", source, folder + "/layout.cpp", "-o",
                        folder + "/layout"], check=True)
        return json.loads(subprocess.run([folder + "/layout"], stdout=subprocess.PIPE, check=True).stdout)


class Lines:
    """A connection that reads lines."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(15)
        self.socket.connect(path)
        self.rest = b""

    def send(self, data, fd=None):
        if fd is None:
            return self.socket.sendall(data)
        sent = self.socket.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
        if sent < len(data):  # else it may be closed by now
            self.socket.sendall(data[sent:])

    def line(self):
        while b"\n" not in self.rest:
            more = self.socket.recv(65536)
            if not more:
                raise AssertionError("the daemon closed the connection")
            self.rest += more
        line, self.rest = self.rest.split(b"\n", 1)
        return json.loads(line)

    def close(self):
        self.socket.close()

    def __del__(self):
        self.socket.close()


class CollectorTest(unittest.TestCase):
    layout = None

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tt-col-")
        self.root = self.folder.name
        self.socket = self.root + "/s"
        self.state = self.root + "/state"
        self.daemon = None

    def tearDown(self):
        if self.daemon and self.daemon.poll() is None:
            self.daemon.kill()
            self.daemon.wait()
        if self.daemon:
            self.daemon.stderr.close()
        self.folder.cleanup()

    def start(self, state=None, *options, **how):
        if self.daemon:
            self.daemon.stderr.close()
        self.daemon = subprocess.Popen([COLLECTORD, "--listen", self.socket, "--state", state or self.state, "--log-level",
                                        "error", *options], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, **how)
        wait_until(self.listens, "the daemon listens")

    def listens(self):
        self.assertIsNone(self.daemon.poll(), "the daemon ended")
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(self.socket) == 0

    def stop(self):
        self.daemon.terminate()
        return self.daemon.wait(15)

    def ctl(self, **request):
        client = Lines(self.socket)
        client.send(text(json.dumps(dict(kind="ctl", **request))))
        answers = []
        while True:
            answers.append(client.line())
            if answers[-1]["kind"] == "end":
                client.close()
                return answers[:-1]

    def run_of(self, name, state=None):
        """The run's control line, once it is in `state`."""
        def find():
            for run in self.ctl(command="runs"):
                if run["run"] == name and run["state"] in (state or run["state"]):
                    return run
        return wait_until(find, "run %s is %s" % (name, state))

    def stored(self, run):
        raw = subprocess.run(["zstd", "-dcq", run["folder"] + "/trace.jsonl.zst"], stdout=subprocess.PIPE, check=True).stdout
        return [json.loads(line) for line in raw.decode().splitlines()]

    def ledger(self, run):
        """The ledger of a run that is over: it adds up, and is the same in run.json and in the terminal."""
        ledger = self.info(run)["ledger"]
        self.assertEqual(ledger["offered"], ledger["stored"] + sum(ledger["dropped"].values()), ledger)
        return ledger

    def names(self, run):
        return [r["op_name"] for r in self.stored(run) if r["kind"] == "op"]

    def info(self, run):
        with open(run["folder"] + "/run.json") as stream:
            return json.load(stream)

    def producer(self, data, close=True):
        producer = Lines(self.socket)
        producer.send(data)
        if close:
            producer.close()
        return producer

    def hello(self, memory, run, resume=False):
        probe = Lines(self.socket)
        probe.send(text(json.dumps({"kind": "hello", "protocol": 1, "run": run, "resume": resume, "pid": os.getpid(),
                                    "exe": sys.executable, "launch": "L"})), memory.fd)
        return probe


class PlainProducers(CollectorTest):
    def test_a_run_is_stored_and_reported(self):
        self.start()
        self.producer(text(meta("r1"), ROOT, op(1), ROOT_END, TERMINAL))
        run = self.run_of("r1", "complete")
        self.assertEqual(self.names(run), ["aten::op1"])
        for name in ("run.json", "report.json", "report.txt"):
            self.assertGreater(os.path.getsize(run["folder"] + "/" + name), 0)

    def test_two_at_once_do_not_mix(self):
        self.start()
        first, second = Lines(self.socket), Lines(self.socket)
        first.send(text(meta("r1"), ROOT))
        second.send(text(meta("r2"), ROOT))
        for n in range(0, 4000, 2):
            first.send(text(op(n)))
            second.send(text(op(n + 1)))
        for producer in (first, second):
            producer.send(text(ROOT_END, TERMINAL))
            producer.close()
        self.assertEqual(self.names(self.run_of("r1", "complete")), ["aten::op%d" % n for n in range(0, 4000, 2)])
        self.assertEqual(self.names(self.run_of("r2", "complete")), ["aten::op%d" % n for n in range(1, 4000, 2)])

    def test_a_killed_one_leaves_everything_that_was_whole(self):
        self.start()
        script = ("import socket,sys,time;s=socket.socket(socket.AF_UNIX);s.connect(sys.argv[1]);"
                  "s.sendall(sys.argv[2].encode());print('sent',flush=True);time.sleep(60)")
        data = text(meta("r1"), ROOT, op(1), op(2)).decode() + '{"kind":"op","cut'
        with subprocess.Popen([sys.executable, "-c", script, self.socket, data], stdout=subprocess.PIPE) as child:
            child.stdout.readline()
            child.kill()
        run = self.run_of("r1", "failed")
        self.assertEqual(self.names(run), ["aten::op1", "aten::op2"])
        self.assertEqual(self.info(run)["diagnostics"], {"unfinished_line": 1})
        self.assertEqual(self.stored(run)[-1]["outcome"], "failed")
        self.assertIn("process", run["reason"])

    def test_garbage_costs_its_producer_only(self):
        self.start()
        steady = Lines(self.socket)
        steady.send(text(meta("good"), ROOT))
        for data in (b"\x00" * 70000, b"x" * (3 << 20), os.urandom(100000), b"\n\n\n", b"{" * 100000 + b"\n",
                     text(meta("g1")) + os.urandom(300000) + b"\n" + text(TERMINAL), text(meta("g2")) + b"y" * (2 << 20),
                     text('{"kind":"hello"}'), text('{"kind":"ctl"}'), text('{"kind":"ctl","command":"runs"}' * 2)):
            try:
                self.producer(data)
            except OSError:
                pass  # refused in the middle of it
        steady.send(text(op(1), ROOT_END, TERMINAL))
        self.assertEqual(self.names(self.run_of("good", "complete")), ["aten::op1"])
        self.run_of("g2", "failed")
        self.assertEqual(self.stop(), 0)


class Probes(CollectorTest):
    def test_the_whole_protocol(self):
        self.start()
        memory = RingMemory(self.layout)
        probe = self.hello(memory, "p1")
        self.assertEqual(probe.line(), {"kind": "welcome", "protocol": 1, "run": "p1", "cursors": []})
        probe.send(text(meta("p1"), ROOT, op(1), '{"kind":"batch","seq":1,"cursors":[[0,8]]}'))
        self.assertEqual(probe.line(), {"kind": "ack", "seq": 1})
        probe.send(text(ROOT_END, TERMINAL, '{"kind":"batch","seq":2,"cursors":[[0,16]]}'))
        self.assertEqual(probe.line(), {"kind": "ack", "seq": 2})
        self.assertEqual(self.names(self.run_of("p1", "complete")), ["aten::op1"])

    def test_a_daemon_killed_and_started_again_loses_and_repeats_nothing(self):
        self.start()
        memory = RingMemory(self.layout)
        positions = []
        for line in (meta("p1"), ROOT, op(1), op(2), ROOT_END, TERMINAL):
            memory.put(line)
            positions.append(memory.head)
        probe = self.hello(memory, "p1")
        probe.line()
        probe.send(text(meta("p1"), ROOT, op(1), '{"kind":"batch","seq":1,"cursors":[[0,%d]]}' % positions[2]))
        probe.line()
        probe.send(text(op(2)))  # not committed
        self.daemon.kill()
        self.daemon.wait()
        self.start()
        probe = self.hello(memory, "p1", resume=True)
        self.assertEqual(probe.line()["cursors"], [[0, positions[2]]])
        probe.send(text(op(2), ROOT_END, TERMINAL, '{"kind":"batch","seq":2,"cursors":[[0,%d]]}' % positions[5]))
        probe.line()
        run = self.run_of("p1", "complete")
        self.assertEqual(self.names(run), ["aten::op1", "aten::op2"])
        with open(run["folder"] + "/report.json") as stream:
            self.assertEqual(json.load(stream)["input"]["records"], 6)

    def test_a_hang_up_of_a_living_process_is_given_time(self):
        self.start()
        memory = RingMemory(self.layout)
        memory.put(meta("p1"))
        memory.put(ROOT)
        probe = self.hello(memory, "p1")
        probe.line()
        probe.close()
        time.sleep(0.5)
        self.assertEqual(self.run_of("p1")["state"], "open")
        probe = self.hello(memory, "p1", resume=True)
        self.assertEqual(probe.line()["kind"], "welcome")
        probe.close()
        run = self.run_of("p1", "failed")  # two seconds later
        self.assertIn("did not come back", run["reason"])
        self.assertEqual([r["kind"] for r in self.stored(run)], ["meta", "span_start", "terminal"])

    def test_a_dead_process_is_noticed_though_a_child_holds_its_socket(self):
        self.start()
        memory = RingMemory(self.layout)
        memory.put(meta("p1"))
        memory.put(ROOT)
        read_end, write_end = os.pipe()
        probe_pid = os.fork()
        if probe_pid == 0:
            probe = self.hello(memory, "p1")
            probe.line()
            child = os.fork()
            if child == 0:
                time.sleep(30)
                os._exit(0)
            os.write(write_end, struct.pack("<i", child))
            time.sleep(30)
            os._exit(0)
        child = struct.unpack("<i", os.read(read_end, 4))[0]
        os.kill(probe_pid, signal.SIGKILL)
        os.waitpid(probe_pid, 0)
        started = time.monotonic()
        runs = self.ctl(command="wait", launch="L", timeout_ms=10000)
        os.kill(child, signal.SIGKILL)
        self.assertEqual([run["state"] for run in runs], ["failed"])
        self.assertIn("process %d died" % probe_pid, runs[0]["reason"])
        self.assertLess(time.monotonic() - started, 2)
        os.close(read_end)
        os.close(write_end)

    def test_when_both_die_the_tail_is_unknown_and_bounded(self):
        self.start()
        memory = RingMemory(self.layout)
        probe_pid = os.fork()
        if probe_pid == 0:
            probe = self.hello(memory, "p1")
            probe.line()
            probe.send(text(meta("p1"), ROOT, '{"kind":"batch","seq":1,"cursors":[[0,8]]}'))
            probe.line()
            os.kill(self.daemon.pid, signal.SIGKILL)
            os._exit(0)
        os.waitpid(probe_pid, 0)
        self.daemon.wait()
        self.start()
        run = self.run_of("p1", "failed")
        self.assertEqual(self.info(run)["ledger"]["unknown_tail_bytes_max"], os.fstat(memory.fd).st_size)
        self.assertEqual(self.stored(run)[-1]["ext"]["ledger"]["unknown_tail_bytes_max"], os.fstat(memory.fd).st_size)

    def test_wait_does_not_wait_for_the_living_nor_for_other_launches(self):
        self.start()
        probe = self.hello(RingMemory(self.layout), "p1")
        probe.line()
        started = time.monotonic()
        self.assertEqual([run["state"] for run in self.ctl(command="wait", launch="L", timeout_ms=10000)], ["open"])
        self.assertEqual(self.ctl(command="wait", launch="none", timeout_ms=10000), [])
        self.assertLess(time.monotonic() - started, 5)


class Stopping(CollectorTest):
    def test_sigterm_keeps_what_is_whole_and_leaves_runs_open(self):
        self.start()
        memory = RingMemory(self.layout)
        probe = self.hello(memory, "p1")
        probe.line()
        probe.send(text(meta("p1"), ROOT, op(1), '{"kind":"batch","seq":1,"cursors":[[0,8]]}', op(2)))
        run = self.run_of("p1")
        self.assertEqual(self.stop(), 0)
        self.assertFalse(os.path.exists(self.socket))
        self.assertEqual(self.info(run)["state"], "open")
        self.assertEqual(self.names(run), ["aten::op1"])
        self.start()
        probe = self.hello(memory, "p1", resume=True)
        self.assertEqual(probe.line()["cursors"], [[0, 8]])

    def test_sigint_with_nothing_to_do(self):
        self.start()
        self.daemon.send_signal(signal.SIGINT)
        self.assertEqual(self.daemon.wait(15), 0)

    def test_a_stop_in_the_moment_it_listens_is_an_orderly_one(self):
        for signum in (signal.SIGINT, signal.SIGTERM) * 10:
            daemon = subprocess.Popen([COLLECTORD, "--listen", self.socket, "--state", self.state, "--log-level", "off"])
            while daemon.poll() is None and not os.path.exists(self.socket):
                pass  # no sleep: the moment is what is tested
            daemon.send_signal(signum)
            self.assertEqual(daemon.wait(15), 0)
            self.assertFalse(os.path.exists(self.socket))


class Surroundings(CollectorTest):
    def refused(self, code, *words, **places):
        result = subprocess.run([COLLECTORD, "--listen", places.get("listen", self.root + "/other"), "--state",
                                 places.get("state", self.root + "/other-state")], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, timeout=15, **places.get("options", {}))
        message = result.stderr.decode()
        self.assertEqual(result.returncode, code, message)
        self.assertEqual(len(message.splitlines()), 1, message)
        self.assertEqual(result.stdout, b"")
        for word in words:
            self.assertIn(word, message)

    def test_a_path_that_is_too_long(self):
        self.refused(2, "107", "--listen", listen=self.root + "/" + "x" * 110)

    def test_a_socket_that_is_taken(self):
        self.start()
        self.refused(1, self.socket, "--listen", listen=self.socket)
        self.assertTrue(self.listens())

    def test_a_state_folder_that_is_taken(self):
        self.start()
        self.refused(1, self.state, str(self.daemon.pid), "--state", state=self.state)
        self.assertFalse(os.path.exists(self.root + "/other"), "the socket of the one that gave up is removed")

    def test_a_state_folder_that_cannot_be_made(self):
        open(self.root + "/file", "w").close()
        self.refused(2, "file", "--state", state=self.root + "/file/state")

    def test_a_state_folder_that_cannot_be_written(self):
        os.makedirs(self.state + "/runs")
        os.chmod(self.state + "/runs", 0o500)
        listen = self.root + "/open"
        os.mkdir(listen)
        user = {}
        if os.getuid() == 0:  # who may write everywhere
            os.chmod(self.root, 0o755)
            os.chmod(self.state + "/runs", 0o555)
            os.chmod(listen, 0o777)
            user = {"user": 65534}
            try:
                subprocess.run([COLLECTORD, "--version"], stdout=subprocess.DEVNULL, **user)
            except OSError:
                self.skipTest("the daemon's program cannot be run by another user than root")
        self.refused(2, self.state, "--state", state=self.state, listen=listen + "/s", options=user)

    def test_usage(self):
        for arguments, code in ((["--help"], 0), (["--version"], 0), (["--nonsense"], 2), (["--log-level", "loud"], 2)):
            result = subprocess.run([COLLECTORD] + arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=15)
            self.assertEqual(result.returncode, code, arguments)
            self.assertEqual(bool(result.stdout), code == 0)
        help_text = subprocess.run([COLLECTORD, "--help"], stdout=subprocess.PIPE).stdout.decode()
        self.assertIn("Examples", help_text)

    def test_a_full_disk_fails_the_run_and_not_the_daemon(self):
        small = self.root + "/small"
        os.mkdir(small)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", small], stderr=subprocess.PIPE)
        if mounted.returncode != 0:
            self.skipTest("a small file system cannot be mounted: " + mounted.stderr.decode().strip())
        try:
            self.start(state=small + "/state")
            producer = Lines(self.socket)
            producer.send(text(meta("big"), ROOT))
            for n in range(300):  # bytes that do not compress
                line = json.loads(op(n))
                line["op_name"] = os.urandom(4000).hex()
                producer.send(text(json.dumps(line)))
            producer.send(text(ROOT_END, TERMINAL))
            producer.close()
            run = self.run_of("big", "failed")
            self.assertIn("No space left on device", run["reason"])
            lines = self.stored(run)
            self.assertEqual(lines[0]["kind"], "meta", "what was written stays readable")
            self.assertGreater(len(lines), 2)
            # The daemon goes on with the next run, once there is room.
            for name in os.listdir(run["folder"]):
                os.unlink(run["folder"] + "/" + name)
            self.producer(text(meta("next"), ROOT, op(1), ROOT_END, TERMINAL))
            self.assertEqual(self.names(self.run_of("next", "complete")), ["aten::op1"])
            self.assertEqual(self.stop(), 0)
        finally:
            if self.daemon and self.daemon.poll() is None:
                self.daemon.kill()
                self.daemon.wait()
            subprocess.run(["umount", small], check=True)


if __name__ == "__main__":
    if len(sys.argv) < 2 or not os.access(sys.argv[1], os.X_OK):
        sys.exit("usage: collector_e2e.py PATH/TO/collectord [unittest arguments]")
    COLLECTORD = os.path.abspath(sys.argv.pop(1))
    CollectorTest.layout = read_layout()
    unittest.main()
