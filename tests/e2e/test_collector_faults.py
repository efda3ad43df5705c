"""Producers that are hostile, slow, many or killed, a daemon that is killed: what was offered, stored and dropped
adds up, nothing is stored twice, and no other run is touched.

Plain producers, and probes that are played by this script; what needs a real job is in test_random_kills.py.
"""
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

import collector_e2e
import support
from collector_e2e import ROOT, ROOT_END, TERMINAL, Lines, RingMemory, meta, op, text, wait_until

collector_e2e.COLLECTORD = support.COLLECTORD
SEED = int(os.environ.get("TENSORTAP_SEED", "0")) or random.SystemRandom().randrange(1, 10**9)

# A plain producer that counts in shared memory how many of its operators the kernel has taken whole.
PRODUCER = """
import json, mmap, socket, struct, sys
path, progress, begin, end = sys.argv[1:5]
file = open(progress, "r+b")
count = mmap.mmap(file.fileno(), 8)
s = socket.socket(socket.AF_UNIX)
s.connect(path)
s.sendall(begin.encode())
line = json.loads(end)
n = 0
while True:
    block = []
    for i in range(1 + n % 37):
        line["op_name"] = "aten::op%d" % (n + i)
        block.append(json.dumps(line) + "\\n")
    s.sendall("".join(block).encode())
    n += len(block)
    count[:8] = struct.pack("<Q", n)
"""


def noise_op(n, size=4000):
    """An operator with a name that does not compress."""
    line = json.loads(op(n))
    line["op_name"] = "aten::op%d/%s" % (n, os.urandom(size).hex())
    return json.dumps(line)


def numbers(names):
    return [int(name.split("/")[0][len("aten::op"):]) for name in names]


class Case(collector_e2e.CollectorTest):
    @classmethod
    def setUpClass(cls):
        cls.layout = cls.layout or collector_e2e.read_layout()

    def steady(self):
        """A run that goes on beside the trouble, and is whole at its end."""
        producer = Lines(self.socket)
        producer.send(text(meta("steady"), ROOT, op(0)))

        def check():
            producer.send(text(op(1), ROOT_END, TERMINAL))
            producer.close()
            run = self.run_of("steady", "complete")
            self.assertEqual(self.names(run), ["aten::op0", "aten::op1"])
            self.assertEqual(self.ledger(run)["dropped"], {})

        return check

    def resident_kib(self):
        with open("/proc/%d/status" % self.daemon.pid) as stream:
            return int(next(line for line in stream if line.startswith("VmHWM")).split()[1])

    def descriptors(self):
        return len(os.listdir("/proc/%d/fd" % self.daemon.pid))


class Hostile(Case):
    def test_every_bad_line_is_counted_and_the_good_ones_are_stored(self):
        self.start()
        done = self.steady()
        bad = ["not json", "{}", "[1,2]", '{"kind":"novelty"}', '{"kind":7}', '{"kind":"op"', "\x00\x01", '"meta"',
               "[" * 100000, '{"kind":"' + "k" * 100000 + '"}', '{"a":' * 5000 + "1" + "}" * 5000]
        lines = [meta("bad"), ROOT]
        for n in range(100):
            lines += [bad[n % len(bad)], op(n)]
        lines += [ROOT_END, TERMINAL, op(7), op(8)]
        self.producer(text(*lines))
        run = self.run_of("bad", "complete")
        self.assertEqual(numbers(self.names(run)), list(range(100)))
        ledger = self.ledger(run)
        self.assertEqual((ledger["offered"], ledger["stored"]), (len(lines), 104))
        self.assertEqual(ledger["dropped"], {"bad_line": 100, "line_after_terminal": 2})
        self.assertEqual(ledger["stages"], {"daemon": ledger["dropped"]})
        self.assertEqual(self.stored(run)[-1]["ext"]["ledger"]["dropped"], {"bad_line": 100})
        with open(run["folder"] + "/report.json") as stream:
            self.assertEqual(json.load(stream)["run"]["ledger"]["dropped"], {"bad_line": 100})
        done()

    def test_an_endless_line_costs_its_producer_and_the_end_is_unknown_not_nothing(self):
        self.start()
        done = self.steady()
        endless = Lines(self.socket)
        try:
            endless.send(text(meta("endless"), ROOT, op(0)))
            for _ in range(100):
                endless.send(b"x" * (1 << 20))
        except OSError:
            pass  # refused in the middle of it
        run = self.run_of("endless", "failed")
        self.assertEqual(self.names(run), ["aten::op0"])
        ledger = self.ledger(run)
        self.assertEqual(ledger["dropped"], {"line_too_long": 1})
        self.assertIsNone(ledger["unknown_tail_bytes_max"])
        done()

    def test_huge_names_and_deep_values_are_lines_like_others(self):
        self.start()
        done = self.steady()
        deep = json.loads(op(1))
        lines = [meta("huge"), ROOT, noise_op(0, 400000), json.dumps(deep)[:-1] + ',"deep":' + "[" * 900 + "]" * 900 + "}",
                 ROOT_END, TERMINAL]
        self.producer(text(*lines))
        run = self.run_of("huge", "complete")
        self.assertEqual(self.ledger(run)["stored"], len(lines))
        done()

    def test_a_wrong_memfd_is_refused_with_the_reason(self):
        self.start()
        done = self.steady()
        read_end, write_end = os.pipe()
        unsealed = os.memfd_create("t", os.MFD_ALLOW_SEALING)
        os.ftruncate(unsealed, 1 << 20)
        never_sealed = os.memfd_create("t")
        empty = RingMemory(self.layout)
        lying = RingMemory(self.layout)
        os.pwrite(lying.fd, struct.pack("<Q", 1 << 40), 16)  # total_bytes
        with open("/dev/zero") as zero, open(__file__) as plain_file:
            for number, fd in enumerate((read_end, unsealed, never_sealed, lying.fd, zero.fileno(), plain_file.fileno())):
                stranger = Lines(self.socket)
                stranger.send(text(json.dumps({"kind": "hello", "protocol": 1, "run": "m%d" % number, "resume": False,
                                               "pid": os.getpid()})), fd)
                answer = stranger.line()
                self.assertEqual(answer["kind"], "refused", (number, answer))
                self.assertIn("memfd", answer["reason"])
        self.assertEqual(self.hello(empty, "m9").line()["kind"], "welcome")
        os.close(read_end)
        os.close(write_end)
        done()

    def test_a_ring_that_is_rewritten_while_it_is_read_costs_nothing_but_itself(self):
        self.start()
        done = self.steady()
        dice = random.Random(SEED)
        for round in range(support.repetitions(full=20, ci=4)):
            name = "lies%d" % round
            memory = RingMemory(self.layout)
            memory.put(meta(name))
            memory.put(ROOT)
            for n in range(100):
                memory.put(op(n))
            child = os.fork()
            if child == 0:
                try:
                    self.hello(memory, name).line()
                    os.kill(os.getpid(), signal.SIGKILL)
                finally:
                    os._exit(1)  # this is pytest's process, too
            end = time.monotonic() + 0.3
            size = os.fstat(memory.fd).st_size
            while time.monotonic() < end:  # heads, segments, strings, records
                at = dice.choice((dice.randrange(64, 4096), self.layout["rings_offset"] + dice.randrange(0, 4096),
                                  self.layout["strings_offset"] + dice.randrange(0, 4096),
                                  self.layout["pool_offset"] + dice.randrange(0, 32768)))
                os.pwrite(memory.fd, os.urandom(dice.choice((1, 4, 8))), min(at, size - 8))
            os.waitpid(child, 0)
            self.run_of(name, "complete failed".split())
            os.close(memory.fd)
            self.assertIsNone(self.daemon.poll(), "seed %d" % SEED)
        done()

    def test_who_holds_memory_waits_or_is_cut_and_the_others_go_on(self):
        self.start(None, "--max-memory", "16MiB")
        hogs = [self.hello(RingMemory(self.layout), "hog%d" % i) for i in range(4)]
        for hog in hogs:
            hog.line()

        def swallow(hog, name):
            try:
                hog.send(text(meta(name)))
                for n in range(60):  # 60 MB and never a batch line
                    hog.send(text(*[op(n)] * 5000))
            except OSError:
                pass

        threads = [threading.Thread(target=swallow, args=(hog, "hog%d" % i)) for i, hog in enumerate(hogs)]
        for thread in threads:
            thread.start()
        for n in range(20):
            self.producer(text(meta("r%d" % n), ROOT, *[op(i) for i in range(200)], ROOT_END, TERMINAL))
        for n in range(20):
            self.assertEqual(self.ledger(self.run_of("r%d" % n, "complete"))["stored"], 204)
        for i in range(4):
            run = self.run_of("hog%d" % i, ["failed"])
            self.assertFalse(os.path.exists(run["folder"] + "/trace.jsonl.zst"), "nothing of it was whole")
        for thread, hog in zip(threads, hogs):
            hog.socket.shutdown(socket.SHUT_RDWR)
            thread.join()
        self.assertLess(self.resident_kib(), 256 * 1024)

    def test_who_reads_no_answer_costs_the_others_nothing(self):
        self.start()
        done = self.steady()
        probe = self.hello(RingMemory(self.layout), "frozen")
        probe.send(text(meta("frozen"), ROOT))
        for n in range(2000):
            probe.send(text(op(n), '{"kind":"batch","seq":%d,"lines":%d,"cursors":[[0,%d,%d]]}'
                            % (n + 1, 3 if n == 0 else 1, 8 * (n + 1), n + 3)))
        done()
        probe.send(text(ROOT_END, TERMINAL, '{"kind":"batch","seq":2001,"lines":2,"cursors":[[0,80000,2004]]}'))
        run = self.run_of("frozen", "complete")
        self.assertEqual(numbers(self.names(run)), list(range(2000)))

    def test_very_many_connections_at_once(self):
        self.start()
        count = support.repetitions(full=500, ci=100)
        before = self.descriptors()
        producers = [Lines(self.socket) for _ in range(count)]
        for n, producer in enumerate(producers):
            producer.send(text(meta("c%d" % n), ROOT, op(n)))
        for n, producer in enumerate(producers):
            producer.send(text(op(n + 1), ROOT_END, TERMINAL))
            producer.close()
        wait_until(lambda: sum(run["state"] == "complete" for run in self.ctl(command="runs")) == count, "all complete", 60)
        for run in self.ctl(command="runs"):
            n = int(run["run"][1:])
            self.assertEqual(numbers(self.names(run)), [n, n + 1])
            self.assertEqual(self.ledger(run)["stored"], 6)
        wait_until(lambda: self.descriptors() <= before + 2, "descriptors are closed")

    def test_more_connections_than_allowed_are_refused_with_the_reason(self):
        self.start(None, "--max-connections", "5")
        kept = []

        def refusal():
            kept.append(Lines(self.socket))
            kept[-1].socket.settimeout(0.3)
            try:
                return kept[-1].line()
            except OSError:
                return None  # it is welcome to speak

        self.assertIn("--max-connections", wait_until(refusal, "one too many")["reason"])
        self.assertLessEqual(len(kept), 6)
        while kept:
            kept.pop().close()

        def runs():
            try:
                return self.ctl(command="runs") == []
            except (OSError, AssertionError, KeyError):
                return False

        wait_until(runs, "there is room again")


class Kills(Case):
    def producer_process(self, name):
        with tempfile.NamedTemporaryFile(dir=self.root, delete=False) as file:
            file.write(b"\0" * 8)
        child = subprocess.Popen([sys.executable, "-c", PRODUCER, self.socket, file.name, text(meta(name), ROOT).decode(), op(0)],
                                 stderr=subprocess.DEVNULL)
        return child, file.name

    @staticmethod
    def sent(progress):
        with open(progress, "rb") as stream:
            return struct.unpack("<Q", stream.read(8))[0]

    def test_producers_killed_at_random_moments_leave_exactly_what_they_sent(self):
        self.start()
        done = self.steady()
        dice = random.Random(SEED)
        for number in range(support.repetitions(full=100, ci=15)):
            where = "seed %d, kill %d" % (SEED, number)
            child, progress = self.producer_process("k%d" % number)
            wait_until(lambda: self.sent(progress) > 0, where)
            time.sleep(dice.random() * 0.05)
            child.kill()
            child.wait()
            sent = self.sent(progress)
            run = self.run_of("k%d" % number, "failed")
            stored = numbers(self.names(run))
            self.assertEqual(stored, list(range(len(stored))), where)
            self.assertGreaterEqual(len(stored), sent, where)
            ledger = self.ledger(run)
            self.assertEqual(ledger["stored"], len(stored) + 2, where)
            self.assertLessEqual(set(ledger["dropped"]), {"unfinished_line"}, where)
            self.assertEqual(ledger["unknown_tail_bytes_max"], 0, where)
        done()

    def test_a_daemon_killed_at_random_moments_leaves_exact_prefixes_and_says_that_the_end_is_unknown(self):
        dice = random.Random(SEED)
        for number in range(support.repetitions(full=50, ci=8)):
            where = "seed %d, kill %d" % (SEED, number)
            self.start(None, "--durability", dice.choice(("none", "end", "second", "frame")))
            name = "d%d" % number
            child, progress = self.producer_process(name)
            wait_until(lambda: self.sent(progress) > 0, where)
            time.sleep(dice.random() * 0.3)
            self.daemon.kill()
            self.daemon.wait()
            child.wait()
            self.start()
            if name not in [run["run"] for run in self.ctl(command="runs")]:
                # It died before it had heard of the run: nothing of it may be there.
                for _, _, files in os.walk(self.state + "/runs"):
                    if "trace.jsonl.zst" in files:
                        self.assertIn("run.json", files, where)
                self.stop()
                continue
            run = self.run_of(name, "failed")
            self.assertIsNone(self.ledger(run)["unknown_tail_bytes_max"], where)
            if os.path.exists(run["folder"] + "/trace.jsonl.zst"):
                stored = numbers(self.names(run))
                self.assertEqual(stored, list(range(len(stored))), where)
            self.daemon.kill()
            self.daemon.wait()

    def test_a_probe_goes_on_where_the_frames_end_however_often_the_daemon_is_killed(self):
        """Nothing twice, nothing missing, and the numbers of records prove it."""
        dice = random.Random(SEED)
        for number in range(support.repetitions(full=10, ci=2)):
            self.go_on_after_kills("p%d" % number, dice)

    def go_on_after_kills(self, name, dice):
        where = "seed %d" % SEED
        memory = RingMemory(self.layout)
        lines = [meta(name), ROOT] + [op(n) for n in range(3000)] + [ROOT_END, TERMINAL]
        ring = self.layout["rings_offset"]
        os.pwrite(memory.fd, struct.pack("<QQ", len(lines), len(lines)), ring + self.layout["ring_offered_at"])
        done = False
        resume = False
        while not done:
            self.start(None, "--durability", dice.choice(("end", "frame")))
            kill_at = time.monotonic() + dice.random() * 0.4
            killer = threading.Timer(max(0, kill_at - time.monotonic()), self.daemon.kill)
            last = dice.random() < 0.2
            if not last:
                killer.start()
            try:
                probe = self.hello(memory, name, resume=resume)
                answer = probe.line()
                self.assertEqual(answer["kind"], "welcome", (where, answer))
                resume = True
                at = answer["cursors"][0][1] // 8 if answer["cursors"] else 0
                seq = 0
                while at < len(lines):
                    take = min(dice.randrange(1, 120), len(lines) - at)
                    seq += 1
                    probe.send(text(*lines[at:at + take], '{"kind":"batch","seq":%d,"lines":%d,"cursors":[[0,%d,%d]]}'
                                    % (seq, take, 8 * (at + take), at + take)))
                    at += take
                while probe.line() != {"kind": "ack", "seq": seq}:
                    pass
                done = True
            except (OSError, AssertionError) as error:
                if isinstance(error, AssertionError) and "closed the connection" not in str(error):
                    raise
            killer.cancel()
            killer.join() if killer.is_alive() else None
            if not done:
                self.daemon.wait(10)
        if self.daemon.poll() is not None:
            self.start()
        run = self.run_of(name, ["complete"])
        self.assertEqual(numbers(self.names(run)), list(range(3000)), where)
        ledger = self.ledger(run)
        self.assertEqual((ledger["offered"], ledger["stored"], ledger["dropped"]), (len(lines), len(lines), {}), where)
        self.daemon.kill()
        self.daemon.wait()
