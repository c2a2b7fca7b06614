"""Slices that fail more than the rest: found where planted, not where there is nothing."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import fisher_exact

from aitest_lib.reports.slices import SliceColumn, rank_case_slices, rank_changes, rank_slices
from aitest_lib.stats.intervals import newcombe

SEEDS = 600


def columns(rng: np.random.Generator, seeds: int = SEEDS) -> list[SliceColumn]:
    cuts = {"job": 5, "sex": 2, "age": 4, "region": 8}
    return [
        SliceColumn(name, [f"{name} {n}" for n in range(count)], rng.integers(0, count, seeds).astype(np.int32))
        for name, count in cuts.items()
    ]


def everything(seeds: int = SEEDS) -> np.ndarray:
    return np.ones(seeds, bool)


def test_a_planted_slice_comes_first():
    rng = np.random.default_rng(0)
    cuts = columns(rng)
    failing = rng.random(SEEDS) < np.where(cuts[0].codes == 2, 0.4, 0.05)
    found = rank_slices(cuts, everything(), failing, 0.95)
    assert (found[0].name, found[0].value) == ("job", "job 2")
    assert [item.flagged for item in found].count(True) == 1
    assert found[0].q_value < 0.001
    assert found[0].low > 0
    flagged, differences = [item.flagged for item in found], [item.difference for item in found[1:]]
    assert flagged == sorted(flagged, reverse=True)
    assert differences == sorted(differences, reverse=True)


def test_hardly_anything_is_flagged_where_there_is_nothing():
    rng = np.random.default_rng(20_260_101)
    tables = 300
    wrong = 0
    for _ in range(tables):
        failing = rng.random(SEEDS) < 0.1
        wrong += any(item.flagged for item in rank_slices(columns(rng), everything(), failing, 0.95))
    assert wrong <= 15  # 5 %


def test_figures_are_those_of_fisher_and_newcombe():
    codes = np.repeat([0, 1], [40, 160]).astype(np.int32)
    failing = np.zeros(200, bool)
    failing[:10] = failing[40:60] = True
    one, other = rank_slices([SliceColumn("c", ["a", "b"], codes)], everything(200), failing, 0.9)
    assert (one.value, one.seeds, one.failing, one.rate, one.rest_rate) == ("a", 40, 10, 0.25, 0.125)
    p = fisher_exact([[10, 30], [20, 140]], alternative="greater").pvalue
    p_other = fisher_exact([[20, 140], [10, 30]], alternative="greater").pvalue
    assert one.q_value == pytest.approx(min(2 * p, p_other))
    assert other.q_value == pytest.approx(p_other)
    assert one.difference == 0.125
    assert (one.low, one.high) == pytest.approx(newcombe(10, 40, 20, 160).bounds(0.9))


def test_fewer_than_30_seeds_are_left_out_on_either_side():
    for few, expected in ((29, []), (30, ["a", "b"])):
        codes = np.repeat([0, 1], [few, 200 - few]).astype(np.int32)
        failing = codes == 0
        assert sorted(
            item.value for item in rank_slices([SliceColumn("c", ["a", "b"], codes)], everything(200), failing, 0.95)
        ) == (expected)


def test_seeds_that_do_not_count_are_in_no_slice():
    codes = np.repeat([0, 1], 100).astype(np.int32)
    counted = np.tile([True, False], 100)
    failing = ~counted | (codes == 0)
    found = rank_slices([SliceColumn("c", ["a", "b"], codes)], counted, failing, 0.95)
    assert [(item.value, item.seeds, item.failing) for item in found] == [("a", 50, 50), ("b", 50, 0)]


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_nothing_fails_or_everything(share):
    failing = np.full(SEEDS, bool(share))
    found = rank_slices(columns(np.random.default_rng(0)), everything(), failing, 0.95)
    assert len(found) == 19
    assert not any(item.flagged for item in found)
    assert {item.q_value for item in found} == {1.0}


def test_no_slices():
    assert rank_slices([], everything(), everything(), 0.95) == []
    assert rank_slices(columns(np.random.default_rng(0)), ~everything(), everything(), 0.95) == []


def test_the_change_that_goes_with_failures_is_named():
    rng = np.random.default_rng(1)
    changed = {name: rng.random(SEEDS) < 0.4 for name in ("job", "age", "pay")}
    failing = rng.random(SEEDS) < np.where(changed["age"], 0.3, 0.03)
    [found] = rank_changes("category_swap", changed, everything(), failing, 0.95)
    assert found.value == "age"
    assert found.name.endswith("category_swap")
    assert found.flagged


def sweeps(rng: np.random.Generator, chance: np.ndarray, components: int = 31) -> tuple[np.ndarray, np.ndarray]:
    """Cases and failing cases of seeds that differ in how fragile they are."""
    fragile = rng.beta(0.5, 2.0, len(chance)) * 3 * chance
    return np.full(len(chance), components), rng.binomial(components, np.minimum(fragile, 1))


def test_of_many_cases_a_seed_the_failing_cases_are_what_counts():
    rng = np.random.default_rng(0)
    cuts = columns(rng)
    cases, failing = sweeps(rng, np.where(cuts[0].codes == 2, 0.3, 0.1))
    found = rank_case_slices(cuts, cases, failing, 0.95)
    assert (found[0].name, found[0].value, found[0].share_of) == ("job", "job 2", "cases")
    assert [item.flagged for item in found].count(True) == 1
    assert found[0].low > 0
    inside = cuts[0].codes == 2
    assert found[0].rate == pytest.approx(failing[inside].sum() / cases[inside].sum())
    assert found[0].rest_rate == pytest.approx(failing[~inside].sum() / cases[~inside].sum())
    assert found[0].seeds == inside.sum()


def test_hardly_anything_is_flagged_among_seeds_that_differ_by_themselves():
    rng = np.random.default_rng(20_260_102)
    wrong = 0
    for _ in range(200):
        cases, failing = sweeps(rng, np.full(SEEDS, 0.1))
        wrong += any(item.flagged for item in rank_case_slices(columns(rng), cases, failing, 0.95))
    assert wrong <= 16  # 5 %, and twice the error of 200 tables
