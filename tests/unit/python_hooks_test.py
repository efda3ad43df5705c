"""Runs python_hooks_scenarios.py in a real interpreter with real torch, without and with the hooks, and compares.

    python_hooks_test.py --python PYTHON --library libtensortap_fake_core.so [unittest arguments]

Exit status 77: that python can't import torch; the reason is printed.
"""
import argparse
import difflib
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SCENARIOS = os.path.join(HERE, "python_hooks_scenarios.py")
options = None
COMPILE_SCENES = ["compile_graphs", "compile_function", "compile_aot", "compile_in_place", "export"]


def environment(mode=None, **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith("TENSORTAP_") and k != "LD_PRELOAD"}
    # Order of sets and addresses in messages must not differ from run to run.
    env.update(PYTHONHASHSEED="0", OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="", **more)
    if mode:
        env.update(LD_PRELOAD=options.library, TENSORTAP_FAKE_CORE=mode)
    return env


def run_script(text, mode=None, **more):
    """A program of its own, as a file, with torch: (stdout, stderr, status)."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "job.py")
        with open(path, "w") as file:
            file.write(text)
        done = subprocess.run([options.python, path], env=environment(mode, **more), capture_output=True, timeout=300)
        return tuple(normal(part.replace(folder.encode(), b"@")) for part in (done.stdout, done.stderr)) + (done.returncode,)


def normal(data):
    """Addresses differ from run to run with and without us."""
    data = re.sub(rb"0x[0-9a-f]{6,}", b"0x", data)
    data = re.sub(rb"Thread\(worker, stopped [0-9]+\)|MainThread, started [0-9]+", b"thread", data)
    data = re.sub(rb"^[EWI]\d{4} [0-9:.]+ \d+ ", b"", data, flags=re.M)  # torch's log
    return re.sub(rb"(USDT|ERROR):\d{4}-\S+ \S+ \d+:\d+", rb"\1", data)  # the profiler's log


class Run:
    """The outputs of all scenes, run once per mode."""

    cache = {}

    @classmethod
    def of(cls, mode):
        if mode not in cls.cache:
            cls.cache[mode] = cls(mode)
        return cls.cache[mode]

    def __init__(self, mode):
        self.folder = tempfile.mkdtemp(prefix="tensortap-scenes-")
        names = COMPILE_SCENES if mode == "late" else []
        done = subprocess.run([options.python, SCENARIOS, self.folder, *names], env=environment(mode),
                              capture_output=True, timeout=800)
        if done.returncode:
            raise RuntimeError(f"scenes failed ({mode}): {done.stderr.decode()}")
        if mode and done.stderr != Run.of(None).stderr:
            raise RuntimeError(f"the runner's stderr differs: {done.stderr.decode()}")
        self.stderr = done.stderr

    def text(self, scene, part):
        with open(os.path.join(self.folder, f"{scene}.{part}"), "rb") as file:
            return file.read()


def scene_names():
    names = []
    for path in sorted(glob.glob(os.path.join(HERE, "python_hooks_scenes", "*.py"))):
        with open(path) as file:
            names += re.findall(r"^@scene\ndef (\w+)", file.read(), re.M)
    return names


def _only_captured(scene):
    return scene.startswith("report_") or scene == "compile_inductor"  # the compiler takes its time


class SameAsWithout(unittest.TestCase):
    """Each scene prints the same bytes, and ends the same, as without the hooks."""

    def compare(self, scene, mode):
        plain, hooked = Run.of(None), Run.of(mode)
        for part in ("out", "err", "status"):
            want, got = normal(plain.text(scene, part)), normal(hooked.text(scene, part))
            if want != got:
                lines = difflib.unified_diff(want.decode().splitlines(), got.decode().splitlines(), "without", "with", "")
                self.fail(f"{scene}.{part} differs:\n" + "\n".join(list(lines)[:60]))


for _name in scene_names():
    for _mode in ("on",) if _only_captured(_name) else ("on", "off"):
        setattr(SameAsWithout, f"test_{_name}_capture_{_mode}",
                lambda self, name=_name, mode=_mode: self.compare(name, mode))
    if _name in COMPILE_SCENES:
        setattr(SameAsWithout, f"test_{_name}_hooked_late", lambda self, name=_name: self.compare(name, "late"))


class ScenesSayWhatTheyShould(unittest.TestCase):
    """Equal outputs of scenes that did nothing would prove nothing."""

    def test_uncaught_error_shows_user_lines_and_status(self):
        error = Run.of("on").text("error_uncaught", "err")
        self.assertIn(b"ValueError: from inside", error)
        self.assertNotIn(b"<tensortap", error)
        self.assertEqual(Run.of("on").text("error_uncaught", "status"), b"1")

    def test_no_scene_fails_an_assertion(self):
        for scene in scene_names():
            for mode in (None, "on") if _only_captured(scene) else (None, "on", "off"):
                error = Run.of(mode).text(scene, "err")
                self.assertNotIn(b"AssertionError", error, f"{scene} {mode}: {error.decode()}")
                self.assertNotIn(Run.of(mode).text(scene, "status"), (b"-6", b"-11"))

    def test_a_scene_that_should_end_well_does(self):
        ends_badly = {"fx_trace", "generators", "stop_iteration", "system_exit", "compile_aot"}
        for scene in scene_names():
            if scene not in ends_badly and not scene.startswith(("error_", "keyboard_")):
                error = Run.of(None).text(scene, "err").decode()
                self.assertEqual(Run.of(None).text(scene, "status"), b"0", f"{scene}: {error}")

    def test_softmax_warning_names_the_scene_file(self):
        self.assertIn(b"Implicit dimension choice", Run.of("on").text("warning_softmax_without_dim", "err"))

    def test_compile_scenes_compiled_something(self):
        if options.torch2:
            self.assertIn(b"'unique_graphs': 1", Run.of("on").text("compile_graphs", "out"))

    def test_optimizer_is_found_by_identity(self):
        self.assertTrue(Run.of("on").text("optimizer_identity", "out").startswith(b"True False\nNone"))


class Reports(unittest.TestCase):
    """What enter and leave told the core."""

    def log(self, scene):
        return Run.of("on").text(scene, "log").decode().splitlines()

    def test_paths_types_and_call_counts_are_those_of_torchs_own_hooks(self):
        want = Run.of(None).text("report_paths", "out").decode().splitlines()
        # Torch's hooks don't see what raised; here nothing does. Leaves carry the address: resolve it to the path.
        names, got = {}, []
        for line in self.log("report_paths"):
            words = line.split()
            if words[0] == "enter":
                names[words[4]] = words[1]
                got.append(" ".join(words[:4]))
            else:
                got.append(f"leave {names[words[1]]}")
        self.assertGreater(len(want), 100)
        self.assertEqual(want, got)

    def test_a_module_outside_the_tree_is_named_by_its_type(self):
        entered = [line.split()[1:4] for line in self.log("report_unplaced") if line.startswith("enter")]
        self.assertEqual(entered[:3], [["Hidden", "Hidden", "0"], ["(Linear)", "Linear", "0"], ["(ReLU)", "ReLU", "0"]])
        self.assertEqual([e[2] for e in entered if e[0] == "(Linear)"], ["0", "1", "2"])

    def test_an_address_used_again_is_another_module(self):
        want = Run.of("on").text("report_address_used_again", "out").decode().split()
        entered = [line.split() for line in self.log("report_address_used_again") if line.startswith("enter")]
        self.assertEqual([e[2] for e in entered], want)
        self.assertEqual({e[3] for e in entered}, {"0"})
        self.assertLess(len({e[4] for e in entered}), len(entered), "no address was used again: the test shows nothing")

    def test_thousands_of_modules_come_and_go(self):
        entered = [line.split() for line in self.log("report_many_modules") if line.startswith("enter")]
        self.assertEqual(len(entered), 4 * 501)
        self.assertEqual([e[1] for e in entered[:501]], ["Sequential"] + [str(i) for i in range(500)])
        self.assertEqual({e[3] for e in entered}, {"0"})

    def test_a_new_session_gets_new_references(self):
        entered = [line.split() for line in self.log("report_generation") if line.startswith("enter")]
        self.assertIn("blocks.0.linear", [e[1] for e in entered])
        self.assertNotIn("?", [word for e in entered for word in e])

    def test_nothing_is_reported_while_not_capturing(self):
        self.assertEqual(self.log("report_capture_off"), [])
        self.assertEqual(Run.of("off").text("error_uncaught", "log"), b"")

    def test_enters_and_leaves_balance_after_errors(self):
        log = self.log("report_balance_after_errors")
        self.assertEqual(sum(l.startswith("enter") for l in log), sum(l.startswith("leave") for l in log))
        self.assertGreater(len(log), 20)

    def test_a_compiled_module_is_entered_at_its_root_only(self):
        entered = [line.split()[1] for line in self.log("compile_in_place") if line.startswith("enter")]
        self.assertIn(entered, ([], ["Net"]))


class WholePrograms(unittest.TestCase):
    """Programs of their own: start, end and threads."""

    def check(self, text, mode="on"):
        plain, hooked = run_script(text), run_script(text, mode)
        self.assertEqual(plain, hooked)
        return hooked

    def test_the_first_call_after_import_is_seen(self):
        script = "import torch\ntorch.nn.Linear(2, 2)(torch.ones(1, 2))\n"
        for _ in range(options.first_calls):
            with tempfile.NamedTemporaryFile() as log:
                done = run_script(script, "on", TENSORTAP_FAKE_LOG=log.name)
                self.assertEqual(done, (b"", b"", 0))
                self.assertRegex(log.read(), rb"^enter Linear Linear 0 ")

    def test_a_traceback_of_a_whole_program_is_the_same(self):
        done = self.check("import torch\nfrom torch import nn\n"
                          "nn.Sequential(nn.Linear(2, 2), nn.Linear(3, 3))(torch.ones(1, 2))\n")
        self.assertEqual(done[2], 1)

    def test_interrupted_by_sigint_it_dies_as_before(self):
        done = self.check("import os, signal, torch\nclass M(torch.nn.Module):\n  def forward(self):\n"
                          "    os.kill(os.getpid(), signal.SIGINT)\n    return 1\nM()()\n")
        self.assertEqual(done[2], -signal.SIGINT)

    def test_modules_called_while_the_interpreter_ends(self):
        self.check("import atexit, torch\nnet = torch.nn.Linear(1, 1)\n"
                   "class Last:\n  def __del__(self, net=net, x=torch.ones(1, 1)):\n    net(x); print('del')\n"
                   "last = Last()\nlast.me = last\natexit.register(lambda: (net(torch.ones(1, 1)), print('atexit')))\n"
                   "net(torch.ones(1, 1))\n")

    def test_daemon_threads_in_modules_at_exit(self):
        script = ("import threading, time, torch\nnet = torch.nn.Sequential(*[torch.nn.Identity() for _ in range(20)])\n"
                  "def work():\n  while True: net(1)\n"
                  "for _ in range(4): threading.Thread(target=work, daemon=True).start()\ntime.sleep(0.1)\n")
        for _ in range(3):
            self.assertEqual(run_script(script, "on"), (b"", b"", 0))

    def test_exit_before_torch_is_imported(self):
        self.check("print('nothing to see')\n")

    def test_exit_during_the_import_of_torch(self):
        for delay in (0.05, 0.3, 1.0):
            script = ("import os, threading, time\n"
                      f"threading.Thread(target=lambda: (time.sleep({delay}), os._exit(5)), daemon=True).start()\n"
                      "import torch\ntime.sleep(60)\n")
            self.assertEqual(run_script(script, "on"), (b"", b"", 5))

    def test_a_dataloader_with_workers_runs(self):
        self.check("import torch\nfrom torch.utils.data import DataLoader\nnet = torch.nn.Linear(1, 1)\n"
                   "class Data(torch.utils.data.Dataset):\n  def __len__(self): return 8\n"
                   "  def __getitem__(self, i):\n    with torch.no_grad(): return net(torch.ones(1)) * 0 + i\n"
                   "if __name__ == '__main__':\n"
                   "  print([b.flatten().tolist() for b in DataLoader(Data(), 2, num_workers=2)])\n")


def main():
    global options
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", required=True)
    parser.add_argument("--library", required=True)
    parser.add_argument("--first-calls", type=int, default=3, help="runs that look for the first call after import")
    options, rest = parser.parse_known_args()
    try:
        probe = subprocess.run([options.python, "-c", "import torch; print(torch.__version__)"], capture_output=True,
                               text=True, timeout=300)
    except OSError as error:
        print(f"skipped: {error}")
        return 77
    if probe.returncode:
        print(f"skipped: {options.python} can't import torch: {probe.stderr.strip().splitlines()[-1]}")
        return 77
    options.torch2 = not probe.stdout.startswith("1.")
    print(f"{options.python}: torch {probe.stdout.strip()}")
    try:
        unittest.main(argv=[sys.argv[0], *rest])
    finally:
        for run in Run.cache.values():
            shutil.rmtree(run.folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
