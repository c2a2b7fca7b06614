"""How often gates on the impact ratio, and the test of all groups at once, are wrong.

Two groups: over all tables that could come up, weighted by their probability, so that the rates are exact. Ten groups: over
1,000 made-up tables each; the limits leave two standard errors.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy.stats import binom

from aitest_lib.config.gates import Gate
from aitest_lib.data.groups import Groups
from aitest_lib.metrics.fairness import GroupRates, group_rates
from aitest_lib.scorers.figures import Figure, judge_gates
from aitest_lib.scorers.group_contrasts import Compared, alike, gap_figure, ratio_figure
from aitest_lib.stats.verdicts import Decide

GATE = {"impact_ratio": Gate(min=0.8)}
TABLES = 1_000
NOTABLE = 1e-7  # tables less likely than this are left out


def groups_of(rows: tuple[int, ...]) -> Groups:
    names = [f"group {place}" for place in range(len(rows))]
    return Groups(codes=np.repeat(np.arange(len(rows)), rows), names=names, parts=[(name,) for name in names])


def rates_of(selected: tuple[int, ...], rows: tuple[int, ...]) -> list[GroupRates]:
    favoured = np.concatenate([np.arange(n) < hits for hits, n in zip(selected, rows, strict=True)])
    return group_rates(groups_of(rows), favoured)


def impact_ratio(rates: list[GroupRates], reference: str | None) -> Figure:
    compared = Compared.of(rates, below=None, above=None, declared=reference, confidence=0.95)
    return ratio_figure(compared, "impact_ratio", {"attribute": "g"})


def verdict_on(figure: Figure, decide: Decide = "interval") -> str:
    [found] = judge_gates(GATE, [figure], confidence=0.95, decide=decide, incomplete=None)
    return found.verdict


@cache
def verdict(selected: tuple[int, ...], rows: tuple[int, ...], reference: str | None, decide: Decide = "interval") -> str:
    return verdict_on(impact_ratio(rates_of(selected, rows), reference), decide)


def shares(
    rows: tuple[int, int], rates: tuple[float, float], reference: str | None, decide: Decide = "interval"
) -> dict[str, float]:
    """How likely each verdict is with two groups of so many rows and these true rates."""
    chances = [binom.pmf(np.arange(n + 1), n, rate) for n, rate in zip(rows, rates, strict=True)]
    found = dict.fromkeys(("passed", "failed", "inconclusive"), 0.0)
    for table, chance in np.ndenumerate(np.outer(*chances)):
        if chance > NOTABLE:
            found[verdict(table, rows, reference, decide)] += float(chance)
    return found


@pytest.mark.parametrize("reference", ["group 1", None])
@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.9])
def test_a_ratio_of_three_quarters_hardly_ever_passes_with_fifty_rows_each(rate, reference):
    assert shares((50, 50), (0.75 * rate, rate), reference)["passed"] <= 0.03


def test_the_value_alone_would_pass_it_often():
    assert shares((50, 50), (0.75 * 0.3, 0.3), "group 1", decide="point")["passed"] > 0.35


@pytest.mark.parametrize("reference", ["group 1", None])
@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.9])
def test_false_alarms_and_false_passes_at_the_threshold_are_few(rate, reference):
    served_alike = shares((50, 50), (rate, rate), reference)
    assert served_alike["failed"] <= 0.05
    at_threshold = shares((50, 50), (0.8 * rate, rate), reference)
    assert at_threshold["failed"] <= 0.05 and at_threshold["passed"] <= 0.055


@pytest.mark.parametrize("rows", [3, 5, 10, 20])
@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.9, 1.0])
def test_a_small_group_at_the_threshold_rarely_passes(rows, rate):
    found = shares((rows, 300), (0.8 * rate, rate), "group 1")
    assert found["passed"] <= 0.07 and found["failed"] <= 0.05


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5])
def test_ten_groups_that_are_alike_are_rarely_told_apart(rate):
    rng = np.random.default_rng(int(100 * rate))
    rows = (300,) * 10
    told_apart = failed = 0
    for _ in range(TABLES):
        rates = rates_of(tuple(rng.binomial(300, rate, 10).tolist()), rows)
        compared = Compared.of(rates, below=None, above=None, declared=None, confidence=0.95)
        gap = gap_figure(compared, "gap", ["selection_rate"], {}).estimate.bounds(0.95)
        told_apart += gap is not None and gap[0] > 0  # p < 0.05, without looking for p
        ratio = impact_ratio(rates, None)
        _, high = ratio.estimate.bounds(0.95) or (0.0, 1.0)
        failed += high < 0.8 and verdict_on(ratio) == "failed"  # a gate fails by that bound alone
    assert told_apart <= 0.065 * TABLES
    assert failed <= 0.065 * TABLES


def test_the_p_value_of_all_groups_inverts_the_bounds_of_the_largest_gap():
    rng = np.random.default_rng(5)
    seen = set()
    for _ in range(20):
        rates = rates_of(tuple(rng.binomial(100, [0.3, 0.3, 0.5, 0.5]).tolist()), (100,) * 4)
        compared = Compared.of(rates, below=None, above=None, declared=None, confidence=0.95)
        bounds = gap_figure(compared, "gap", ["selection_rate"], {}).estimate.bounds(0.95)
        p = alike(rates)
        assert bounds is not None and p is not None
        assert (bounds[0] > 0) == (p < 0.05)
        seen.add(p < 0.05)
    assert seen == {True, False}


def test_one_group_of_ten_that_is_served_worse_is_found():
    rng = np.random.default_rng(6)
    found = 0
    for _ in range(40):
        selected = (*rng.binomial(300, 0.5, 9).tolist(), int(rng.binomial(300, 0.25)))
        found += verdict_on(impact_ratio(rates_of(selected, (300,) * 10), None)) == "failed"
    assert found >= 38
