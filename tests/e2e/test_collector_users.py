"""Two users at one daemon: another uid cannot read, control, inject or resume what is not its own.

The daemon is root's here and the other user is `nobody`; without root there are no two users to try it with.
"""
import json
import os
import subprocess

import pytest

import collector_e2e
import support
from collector_e2e import ROOT, ROOT_END, TERMINAL, Lines, RingMemory, meta, op, text

collector_e2e.COLLECTORD = support.COLLECTORD
NOBODY = 65534

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root: to be two users")

# Sends what stands on its standard input to the socket, and prints what comes back until the end of file.
CLIENT = """
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.settimeout(10)
try:
    s.connect(sys.argv[1])
    try:
        s.sendall(sys.stdin.buffer.read())
        s.shutdown(socket.SHUT_WR)
    except BrokenPipeError:
        pass  # refused; why is there to be read
    while True:
        more = s.recv(65536)
        if not more:
            break
        sys.stdout.buffer.write(more)
except ConnectionResetError:
    pass  # it was closed with something unread in it
except OSError as error:
    print("error", error.errno)
"""

READER = """
import os, sys
for path in sys.argv[1:]:
    try:
        print(path, len(os.listdir(path)) if os.path.isdir(path) else len(open(path, "rb").read()))
    except OSError as error:
        print(path, error.__class__.__name__)
"""


class Users(collector_e2e.CollectorTest):
    @classmethod
    def setUpClass(cls):
        cls.layout = cls.layout or collector_e2e.read_layout()

    def setUp(self):
        super().setUp()
        os.chmod(self.root, 0o711)

    def as_nobody(self, script, *arguments, data=b""):
        result = subprocess.run(["/usr/bin/python3", "-c", script, *arguments], input=data, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, timeout=30, user=NOBODY, group=NOBODY, extra_groups=[], cwd="/")
        self.assertEqual(result.stderr, b"")
        return result.stdout.decode()

    def say(self, *lines):
        return [json.loads(line) for line in self.as_nobody(CLIENT, self.socket, data=text(*lines)).splitlines()]

    def read(self, *paths):
        return dict(line.rsplit(" ", 1) for line in self.as_nobody(READER, *paths).splitlines())

    def test_by_default_another_user_cannot_even_connect(self):
        self.start()
        self.assertIn("error 13", self.as_nobody(CLIENT, self.socket, data=text(meta("x"))))
        os.chmod(self.socket, 0o666)  # and a socket that somebody opened by hand is not enough
        (answer,) = self.say(meta("x"), ROOT)
        self.assertIn("its own user only", answer["reason"])

    def test_each_user_reads_its_own_runs_and_no_other(self):
        self.start(None, "--mode", "0666")
        self.producer(text(meta("mine"), ROOT, op(1), ROOT_END, TERMINAL))
        self.say(meta("theirs"), ROOT, op(2), ROOT_END, TERMINAL)
        mine, theirs = self.run_of("mine", "complete"), self.run_of("theirs", "complete")
        self.assertEqual((self.info(mine)["uid"], self.info(theirs)["uid"]), (0, NOBODY))
        files = ("trace.jsonl.zst", "run.json", "report.json", "report.txt")
        found = self.read(self.state, self.state + "/runs", mine["folder"], mine["folder"] + "/trace.jsonl.zst")
        self.assertEqual(set(found.values()), {"PermissionError"}, found)
        found = self.read(*(theirs["folder"] + "/" + name for name in files))
        for name in files:
            self.assertEqual(found[theirs["folder"] + "/" + name],
                             str(os.path.getsize(theirs["folder"] + "/" + name)), found)
        written = self.as_nobody("import os,sys\ntry: open(sys.argv[1],'w')\nexcept OSError as e: print('no')",
                                 theirs["folder"] + "/run.json.new")
        self.assertEqual(written, "no\n", "it may not put anything where the daemon writes")

    def test_a_user_sees_and_orders_its_own_only(self):
        self.start(None, "--mode", "0666")
        probe = Lines(self.socket)
        probe.send(text('{"kind":"hello","protocol":1,"state":"idle","pid":%d,"launch":"L"}' % os.getpid()))
        probe.line()
        self.producer(text(meta("mine"), ROOT, ROOT_END, TERMINAL))
        self.run_of("mine", "complete")
        self.say(meta("theirs"), ROOT, ROOT_END, TERMINAL)
        self.run_of("theirs", "complete")
        self.assertEqual([line.get("run") for line in self.say('{"kind":"ctl","command":"runs"}')], ["theirs", None])
        for request in ('"list"', '"start","capture":"now"', '"stop"', '"list","launch":"L"', '"list","uid":0'):
            self.assertEqual(self.say('{"kind":"ctl","command":%s}' % request), [{"kind": "end"}], request)
        probe.socket.settimeout(0.3)
        with self.assertRaises(OSError):
            probe.line()  # no order came
        self.assertEqual([line["kind"] for line in self.ctl(command="list")], ["producer"])

    def test_a_user_can_neither_resume_nor_put_workers_into_a_run_of_another(self):
        self.start(None, "--mode", "0666")
        memory = RingMemory(self.layout)
        probe = self.hello(memory, "p1")
        probe.line()
        probe.send(text(meta("p1"), ROOT, '{"kind":"batch","seq":1,"cursors":[[0,8]]}'))
        probe.line()
        script = """
import array, json, os, socket, sys
run, resume, parent = sys.argv[2], sys.argv[3] == "1", sys.argv[4]
s = socket.socket(socket.AF_UNIX)
s.settimeout(10)
s.connect(sys.argv[1])
hello = {"kind": "hello", "protocol": 1, "run": run, "resume": resume, "pid": int(sys.argv[5]), "parent_run": parent}
s.sendmsg([(json.dumps(hello) + "\\n").encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0]))])
print(s.recv(65536).decode(), end="")
"""

        def hello(run, resume, parent):
            result = subprocess.run(["/usr/bin/python3", "-c", script, self.socket, run, resume, parent, str(os.getpid())],
                                    stdin=memory.fd, stdout=subprocess.PIPE, timeout=30, user=NOBODY, group=NOBODY,
                                    extra_groups=[], cwd="/")
            return json.loads(result.stdout)

        self.assertIn("another process", hello("p1", "1", "")["reason"])
        self.assertIn("known already", hello("p1", "0", "")["reason"])
        self.assertEqual(hello("w1", "0", "p1")["kind"], "welcome")
        worker = self.run_of("w1")
        self.assertNotIn("/workers/", worker["folder"])
        probe.send(text(ROOT_END, TERMINAL, '{"kind":"batch","seq":2,"cursors":[[0,16]]}'))
        self.assertEqual([r["kind"] for r in self.stored(self.run_of("p1", "complete"))],
                         ["meta", "span_start", "span_end", "terminal"])

    def test_quotas_are_each_users_own(self):
        self.start(None, "--mode", "0666", "--quota-runs", "1")
        mine = Lines(self.socket)
        mine.send(text(meta("mine"), ROOT))
        self.run_of("mine")
        self.say(meta("theirs"), ROOT, ROOT_END, TERMINAL)
        self.run_of("theirs", "complete")

    def test_the_socket_has_the_group_and_mode_that_were_asked_for(self):
        self.start(None, "--mode", "0660", "--group", "nogroup")
        status = os.stat(self.socket)
        self.assertEqual((status.st_mode & 0o777, status.st_gid), (0o660, 65534))
        self.assertEqual([r["kind"] for r in self.say('{"kind":"ctl","command":"runs"}')], ["end"], "nobody is in it")
        for options, word in ((["--group", "no-such-group"], "no-such-group"), (["--mode", "9"], "--mode 9")):
            result = subprocess.run([support.COLLECTORD, "--listen", self.root + "/o", "--state", self.root + "/other", *options],
                                    stderr=subprocess.PIPE, timeout=10)
            self.assertEqual(result.returncode, 2)
            self.assertIn(word, result.stderr.decode())
            self.assertFalse(os.path.exists(self.root + "/o"))
