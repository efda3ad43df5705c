"""The SDK's headers and its Python package beside a stand-in for the probe, and with none.

    sdk_test.py BUILD/tests/unit/sdk_parts
"""
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.join(HERE, "..", "..", "probe", "python", "package")
PARTS = ""
ORDER = ["range_begin", "range_end", "steps_by_job", "step_begin", "step_end", "label", "stats_tensor", "stats",
         "stats_values", "gradient", "gradient_tensor", "gradient_data", "tag", "identity"]


def end_of(member):
    """How long a table is whose last member this is."""
    return 24 + 8 * (ORDER.index(member) + 1)


def run(argv, probe=True, **env):
    env = {**{k: v for k, v in os.environ.items() if not k.startswith("TENSORTAP_")}, "PYTHONDONTWRITEBYTECODE": "1", **env}
    if probe:
        env["LD_PRELOAD"] = os.path.join(PARTS, "libfake_sdk_probe.so")
    done = subprocess.run(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False)
    assert done.returncode == 0, (argv, done.returncode, done.stderr.decode())
    return done.stdout.decode().splitlines()


def python(code, probe=True, **env):
    return run([sys.executable, "-c", "import tensortap\n" + code], probe, PYTHONPATH=os.path.join(PACKAGE, "src"), **env)


def calls(lines):
    """What the stand-in was asked, without its details."""
    return [line.split()[0] for line in lines if line.startswith("  ")]


class Headers(unittest.TestCase):
    def returned(self, lines):
        return {line.split()[0]: int(line.split()[1]) for line in lines if not line.startswith("  ")}

    def test_without_a_probe_every_call_does_nothing(self):
        returned = self.returned(run([os.path.join(PARTS, "sdk_calls")], probe=False))
        self.assertEqual(len(returned), 16)
        self.assertEqual(set(returned.values()), {0})
        self.assertEqual(run([os.path.join(PARTS, "sdk_scopes")], probe=False), ["in scope", "00000"])

    def test_every_call_arrives(self):
        lines = run([os.path.join(PARTS, "sdk_calls")])
        returned = self.returned(lines)
        self.assertEqual(returned.pop("null"), 0)
        self.assertEqual(set(returned.values()), {1})
        self.assertEqual(set(calls(lines)) & set(ORDER), set(ORDER))
        self.assertIn("  dtype 6 ndim 1 first 2", lines)
        self.assertIn("  dtype 7 ndim 0 first 0", lines)  # the scalar
        self.assertIn("  step_begin -1", lines)  # TENSORTAP_NEXT_STEP
        self.assertIn("  step_begin 7", lines)

    def test_while_nothing_is_captured_only_what_is_kept_arrives(self):
        lines = run([os.path.join(PARTS, "sdk_calls")], FAKE_SDK_IDLE="1")
        self.assertEqual(calls(lines), ["steps_by_job"] + ["step_begin", "step_end"] * 2 + ["tag", "value", "identity"])

    def test_a_capture_that_waits_for_its_first_step_is_told_of_ranges_and_steps_alone(self):
        lines = run([os.path.join(PARTS, "sdk_calls")], FAKE_SDK_WAITS="1")
        self.assertEqual(self.returned(lines)["capturing"], 0)
        self.assertEqual(calls(lines), ["range_begin", "range_end", "measured_begin", "range_end", "steps_by_job"]
                         + ["step_begin", "step_end"] * 2 + ["tag", "value", "identity"])
        lines = python("print(tensortap.is_capturing(), tensortap.stats(1.0, 'x'))\nwith tensortap.range('r'): pass\n",
                       FAKE_SDK_WAITS="1")
        self.assertEqual(lines, ["False False", "  range_begin r", "  range_end 3"])

    def test_an_older_probe_with_a_shorter_table_is_used_as_far_as_it_goes(self):
        whole = self.returned(run([os.path.join(PARTS, "sdk_calls")]))
        for last in ("step_end", "label", "stats", "gradient", "tag"):
            returned = self.returned(run([os.path.join(PARTS, "sdk_calls")], FAKE_SDK_SIZE=str(end_of(last))))
            missing = ORDER[ORDER.index(last) + 1:]
            expected = {name: 0 if name in missing or (name == "scalar" and "stats" in missing) else value
                        for name, value in whole.items()}
            self.assertEqual(returned, expected, last)

    def test_a_probe_that_comes_later_is_found(self):
        source = r"""
#include <unistd.h>
#include "tensortap.h"
int main(void) {
  if (tensortap_is_capturing()) return 1;
  for (int i = 0; i < 400 && !tensortap_is_capturing(); ++i) usleep(10000);
  return tensortap_is_capturing() ? 0 : 2;
}
"""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "late")
            subprocess.run(["cc", "-x", "c", "-", "-I" + os.path.join(HERE, "..", "..", "probe", "sdk"), "-o", path],
                           input=source.encode(), check=True)
            run([path], FAKE_SDK_LATE="1")

    def test_scopes_end_what_they_began(self):
        lines = run([os.path.join(PARTS, "sdk_scopes")])
        begun = [line.split()[1] for line in lines if "_begin" in line and "step" not in line]
        self.assertEqual(begun, ["outer", "region", "second"])
        ended = [int(line.split()[1]) for line in lines if "range_end" in line]
        self.assertEqual(ended, [2 * len("outer") + 1, 2 * len("second") + 1, 2 * len("region") + 1])
        self.assertEqual(calls(lines).count("step_begin"), 2)
        self.assertEqual(calls(lines).count("step_end"), 2)
        self.assertIn("11111", lines)


EVERYTHING = """
with tensortap.range("a"), tensortap.measured("m"):
    pass
@tensortap.range("d")
def decorated(n): return n + 1
print(decorated(1), decorated.__name__)
with tensortap.step(): pass
with tensortap.step(7): pass
print(list(tensortap.steps([1, 2])), list(tensortap.steps(c for c in "ab")))
print(tensortap.stats(0.5, "loss"), tensortap.tag("k", 1))
print(tensortap.identity(workload_id="w", model_id="model-7", config_id="c", data_id="d", seed_policy="s", precision="p",
                         device_state="x"))
print(tensortap.is_capturing())
"""


class Package(unittest.TestCase):
    def test_without_a_probe_every_call_does_nothing_and_torch_is_not_imported(self):
        lines = python(EVERYTHING + "import sys; assert 'torch' not in sys.modules\n", probe=False)
        self.assertEqual(lines, ["2 decorated", "[1, 2] ['a', 'b']", "False False", "False", "False"])

    def test_every_call_arrives(self):
        lines = python(EVERYTHING)
        self.assertEqual([line for line in lines if not line.startswith("  ")],
                         ["2 decorated", "[1, 2] ['a', 'b']", "True True", "True", "True"])
        self.assertEqual(calls(lines),
                         ["range_begin", "measured_begin", "range_end", "range_end", "range_begin", "range_end"]
                         + ["step_begin", "step_end"] * 2 + ["steps_by_job"] + ["step_begin", "step_end"] * 2
                         + ["steps_by_job"] + ["step_begin", "step_end"] * 2
                         + ["dtype", "stats", "tag", "value", "identity"])
        self.assertIn("  step_begin 7", lines)
        self.assertIn("  identity model-7", lines)

    def test_an_older_probe_with_a_shorter_table_is_used_as_far_as_it_goes(self):
        lines = python(EVERYTHING, FAKE_SDK_SIZE=str(end_of("label")))
        self.assertIn("False False", lines)
        self.assertIn("True", lines)
        self.assertNotIn("stats", calls(lines))

    def test_what_is_said_before_the_probe_is_there_is_told_later(self):
        lines = python("print(tensortap.tag('early', 'v'))\nimport time\ntime.sleep(1.1)\ntensortap.is_capturing()\n"
                       "print('end')", FAKE_SDK_LATE="1")
        self.assertEqual(lines, ["False", "  tag early", "  value v", "end"])
        lines = python("tensortap.tag('early', 'v')\nimport time\ntime.sleep(1.1)", FAKE_SDK_LATE="1")
        self.assertEqual(lines, ["  tag early", "  value v"], "at exit at the latest")

    def test_a_steps_time_has_the_fetch_in_it_when_the_length_is_known(self):
        code = """
class Loader:
    def __len__(self): return 2
    def __iter__(self):
        for i in (1, 2):
            with tensortap.range("fetch"): pass
            yield i
for item in tensortap.steps(Loader()): pass
"""
        one = ["step_begin", "range_begin", "range_end", "step_end"]
        self.assertEqual(calls(python(code)), ["steps_by_job"] + one * 2)

    def test_a_loop_that_is_left_ends_its_step(self):
        self.assertEqual(calls(python("for item in tensortap.steps([1, 2, 3]):\n    break\nprint('left')")),
                         ["steps_by_job", "step_begin", "step_end"])

    def test_arrays_are_read_where_they_lie(self):
        lines = python("""
import array
print(tensortap.stats(array.array('f', [1, 2, 3]), 'floats'), tensortap.stats(b'ab', 'bytes'))
print(tensortap.stats(memoryview(array.array('d', [1, 2, 3, 4]))[::2], 'strided'), tensortap.stats(array.array('f'), 'none'))
""")
        self.assertEqual([line for line in lines if not line.startswith("  ")], ["True True", "False True"])
        self.assertIn("  dtype 6 ndim 1 first 3", lines)
        self.assertIn("  dtype 0 ndim 1 first 2", lines)

    def test_wrong_arguments_are_refused_alike_with_and_without_a_probe(self):
        wrong = {
            "tensortap.range(3)": "TypeError", "tensortap.step('1')": "TypeError", "tensortap.step(-1)": "ValueError",
            "tensortap.step(2**32)": "ValueError", "tensortap.stats(object(), 'x')": "TypeError",
            "tensortap.stats(1.0, 2)": "TypeError", "tensortap.label(1, 'x')": "TypeError",
            "tensortap.tag(1, 'x')": "TypeError",
            "tensortap.identity(workload_id=' ', model_id='m', config_id='c', data_id='d', seed_policy='s',"
            " precision='p', device_state='x')": "ValueError",
            "tensortap.identity(workload_id='w', model_id='m', config_id='c', data_id='d', seed_policy='s',"
            " precision='p', device_state='x', physical_batch=0)": "ValueError",
        }
        for probe in (False, True):
            code = "".join("try:\n    %s\nexcept Exception as e:\n    print(type(e).__name__)\nelse:\n    print('taken')\n" % c
                           for c in wrong)
            self.assertEqual(python(code, probe), list(wrong.values()))

    def test_it_installs_without_a_network(self):
        if subprocess.run([sys.executable, "-m", "pip", "--version"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, check=False).returncode != 0:
            self.skipTest("this python3 has no pip")
        with tempfile.TemporaryDirectory() as folder:
            where = os.path.join(folder, "site")
            copy = os.path.join(folder, "package")
            subprocess.run(["cp", "-r", PACKAGE, copy], check=True)
            done = subprocess.run([sys.executable, "-m", "pip", "install", "--no-index", "--quiet", "--target", where, copy],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
            self.assertEqual(done.returncode, 0, done.stdout.decode())
            names = sorted(os.listdir(os.path.join(where, "tensortap")))
            self.assertEqual([n for n in names if not n.startswith("__pycache__")],
                             sorted(n for n in os.listdir(os.path.join(PACKAGE, "src", "tensortap"))
                                    if not n.startswith("__pycache__")))
            code = "import tensortap, importlib.metadata as m; print(tensortap.__file__, m.version('tensortap'))"
            lines = run([sys.executable, "-c", code], probe=False, PYTHONPATH=where)
            self.assertEqual(lines, [os.path.join(where, "tensortap", "__init__.py") + " 0.1.0"])


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    PARTS = os.path.abspath(sys.argv.pop(1))
    unittest.main()
