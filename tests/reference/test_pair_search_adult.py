"""The search for pairs on census income: how much it finds in 20,000 queries, beside what peers find in the same run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from discrimination import case, figures, own, peer, surrogate
from discrimination_peers import aequitas, random_rows
from threadpoolctl import threadpool_limits
from trees_models import DATA, SHARED

QUERIES = 20_000
FILE = SHARED / DATA["adult"][0]


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.skipif(not FILE.exists(), reason=f"{FILE} is not there")
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("kind", "least"), [("gb", 50), ("mlp", 65)])
def test_the_search_finds_many_rows_that_could_be(kind, least, seed):
    with threadpool_limits(1):
        given = case(kind, seed)
        leaves = surrogate(given)
        results = [own(given, QUERIES, scored=scored) for scored in (True, False)]
        guided, blind = (figures(given, result, leaves) for result in results)
        chance, stepping = (figures(given, peer(given, QUERIES, method), leaves) for method in (random_rows, aequitas))
    assert all(result.queries <= QUERIES for result in results)
    assert guided.per_thousand >= least and guided.per_thousand > blind.per_thousand
    assert guided.real >= 0.95 and guided.ties == 1
    assert guided.regions >= 30
    for found in (guided, blind):
        assert found.per_thousand > 5 * chance.per_thousand
        assert found.per_thousand > 1.4 * stepping.per_thousand
    for other in (chance, stepping):
        assert other.per_thousand * other.real < 0.01 * guided.per_thousand
