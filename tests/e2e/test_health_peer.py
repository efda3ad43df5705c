"""Our health of mutated fixtures is that of the public crate: readable or not, issues in order, coverage, verdicts.

More of them by hand: tests/conformance/health_mutations.py.
"""
import os
import sys

import support

sys.path.insert(0, os.path.join(support.REPOSITORY, "tests", "conformance"))
import health_mutations  # noqa: E402


def test_mutated_fixtures_have_the_health_that_the_crate_finds(candle_graph_path):
    count = support.repetitions(500, 150)
    tally, differences = health_mutations.compare_all(range(count), support.TRACE_ANALYZE, candle_graph_path)
    assert not differences, "\n".join(differences[:5])
    assert tally["same"] > count / 2, tally
