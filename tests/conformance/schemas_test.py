"""The JSON Schemas of proto/schemas accept what we write and every readable fixture, and refuse what is refused where a
schema can see it.

    schemas_test.py BUILD/bin        (Debian's python3-jsonschema; programs: trace10_tool, trace-analyze, collectord)
"""
import copy
import glob
import json
import os
import subprocess
import sys
import tempfile
import unittest

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
PROTO = os.path.join(ROOT, "proto")
FIXTURES = os.path.join(HERE, "trace10")
PROGRAMS = ""

sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
import collector_e2e  # noqa: E402  (a daemon to talk to)

KINDS = {"meta", "span_start", "span_end", "op", "tensor", "tensor_stats", "memory", "device_memory", "device_interval",
         "gradient", "edge", "terminal"}

SEEN_ONCE = "a key that is given twice is gone when the text has been parsed"
NUMBER = "JSON Schema knows numbers, not how they are spelled: 100.0, 1e2 and -0 are integers to it"
BETWEEN = "a rule between records"
COMPARED = "a rule that compares fields of the record"

# Files of rejected/ in which no line is refused, and why.
NOT_SEEN = {
    "duplicate-field": SEEN_ONCE, "duplicate-field-in-contract": SEEN_ONCE, "duplicate-field-in-meta": SEEN_ONCE,
    "duplicate-kind": SEEN_ONCE,
    "exponent-integer": NUMBER, "float-for-u64": NUMBER, "minus-zero-integer": NUMBER,
    "duplicate-meta": BETWEEN, "duplicate-span-end": BETWEEN, "duplicate-terminal": BETWEEN, "empty-file": BETWEEN,
    "event-after-terminal": BETWEEN, "meta-not-first": BETWEEN, "missing-meta": BETWEEN, "missing-terminal": BETWEEN,
    "span-end-before-start": BETWEEN, "terminal-before-device-sample": BETWEEN, "terminal-before-op-end": BETWEEN,
    "trace9-tensor-stats": BETWEEN,
    "stats-shape-product-overflow": COMPARED, "tensor-stats-elements-mismatch": COMPARED,
    "tensor-stats-non-finite-exceeds": COMPARED,
    "lone-surrogate": "a parser may let lone surrogates pass (Python's does); a schema has no word for them",
    "nesting-too-deep": "a schema does not measure depth",
    "overflow-in-unknown-field": "the field is unknown, so any value passes",
}

# Readable line by line, but refused by a rule on the record itself (specification §1.2, rule 10): the schema says so too.
REFUSED_INVALID = {"complete_with_failure_reason", "failed_without_reason"}


def parse(line):
    """One line of JSON, strictly: bytes that are not UTF-8 and Python's own NaN and Infinity are refused."""
    def not_json(word):
        raise ValueError(word + " is not JSON")
    return json.loads(line.decode("utf-8"), parse_constant=not_json)


def load(*path):
    with open(os.path.join(*path), encoding="utf-8") as stream:
        return json.load(stream)


def validator(name):
    return Draft202012Validator(load(PROTO, "schemas", name + ".schema.json"))


def lines_of(path):
    with open(path, "rb") as stream:
        return [line for line in stream.read().split(b"\n") if line.strip()]


def program(name, *arguments):
    return subprocess.run([os.path.join(PROGRAMS, name), *arguments], stdout=subprocess.PIPE, check=True).stdout


def name_of(path):
    return os.path.basename(path).rsplit(".", 1)[0]


class Case(unittest.TestCase):
    trace, ext, session, run_json, report, validation = (
        validator(name) for name in ("trace-10", "ext", "session", "run", "report-1", "validation-1"))

    def accepts(self, schema, document, where):
        error = best_match(schema.iter_errors(document))
        if error:
            self.fail("%s: /%s: %s" % (where, "/".join(map(str, error.absolute_path)), error.message[:400]))

    def accepts_ours(self, line):
        """A line that tensortap itself writes."""
        document = parse(line)
        self.accepts(self.trace, document, line)
        self.accepts(self.ext, document, line)
        return document["kind"]


class Schemas(Case):
    def test_each_is_a_schema_and_is_described(self):
        names = glob.glob(os.path.join(PROTO, "schemas", "*.json"))
        self.assertEqual(len(names), 8)
        with open(os.path.join(PROTO, "README.md"), encoding="utf-8") as stream:
            readme = stream.read()
        for name in names:
            schema = load(name)
            Draft202012Validator.check_schema(schema)
            self.assertIn(os.path.basename(name), readme)
            self.assertEqual(schema["$id"], "urn:tensortap:" + os.path.basename(name)[:-len(".schema.json")])

    def test_each_record_has_a_definition_of_its_own(self):
        definitions = self.trace.schema["$defs"]
        for line in lines_of(os.path.join(PROTO, "samples", "trace-10.jsonl")):
            record = parse(line)
            alone = Draft202012Validator({"$ref": "#/$defs/" + record["kind"], "$defs": definitions})
            self.accepts(alone, record, line)
            self.assertFalse(alone.is_valid({**record, "kind": "other"}))


class Fixtures(Case):
    def test_every_line_of_readable_files_is_accepted(self):
        count = 0
        for folder in ("valid", "invalid", "no-evidence"):
            for path in sorted(glob.glob(os.path.join(FIXTURES, folder, "*.jsonl"))):
                if name_of(path) in REFUSED_INVALID:
                    continue
                for line in lines_of(path):
                    self.accepts(self.trace, parse(line.strip()), path)
                    count += 1
        self.assertGreater(count, 500)

    def refused(self, path):
        for line in lines_of(path):
            try:
                document = parse(line)
            except ValueError:
                return True
            if not self.trace.is_valid(document):
                return True
        return False

    def test_rejected_files_are_refused_but_for_those_named_here(self):
        accepted = {name_of(path) for path in glob.glob(os.path.join(FIXTURES, "rejected", "*")) if not self.refused(path)}
        self.assertEqual(accepted, set(NOT_SEEN))
        for name in REFUSED_INVALID:
            self.assertTrue(self.refused(os.path.join(FIXTURES, "invalid", name + ".jsonl")), name)

    def test_documents_of_the_crate_are_accepted(self):
        for document in ("summary-6", "overview-2"):
            schema = validator("candle-graph-" + document)
            paths = sorted(glob.glob(os.path.join(HERE, "candle", "*", document.split("-")[0] + ".json")))
            self.assertGreater(len(paths), 3)
            for path in paths:
                whole = load(path)
                self.accepts(schema, whole, path)
                for key in whole:
                    self.assertFalse(schema.is_valid({k: v for k, v in whole.items() if k != key}), (path, key))


def members(value, path=()):
    """The place of every member of an object, however deep."""
    if isinstance(value, dict):
        for key, member in value.items():
            yield path + (key,)
            yield from members(member, path + (key,))
    elif isinstance(value, list) and value:
        yield from members(value[0], path + (0,))


def changed(document, path, change):
    copied = copy.deepcopy(document)
    owner = copied
    for step in path[:-1]:
        owner = owner[step]
    change(owner, path[-1])
    return copied


class AgainstTheReader(Case):
    # Rules of §1.2 on a record itself: the schema has them, the line reader leaves them to the rules of streams.
    STRICTER = {("meta", "schema"), ("terminal", "outcome"), ("terminal", "reason"), ("tensor_stats", "label"),
                ("tensor_stats", "rms"), ("tensor_stats", "abs_max")}
    VALUES = (None, "", "x", 0, -1, 18446744073709551615, 18446744073709551616, 1.5, True, [], ["x"], [0], [None], {},
              {"x": "y"}, {"x": 0})

    def changes(self):
        """Each record with each member removed, and replaced by values of all types."""
        for line in lines_of(os.path.join(PROTO, "samples", "trace-10.jsonl")):
            record = parse(line)
            for path in members(record):
                if path[0] == "ext":
                    continue
                yield record, path, changed(record, path, lambda owner, key: owner.pop(key))
                for value in self.VALUES:
                    yield record, path, changed(record, path, lambda owner, key: owner.__setitem__(key, value))

    def test_the_schema_and_the_reader_agree_on_every_change_of_a_record(self):
        cases = list(self.changes())
        self.assertGreater(len(cases), 3000)
        with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
            file.write(b"".join(json.dumps(case).encode() + b"\n" for _, _, case in cases))
            file.flush()
            verdicts = program("trace10_tool", "judge", file.name).decode().splitlines()
        self.assertEqual(len(verdicts), len(cases))
        refused = 0
        for (record, path, case), verdict in zip(cases, verdicts):
            by_schema, by_reader = self.trace.is_valid(case), verdict == "accepted"
            refused += not by_reader
            if (record["kind"], path[0]) in self.STRICTER and not by_schema:
                continue
            self.assertEqual(by_schema, by_reader, (path, case, verdict))
        self.assertGreater(refused, 1500)


class WhatWeWrite(Case):
    def test_the_writer(self):
        lines = program("trace10_tool", "lines", "150").splitlines()
        self.assertEqual(len(lines), 150 * 12)
        for line in lines:
            self.accepts(self.trace, parse(line), line)

    def test_ring_records_with_their_ext(self):
        kinds = {self.accepts_ours(line) for line in program("trace10_tool", "ring").splitlines()}
        self.assertEqual(kinds, {"span_start", "span_end", "op", "tensor", "tensor_stats", "gradient", "memory",
                                 "device_memory"})

    def test_the_probe(self):
        kinds = []
        for line in program("trace10_tool", "probe").splitlines():
            kinds.append(parse(line)["kind"])
            if kinds[-1] in KINDS:
                self.accepts_ours(line)
            else:
                self.accepts(self.session, parse(line), line)
        self.assertEqual(kinds, ["hello", "hello", "meta", "span_start", "span_start", "batch", "batch"])

    def test_the_golden_samples(self):
        self.assertEqual({self.accepts_ours(line) for line in lines_of(os.path.join(PROTO, "samples", "trace-10.jsonl"))}, KINDS)
        kinds = set()
        for line in lines_of(os.path.join(PROTO, "samples", "session.jsonl")):
            self.accepts(self.session, parse(line), line)
            kinds.add(parse(line)["kind"])
        self.assertEqual(kinds, set(self.session.schema["properties"]["kind"]["enum"]))
        self.accepts(self.run_json, load(PROTO, "samples", "run.json"), "run.json")

    def test_ext_refuses_what_is_not_documented(self):
        for line in lines_of(os.path.join(PROTO, "samples", "trace-10.jsonl")):
            record = parse(line)
            self.assertFalse(self.ext.is_valid({**record, "ext": {**record.get("ext", {}), "other": 1}}), line)
        with open(os.path.join(PROTO, "ext.md"), encoding="utf-8") as stream:
            documented = stream.read()
        for name, definition in self.ext.schema["$defs"].items():
            for member in definition.get("properties", {}) if name in KINDS else ():
                self.assertIn("`%s`" % member, documented, name)

    def test_reports(self):
        paths = sorted(glob.glob(os.path.join(FIXTURES, "*", "*.jsonl")))
        paths.append(os.path.join(PROTO, "samples", "trace-10.jsonl"))
        reports = 0
        for path in paths:
            done = subprocess.run([os.path.join(PROGRAMS, "trace-analyze"), "--json", path], stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, check=False)
            if done.returncode == 0 and done.stdout:
                self.accepts(self.report, json.loads(done.stdout), path)
                reports += 1
        self.assertGreater(reports, 100)
        report = json.loads(program("trace-analyze", "--json", paths[-1]))
        figure = ("memory", "allocated", "value")
        self.assertTrue(self.report.is_valid(changed(report, figure, lambda owner, key: owner.__setitem__(key, 7))))
        self.assertFalse(self.report.is_valid(changed(report, figure, lambda owner, key: owner.__setitem__(key, None))))
        self.assertFalse(self.report.is_valid(changed(report, figure, lambda owner, key: owner.pop("status"))))


    def test_validations(self):
        paths = sorted(glob.glob(os.path.join(FIXTURES, "*", "*.jsonl")))
        done = subprocess.run([os.path.join(PROGRAMS, "trace-analyze"), "validate", "--json", *paths, "no-such-file"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
        document = json.loads(done.stdout)
        self.assertEqual((done.returncode, len(document["files"])), (3, len(paths) + 1))
        self.accepts(self.validation, document, "validate")
        for member in document["files"][0]:
            self.assertFalse(self.validation.is_valid(changed(document, ("files", 0, member), lambda owner, key: owner.pop(key))))

    def test_the_documents_of_the_crate_by_us(self):
        for command, name in (("summary", "candle-graph-summary-6"), ("overview", "candle-graph-overview-2")):
            schema = validator(name)
            for path in sorted(glob.glob(os.path.join(FIXTURES, "valid", "*.jsonl"))):
                self.accepts(schema, json.loads(program("trace-analyze", command, path)), path)


class TheDaemon(Case, collector_e2e.CollectorTest):
    """Everything that collectord says and stores in a run of each kind."""

    def said(self, document):
        self.accepts(self.session, document, document)
        return document["kind"]

    def test_all_it_says_and_stores_is_accepted(self):
        self.start()
        stranger = self.producer(b'{"kind":"unknown"}\n', close=False)
        self.assertEqual(self.said(stranger.line()), "refused")

        probe = self.hello(collector_e2e.RingMemory(self.layout), "p1")
        self.assertEqual(self.said(probe.line()), "welcome")
        probe.send(collector_e2e.text(collector_e2e.meta("p1"), collector_e2e.ROOT,
                                      '{"kind":"batch","seq":1,"cursors":[[0,8]]}'))
        self.assertEqual(self.said(probe.line()), "ack")
        self.producer(collector_e2e.text(collector_e2e.meta("r1"), collector_e2e.ROOT, collector_e2e.op(1)))
        failed = self.run_of("r1", "failed")
        open_run = self.run_of("p1", "open")
        probe.send(collector_e2e.text(collector_e2e.ROOT_END, collector_e2e.TERMINAL,
                                      '{"kind":"batch","seq":2,"cursors":[[0,16]]}'))
        self.assertEqual(self.said(probe.line()), "ack")
        complete = self.run_of("p1", "complete")
        for run in (failed, open_run, complete):
            self.assertEqual(self.said(run), "run")
        for run in (failed, complete):
            self.accepts(self.run_json, self.info(run), "run.json")
            self.accepts(self.report, load(run["folder"], "report.json"), "report.json")
            for record in self.stored(run):
                self.accepts(self.trace, record, record)
                if record["kind"] in ("meta", "terminal"):
                    self.accepts(self.ext, record, record)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    PROGRAMS = sys.argv.pop(1)
    collector_e2e.COLLECTORD = os.path.join(PROGRAMS, "collectord")
    collector_e2e.CollectorTest.layout = collector_e2e.read_layout()
    unittest.main()
