"""Where our reader and the candle-graph crate's differ, and where they do not: both read every input of this table.

    crate_differences_test.py BUILD/bin [--list]     --list prints the differences, as proto/README.md explains them

The crate's program is ${XDG_CACHE_HOME:-~/.cache}/tensortap/candle-graph/bin/candle-graph (tests/run installs it), or
TENSORTAP_CANDLE_GRAPH. Without it our half is checked alone, and the reason is printed.
"""
import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest

PROGRAMS = ""
CACHE = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
CRATE = os.environ.get("TENSORTAP_CANDLE_GRAPH") or os.path.join(CACHE, "tensortap", "candle-graph", "bin", "candle-graph")

META = ('{"kind":"meta","schema":"candle-graph/trace/10","run_id":"r","correlation_id":"c","entrypoint":"e","phase":"infer",'
        '"timestamp":"2026-01-01T00:00:00Z","capture_step":1,"warmup_steps":0,"device":"cpu",'
        '"measured_region_device_synchronized":false,"timing_mode":"host","capture_contract":{"measurement_scope":"unknown",'
        '"operations":"none","logical_memory":"none","physical_memory":"none","device_timing":"none"},"tags":{}}')
ROOT = '{"kind":"span_start","id":"s1","name":"e","start_ns":0,"span_kind":"function","measured":true}'
END = '{"kind":"span_end","id":"s1","duration_ns":100}'
TERMINAL = '{"kind":"terminal","outcome":"complete","timestamp_ns":100}'
STATS = ('{"kind":"tensor_stats","span_id":"s1","label":"l","shape":[],"dtype":"f64","elements":1,"non_finite":0,"rms":1.0,'
         '"abs_max":1.0,"mean":%s}')
OP = ('{"kind":"op","span_id":"s1","op_name":"a","inputs":[],"shape":[],"dtype":"f32","device":"cpu","duration_ns":%s,'
      '"timestamp_ns":1,"input_dense_bytes":0}')
GRADIENT = '{"kind":"gradient","event_id":"g","root":"p","key":"w","state":"present","norm":%s}'


def stream(*between, meta=META, root=ROOT, end=END, terminal=TERMINAL):
    lines = [line.encode() if isinstance(line, str) else line for line in (meta, root, *between, end, terminal)]
    return b"".join(line + b"\n" for line in lines)


def with_unknown(value):
    """A span with a field that nobody knows."""
    return stream(root=ROOT[:-1] + ',"unknown":' + value + "}")


def with_mean(text):
    return stream(STATS % text)


# What both accept, what both refuse, and what only one accepts: name, bytes. The names of the third table are explained in
# proto/README.md.
BOTH_ACCEPT = {
    "plain": stream(),
    "white space around a line (Unicode's)": stream(root="\u3000\u00a0\x0b" + ROOT + "\u2003\u0085\x0c"),
    "carriage returns": stream().replace(b"\n", b"\r\n"),
    "no line feed at the end": stream()[:-1],
    "blank lines anywhere": b"\n \r\n" + stream().replace(b"\n", b"\n\n\t\n"),
    "white space inside the object": stream(root=ROOT.replace(":", " :\t").replace(",", "\r,  ")),
    "key spelled with an escape": stream(root=ROOT.replace('"id"', '"\\u0069d"')),
    "kind spelled with an escape": stream(root=ROOT.replace('"kind"', '"k\\u0069nd"')),
    "enum value spelled with an escape": stream(root=ROOT.replace('"function"', '"f\\u0075nction"')),
    "kind last": stream(end='{"id":"s1","duration_ns":100,"kind":"span_end"}'),
    "unknown field twice": stream(root=ROOT[:-1] + ',"x":1,"x":2}'),
    "tag given twice": stream(meta=META.replace('"tags":{}', '"tags":{"a":"1","a":"2"}')),
    "empty key in tags": stream(meta=META.replace('"tags":{}', '"tags":{"":""}')),
    "null for nullable fields": stream(root=ROOT[:-1] + ',"parent_id":null,"step":null}'),
    "escaped NUL and characters outside the BMP": stream(root=ROOT.replace('"e"', '"\\u0000\\ud83d\\udd25\U0001f525"')),
    "DEL as it is": stream(root=ROOT.replace('"e"', '"\x7f"')),
    "127 nested containers": with_unknown("[" * 126 + "]" * 126),
    "fields of the other edge kind": stream('{"kind":"edge","edge_kind":"data","from_tensor":"a","to_tensor":"b",'
                                            '"from_span":5,"host_duration_ns":"x"}'),
    "integer as a float field": with_mean("-3"),
    "float too small": with_mean("1e-400"),
    "zero with a huge exponent": with_mean("0e99999999999999999999"),
    "huge negative exponent": with_mean("1e-99999999999999999999"),
    "float of many digits": with_mean("0." + "123456789" * 60),
    "integer part of many digits": with_mean("123456789" * 30 + ".5"),
    "largest integer": stream(OP % "18446744073709551615", terminal=TERMINAL.replace("100", "18446744073709551615")),
    "trace/9": stream(meta=META.replace("trace/10", "trace/9")),
    "ids and names that are empty": stream(root=ROOT.replace('"s1"', '""'), end=END.replace('"s1"', '""')),
    "unknown field with the largest float": with_unknown("1.7976931348623157e308"),
}
BOTH_REFUSE = {
    "byte order mark": b"\xef\xbb\xbf" + stream(),
    "U+FEFF behind a line": stream(root=ROOT + "\ufeff"),
    "U+001C around a line": stream(root="\x1c" + ROOT),
    "U+180E and U+200B around a line": stream(root="\u180e" + ROOT + "\u200b"),
    "form feed inside the object": stream(root=ROOT.replace(",", "\x0c,")),
    "NUL behind the object": stream(root=ROOT + "\x00"),
    "bytes that are not UTF-8": stream(root=ROOT.encode().replace(b'"e"', b'"\xff"')),
    "surrogate in UTF-8": stream(root=ROOT.encode().replace(b'"e"', b'"\xed\xa0\x80"')),
    "bytes that are not UTF-8 in an unknown field": stream(root=ROOT.encode()[:-1] + b',"x":"\xc3("}'),
    "lone surrogate": stream(root=ROOT.replace('"e"', '"\\ud800"')),
    "lone surrogate in an unknown field": with_unknown('"\\udc00"'),
    "lone surrogate in an unknown key": stream(root=ROOT[:-1] + ',"\\ud800":1}'),
    "unknown escape": stream(root=ROOT.replace('"e"', '"\\x41"')),
    "control character": stream(root=ROOT.replace('"e"', '"\x01"')),
    "trailing comma": stream(root=ROOT[:-1] + ",}"),
    "comment": stream(root=ROOT[:-1] + "/* */}"),
    "single quotes": stream(root=ROOT.replace('"', "'")),
    "two objects on a line": stream(root=ROOT + ROOT),
    "known field twice": stream(root=ROOT[:-1] + ',"id":"s1"}'),
    "known field twice, once escaped": stream(root=ROOT[:-1] + ',"\\u0069d":"s1"}'),
    "kind twice": stream(root=ROOT[:-1] + ',"kind":"span_start"}'),
    "128 nested containers": with_unknown("[" * 127 + "]" * 127),
    "128 nested containers of objects": with_unknown('{"a":' * 127 + "1" + "}" * 127),
    "-0 as an integer": stream(OP % "-0"),
    "1.0 as an integer": stream(OP % "1.0"),
    "1e2 as an integer": stream(OP % "1e2"),
    "2^64": stream(OP % "18446744073709551616"),
    "string as an integer": stream(OP % '"1"'),
    "string as a float": with_mean('"1.0"'),
    "null as a float": with_mean("null"),
    "leading zero": with_mean("01.0"),
    "plus sign": with_mean("+1.0"),
    "nothing behind the point": with_mean("1."),
    "nothing before the point": with_mean(".5"),
    "NaN": with_mean("NaN"),
    "huge exponent": with_mean("1e99999999999999999999"),
    "overflow": with_mean("1e309"),
    "overflow in an unknown field": with_unknown("-1e309"),
    "enum in another case": stream(root=ROOT.replace('"function"', '"Function"')),
    "kind that is no string": stream(root=ROOT.replace('"span_start"', "1")),
    "unknown kind": stream(root=ROOT.replace('"span_start"', '"spans"')),
    "null for a field with a default": stream(root=ROOT.replace("true", "null")),
    "number among the tags": stream(meta=META.replace('"tags":{}', '"tags":{"a":1}')),
    "null for the tags": stream(meta=META.replace('"tags":{}', '"tags":null')),
    "trace/8": stream(meta=META.replace("trace/10", "trace/8")),
    "nothing": b"",
    "blank lines only": b"\n\n",
    "no terminal": stream(terminal=""),
    "record behind the terminal": stream() + END.encode(),
}
OURS = "we accept, the crate refuses"
CRATES = "the crate accepts, we refuse"
DIFFERENCES = {
    "array-for-record": (CRATES, stream(end='["span_end","s1",100]')),
    "array-for-object": (CRATES, stream(meta=META.replace(
        '{"measurement_scope":"unknown","operations":"none","logical_memory":"none","physical_memory":"none",'
        '"device_timing":"none"}', '["unknown","none","none","none","none",null,"none","none","none",[],[],[]]'))),
    "object-for-enum": (CRATES, stream(meta=META.replace('"infer"', '{"infer":null}'))),
    "float-near-the-largest": (OURS, with_mean("1.7976931348623158e308")),
    "compressed": (OURS, subprocess.run(["zstd", "-cq"], input=stream(), stdout=subprocess.PIPE, check=True).stdout),
}


def ours(path):
    return subprocess.run([os.path.join(PROGRAMS, "trace10_tool"), "read", path], stdout=subprocess.PIPE,
                          check=True).stdout.decode().strip()


def crates(path):
    done = subprocess.run([CRATE, "summary", path], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    return "accepted" if done.returncode == 0 else "refused " + done.stderr.decode(errors="replace").strip()[:200]


class Differences(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.peer = os.access(CRATE, os.X_OK)
        if not cls.peer:
            print("the crate's half is skipped: no %s (tests/run installs it where cargo is)" % CRATE)

    def verdicts(self, data):
        with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
            file.write(data)
            file.flush()
            return ours(file.name), crates(file.name) if self.peer else None

    def check(self, table, we_accept, crate_accepts):
        for name, data in table.items():
            with self.subTest(name):
                our, peer = self.verdicts(data)
                self.assertEqual(our == "accepted", we_accept, our)
                if peer is not None:
                    self.assertEqual(peer == "accepted", crate_accepts, peer)

    def test_what_both_accept(self):
        self.check(BOTH_ACCEPT, True, True)

    def test_what_both_refuse(self):
        self.check(BOTH_REFUSE, False, False)

    def test_what_only_one_accepts(self):
        for who in (OURS, CRATES):
            self.check({name: data for name, (accepts, data) in DIFFERENCES.items() if accepts == who}, who == OURS,
                       who == CRATES)

    def test_each_difference_is_explained(self):
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "proto", "README.md"),
                  encoding="utf-8") as stream_:
            readme = stream_.read()
        for name in DIFFERENCES:
            self.assertIn("`%s`" % name, readme)

    def test_the_crate_reads_the_floats_that_we_write(self):
        if not self.peer:
            self.skipTest("no candle-graph program")
        count = 2000
        lines = subprocess.run([os.path.join(PROGRAMS, "trace10_tool"), "floats", str(count)], stdout=subprocess.PIPE,
                               check=True).stdout
        with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
            file.write(lines)
            file.flush()
            answer = subprocess.run([CRATE, "query", file.name, "--kind", "tensor-stats", "--all"], stdout=subprocess.PIPE,
                                    check=True).stdout
        rows = json.loads(answer)["result"]["rows"]
        self.assertEqual(len(rows), count)
        wrong = [row for row in rows if struct.pack(">d", row["mean"]).hex() != row["label"]]
        self.assertLess(len(wrong), count // 400 + 1, wrong[:5])


def main():
    for name, (who, _) in DIFFERENCES.items():
        print("%-20s %s" % (name, who))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    PROGRAMS = sys.argv.pop(1)
    if "--list" in sys.argv:
        main()
    else:
        unittest.main()
