"""trace-analyze summary and overview on the public cases of candle-graph 0.10.1, and as programs: exit codes,
standard input, compressed traces, output files.

    candle_documents_test.py TRACE_ANALYZE
"""
import gzip
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from candle_compare import differences

HERE = pathlib.Path(__file__).parent
CASES = HERE / "candle"
PROGRAM = ""


def run(*argv, stdin=None, cwd=None):
    return subprocess.run([PROGRAM, *map(str, argv)], input=stdin, capture_output=True, cwd=cwd, timeout=60)


class Documents(unittest.TestCase):
    def test_every_public_case_gives_its_documents(self):
        cases = sorted(folder for folder in CASES.iterdir() if (folder / "input.jsonl").exists())
        self.assertEqual(len(cases), 18)
        for folder in cases:
            for kind in ("summary", "overview"):
                with self.subTest(case=folder.name, kind=kind):
                    result = run(kind, "input.jsonl", cwd=folder)
                    self.assertEqual((result.returncode, result.stderr), (0, b""))
                    expected = json.loads((folder / f"{kind}.json").read_text(encoding="utf-8"))
                    self.assertEqual(differences(json.loads(result.stdout), expected), [])

    def test_a_trace_with_nsight_reports_differs_only_in_what_comes_from_them(self):
        # The case's documents are those of a bundle with Nsight reports, which are not read here.
        folder = CASES / "nsight-bound"
        of_nsight = ("gpu", "input", "findings", "gaps", "next_queries")
        for kind in ("summary", "overview"):
            ours = json.loads(run(kind, "trace-in.jsonl", cwd=folder).stdout)
            expected = json.loads((folder / f"{kind}.json").read_text(encoding="utf-8"))
            for document in (ours, expected):
                for member in of_nsight:
                    document.pop(member, None)
                for capability in ("gpu_correlation", "provenance_binding"):
                    del document["capabilities"][capability]
            self.assertEqual(differences(ours, expected), [])

    def test_documents_are_laid_out_as_the_crate_lays_them_out(self):
        for kind in ("summary", "overview"):
            text = run(kind, "input.jsonl", cwd=CASES / "training-step").stdout.decode()
            value = json.loads(text)
            self.assertEqual(text, json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True) + "\n")

    def test_the_comparison_sees_a_difference(self):
        expected = json.loads((CASES / "training-step" / "summary.json").read_text(encoding="utf-8"))
        for change in (lambda d: d["summary"].update(outer_wall_time_ns=5999), lambda d: d["gaps"].pop(),
                       lambda d: d["gpu"].update(reason=None), lambda d: d["memory"].pop("logical"),
                       lambda d: d["capabilities"]["tensor_coverage"].update(source="x")):
            changed = json.loads(json.dumps(expected))
            change(changed)
            self.assertEqual(len(differences(changed, expected)), 1)


class Programs(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.trace = CASES / "training-step" / "input.jsonl"

    def summary(self, *argv, **options):
        result = run("summary", *argv, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def test_standard_input_and_compressed_traces_are_read(self):
        plain = self.summary(self.trace)
        piped = self.summary("-", stdin=self.trace.read_bytes())
        self.assertEqual(piped["input"]["requested_path"], "-")
        subprocess.run(["zstd", "-q", self.trace, "-o", self.folder / "trace.jsonl.zst"], check=True)
        packed = self.summary(self.folder)
        self.assertEqual(packed["input"]["requested_path"], str(self.folder))
        self.assertEqual(packed["input"]["trace_path"], str(self.folder / "trace.jsonl.zst"))
        (self.folder / "t.jsonl.gz").write_bytes(gzip.compress(self.trace.read_bytes()))
        zipped = self.summary(self.folder / "t.jsonl.gz")
        for document in (plain, piped, packed, zipped):
            del document["input"]
        for document in (piped, packed, zipped):
            self.assertEqual(document, plain)

    def test_a_folder_that_holds_a_trace_is_that_trace(self):
        shutil.copy(self.trace, self.folder / "trace.jsonl")
        self.assertEqual(self.summary(self.folder)["input"]["trace_path"], str(self.folder / "trace.jsonl"))

    def test_what_lies_beside_the_trace_and_is_not_read_is_told(self):
        shutil.copy(self.trace, self.folder / "trace.jsonl")
        (self.folder / "nsight").mkdir()
        result = run("summary", self.folder)
        self.assertEqual(result.returncode, 0)
        self.assertIn(b"nsight is not read", result.stderr)

    def test_the_output_file_and_its_folders_are_made(self):
        out = self.folder / "a" / "b.json"
        result = run("summary", self.trace, "-o", out)
        self.assertEqual((result.returncode, result.stdout), (0, b""))
        self.assertEqual(json.loads(out.read_text(encoding="utf-8")), self.summary(self.trace))

    def test_a_trace_is_not_replaced_by_its_document(self):
        copy = self.folder / "t.jsonl"
        shutil.copy(self.trace, copy)
        self.assertEqual(run("summary", copy, "-o", copy).returncode, 64)
        self.assertEqual(copy.read_bytes(), self.trace.read_bytes())

    def test_output_that_cannot_be_written_is_an_error(self):
        with open("/dev/full", "wb") as full:
            result = subprocess.run([PROGRAM, "summary", self.trace], stdout=full, stderr=subprocess.PIPE)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(run("summary", self.trace, "-o", "/dev/full").returncode, 1)

    def test_require_valid_fails_after_writing_for_failed_and_invalid_traces(self):
        self.assertEqual(run("summary", "--require-valid", self.trace).returncode, 0)
        for case in ("failed-capture", "many-errors-in-order"):
            result = run("summary", "--require-valid", CASES / case / "input.jsonl")
            self.assertEqual(result.returncode, 2)
            self.assertEqual(json.loads(result.stdout)["schema"], "candle-graph/summary/6")
            self.assertEqual(run("summary", CASES / case / "input.jsonl").returncode, 0)

    def test_a_trace_with_any_fault_has_no_document(self):
        for file in sorted((HERE / "trace10" / "rejected").glob("*.jsonl")):
            for kind in ("summary", "overview"):
                with self.subTest(file=file.name):
                    result = run(kind, file)
                    self.assertEqual((result.returncode, result.stdout), (3, b""))
                    self.assertIn(str(file).encode(), result.stderr)
                    self.assertIn(b"trace-analyze validate", result.stderr)

    def test_a_bad_line_is_told_with_its_place_before_a_broken_rule(self):
        text = self.trace.read_bytes().split(b"\n")
        broken = b"\n".join([text[1], text[0], *text[2:9], b"{", *text[9:]])
        result = run("summary", "-", stdin=broken)
        self.assertEqual(result.returncode, 3)
        offset = sum(len(line) + 1 for line in text[:9])
        self.assertIn(f"<standard input>:10 (byte {offset})".encode(), result.stderr)

    def test_two_nodes_with_one_id_make_no_document(self):
        for file in sorted((HERE / "trace10" / "no-evidence").glob("*.jsonl")):
            result = run("overview", file)
            self.assertEqual((result.returncode, result.stdout), (3, b""), file)
            self.assertIn(b"two nodes of the graph", result.stderr)
            self.assertNotIn(b"validate", result.stderr)  # it is valid

    def test_wrong_usage_is_no_verdict(self):
        self.assertEqual(run("summary").returncode, 64)
        self.assertEqual(run("overview", self.trace, "--no-such-option").returncode, 64)

    def test_a_file_that_is_not_there_is_unreadable(self):
        result = run("summary", self.folder / "none.jsonl")
        self.assertEqual((result.returncode, result.stdout), (3, b""))


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
