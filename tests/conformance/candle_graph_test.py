"""trace-analyze graph on the public traces: byte by byte the `graph` member of candle-graph's evidence packets
(candle/*/import.json), and nodes and edges of every trace as trace10/expected.json has them.

    candle_graph_test.py TRACE_ANALYZE
"""
import json
import pathlib
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).parent
TRACES = HERE / "trace10"
EXPECTED = json.loads((TRACES / "expected.json").read_text(encoding="utf-8"))
PROGRAM = ""


def run(trace, stdin=None):
    return subprocess.run([PROGRAM, "graph", str(trace)], input=stdin, capture_output=True, timeout=60)


def as_expected(graph):
    """A graph in the words of expected.json: edges have from and to, and no times."""
    ends = {"from_span": "from", "from_tensor": "from", "to_span": "to", "to_tensor": "to"}
    edges = [{ends.get(key, key): value for key, value in edge.items() if key != "host_duration_ns"}
             for edge in graph["edges"]]
    return {"nodes": graph["spans"], "edges": edges,
            **{key: value for key, value in graph["summary"].items() if key != "entrypoint"}}


class Graphs(unittest.TestCase):
    def test_every_public_case_gives_the_graph_of_its_packet(self):
        packets = sorted(HERE.glob("candle/*/import.json"))
        self.assertEqual(len(packets), 18)
        graphs = 0
        for packet in packets:
            graph = json.loads(packet.read_text(encoding="utf-8")).get("graph")
            result = run(packet.parent / "input.jsonl")
            with self.subTest(case=packet.parent.name):
                if graph is None:
                    self.assertEqual((result.returncode, result.stdout), (3, b""))
                    continue
                graphs += 1
                self.assertEqual((result.returncode, result.stderr), (0, b""))
                self.assertEqual(result.stdout.decode(), json.dumps(graph, indent=2, ensure_ascii=False) + "\n")
        self.assertEqual(graphs, 14)

    def test_every_valid_trace_has_the_nodes_and_edges_that_were_expected(self):
        graphs = 0
        for name, expected in EXPECTED["valid"].items():
            result = run(TRACES / "valid" / name)
            with self.subTest(trace=name):
                if "graph" not in expected:
                    self.assertEqual(result.returncode, 3)
                    continue
                graphs += 1
                self.assertEqual(as_expected(json.loads(result.stdout)), expected["graph"])
        self.assertGreater(graphs, 20)

    def test_an_invalid_trace_has_no_graph(self):
        for trace in sorted((TRACES / "invalid").iterdir()):
            with self.subTest(trace=trace.name):
                result = run(trace)
                self.assertEqual((result.returncode, result.stdout), (3, b""))

    def test_two_nodes_with_one_id_are_refused_by_name(self):
        for name, node in (("node-id-collision", "/op/0"), ("node-id-collision-tensor", "tensor/")):
            result = run(TRACES / "no-evidence" / f"{name}.jsonl")
            self.assertEqual((result.returncode, result.stdout), (3, b""))
            self.assertIn("two nodes of the graph would have the id", result.stderr.decode())
            self.assertIn(node, result.stderr.decode())

    def test_why_there_is_no_graph_is_said(self):
        self.assertIn("the capture failed", run(TRACES / "valid" / "failed-capture.jsonl").stderr.decode())
        self.assertIn("structurally invalid (1 error)", run(TRACES / "invalid" / "open_span.jsonl").stderr.decode())
        self.assertIn("No such file", run("/nonexistent/trace.jsonl").stderr.decode())

    def test_standard_input_is_read(self):
        trace = TRACES / "valid" / "training-step.jsonl"
        self.assertEqual(run("-", trace.read_bytes()).stdout, run(trace).stdout)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
