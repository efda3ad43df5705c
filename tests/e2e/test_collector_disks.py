"""Disks that are full, fail or become read-only, quotas and retention: a run degrades by the ledger, the daemon stays up, and
no other run is touched.
"""
import json
import os
import resource
import signal
import struct
import subprocess

from collector_e2e import ROOT, ROOT_END, TERMINAL, Lines, RingMemory, meta, op, text, wait_until
import test_collector_faults
from test_collector_faults import noise_op, numbers


class Disks(test_collector_faults.Case):
    def mount(self, options="size=2m"):
        small = self.root + "/small"
        os.mkdir(small)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", small], stderr=subprocess.PIPE)
        if mounted.returncode != 0:
            self.skipTest("a small file system cannot be mounted: " + mounted.stderr.decode().strip())
        self.mounts = [small]
        return small

    def tearDown(self):
        if self.daemon and self.daemon.poll() is None:
            self.daemon.kill()
            self.daemon.wait()
        for folder in getattr(self, "mounts", []):
            while os.path.ismount(folder):
                subprocess.run(["umount", "--lazy", folder], check=True)  # a bind mount of itself is always busy
        super().tearDown()

    def fill(self, path):
        with open(path, "wb", buffering=0) as stream:
            try:
                while True:
                    stream.write(b"x" * 4096)
            except OSError:
                pass

    def test_a_full_disk_costs_a_plain_run_and_the_ledger_counts_every_line(self):
        small = self.mount()
        self.start(small + "/state")
        lines = [meta("big"), ROOT] + [noise_op(n, 8000) for n in range(300)] + [ROOT_END, TERMINAL]
        self.producer(text(*lines))
        run = self.run_of("big", "failed")
        self.assertIn("No space left on device", run["reason"])
        ledger = self.ledger(run)
        self.assertEqual(ledger["offered"], len(lines))
        self.assertEqual(ledger["stages"], {"disk": {"write_failed": ledger["dropped"]["write_failed"]}})
        stored = self.stored(run)
        stored = [record for record in stored if record.get("ext", {}).get("written_by") != "collectord"]
        self.assertEqual(len(stored), ledger["stored"])
        self.assertEqual(self.stop(), 0)

    def test_a_probe_waits_for_a_full_disk_and_loses_nothing(self):
        small = self.mount()
        self.start(small + "/state")
        probe = self.hello(RingMemory(self.layout), "p1")
        probe.line()
        probe.send(text(meta("p1"), ROOT, '{"kind":"batch","seq":1,"cursors":[[0,8]]}'))
        self.assertEqual(probe.line(), {"kind": "ack", "seq": 1})
        self.fill(small + "/filler")
        for n in range(10):
            probe.send(text(noise_op(n, 20000)))
        probe.send(text('{"kind":"batch","seq":2,"cursors":[[0,16]]}'))
        probe.socket.settimeout(1.5)
        with self.assertRaises(OSError):
            probe.line()
        self.assertEqual(self.run_of("p1")["state"], "open", "and the daemon answers")
        os.unlink(small + "/filler")
        probe.socket.settimeout(15)
        self.assertEqual(probe.line(), {"kind": "ack", "seq": 2})
        probe.send(text(ROOT_END, TERMINAL, '{"kind":"batch","seq":3,"cursors":[[0,24]]}'))
        run = self.run_of("p1", "complete")
        self.assertEqual(numbers(self.names(run)), list(range(10)))
        self.assertGreater(self.info(run)["diagnostics"]["disk_wait"], 0)
        self.assertEqual(self.ledger(run)["dropped"], {})

    def test_what_a_dead_probe_held_when_the_disk_was_full_is_counted(self):
        small = self.mount()
        self.start(small + "/state")
        memory = RingMemory(self.layout)
        for line in (meta("p1"), ROOT):
            memory.put(line)
        first = memory.head
        for n in range(3):
            memory.put(noise_op(n, 4000))
        ring = self.layout["rings_offset"]
        os.pwrite(memory.fd, struct.pack("<QQ", 5, 5), ring + self.layout["ring_offered_at"])
        child = os.fork()
        if child == 0:
            try:
                probe = self.hello(memory, "p1")
                probe.line()
                probe.send(text(meta("p1"), ROOT, '{"kind":"batch","seq":1,"lines":2,"cursors":[[0,%d,2]]}' % first))
                probe.line()
                self.fill(small + "/filler")
                os.kill(os.getpid(), signal.SIGKILL)
            finally:
                os._exit(1)  # this is pytest's process, too
        os.waitpid(child, 0)
        run = self.run_of("p1", "failed")
        os.unlink(small + "/filler")
        wait_until(lambda: self.info(run)["state"] == "failed", "run.json is written when there is room")
        ledger = self.ledger(run)
        self.assertEqual((ledger["offered"], ledger["stored"]), (5, 2))
        self.assertEqual(ledger["dropped"], {"write_failed": 3})
        self.assertEqual(ledger["sequence"], {"published": 5, "on_disk": 2, "recovered": 3})

    def test_a_disk_that_fails_costs_the_run_that_it_fails(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (400000, 400000))

        self.start(None, preexec_fn=limit)
        done = self.steady()
        lines = [meta("big"), ROOT] + [noise_op(n, 8000) for n in range(200)] + [ROOT_END, TERMINAL]
        self.producer(text(*lines))
        run = self.run_of("big", "failed")
        self.assertIn("File too large", run["reason"])
        self.assertEqual(self.ledger(run)["offered"], len(lines))
        done()

    def test_a_disk_that_becomes_read_only_refuses_new_runs_with_the_reason_and_the_daemon_stays(self):
        small = self.mount()
        self.start(small + "/state")
        subprocess.run(["mount", "--bind", small, small], check=True)  # open files of the other one stay writable
        self.start(small + "/state")
        subprocess.run(["mount", "-o", "remount,ro,bind", small], check=True)
        refused = Lines(self.socket)
        refused.send(text(meta("r1"), ROOT))
        self.assertIn("Read-only", refused.line()["reason"])
        subprocess.run(["mount", "-o", "remount,rw,bind", small], check=True)
        self.producer(text(meta("r2"), ROOT, op(1), ROOT_END, TERMINAL))
        self.assertEqual(self.names(self.run_of("r2", "complete")), ["aten::op1"])


class Shares(test_collector_faults.Case):
    def test_a_quota_is_told_to_the_producer_and_the_run_says_it(self):
        self.start(None, "--quota-bytes", "1MB", "--quota-runs", "2")
        first, second, third = Lines(self.socket), Lines(self.socket), Lines(self.socket)
        first.send(text(meta("r1"), ROOT))
        second.send(text(meta("r2"), ROOT))
        self.run_of("r1"), self.run_of("r2")
        third.send(text(meta("r3"), ROOT))
        self.assertIn("--quota-runs", third.line()["reason"])
        try:
            for n in range(400):
                first.send(text(noise_op(n, 8000)))
        except OSError:
            pass  # refused in the middle of it
        self.assertIn("--quota-bytes", first.line()["reason"])
        run = self.run_of("r1", "failed")
        self.assertIn("--quota-bytes", run["reason"])
        ledger = self.ledger(run)
        self.assertGreater(ledger["dropped"]["quota_bytes"], 0)
        self.assertIsNone(ledger["unknown_tail_bytes_max"])

    def test_who_sends_faster_than_its_rate_waits_and_loses_nothing(self):
        self.start(None, "--quota-rate", "2MB")
        lines = [meta("fast"), ROOT] + [noise_op(n, 8000) for n in range(300)] + [ROOT_END, TERMINAL]
        self.producer(text(*lines))
        run = self.run_of("fast", "complete")
        self.assertEqual(self.ledger(run)["stored"], len(lines))

    def test_the_retention_keeps_open_runs_and_the_newest(self):
        self.start(None, "--max-bytes", "1MB")
        opened = Lines(self.socket)
        opened.send(text(meta("open"), ROOT))
        for n in range(5):
            self.producer(text(meta("r%d" % n), ROOT, *[noise_op(i, 8000) for i in range(60)], ROOT_END, TERMINAL))
            self.run_of("r%d" % n, "complete")
        left = [run["run"] for run in self.ctl(command="runs")]
        self.assertIn("open", left)
        self.assertIn("r4", left)
        self.assertNotIn("r0", left)
        wait_until(lambda: sorted(os.listdir(self.state + "/runs")) ==
                   sorted(os.path.basename(run["folder"]) for run in self.ctl(command="runs")), "the folders are gone, too")
