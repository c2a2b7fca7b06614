"""What holds for all data: nesting, symmetry, order, agreement of bounds and p-values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitest_lib.stats.clusters import clustered_difference, clustered_rate
from aitest_lib.stats.estimates import Estimate
from aitest_lib.stats.intervals import katz, mean, newcombe, paired_difference, wilson
from aitest_lib.stats.multiple import benjamini_hochberg, holm
from aitest_lib.stats.planning import seeds_needed
from aitest_lib.stats.sequences import mean_sequence, rate_sequence
from aitest_lib.stats.verdicts import GateInput, judge

counts = st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
clusters = st.lists(st.integers(1, 12).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), min_size=1, max_size=30)
p_values = st.lists(st.floats(0, 1), max_size=12)
thresholds = st.floats(0.01, 0.99)


def columns(pairs: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    return [a for a, _ in pairs], [b for _, b in pairs]


def bounds(figure: Estimate, confidence: float = 0.95) -> tuple[float, float]:
    found = figure.bounds(confidence)
    assert found is not None
    return found


@st.composite
def figures(draw: st.DrawFn) -> Estimate:
    (s_1, n_1), (s_2, n_2) = draw(counts), draw(counts)
    many = draw(clusters)
    values = draw(st.lists(st.floats(0, 1), min_size=2, max_size=40))
    loss = draw(st.integers(0, n_1))
    kinds = [
        wilson(s_1, n_1),
        newcombe(s_1, n_1, s_2, n_2),
        katz(s_1, n_1, max(s_2, 1), n_2),
        paired_difference(loss, min(s_1, n_1 - loss), n_1),
        mean(values),
        clustered_rate(*columns(many)),
        clustered_difference(*columns(many), *columns(many[::-1])),
        rate_sequence(s_1, n_1),
        mean_sequence(values),
    ]
    return draw(st.sampled_from(kinds))


@given(figures(), st.floats(0.5, 0.999), st.floats(0.5, 0.999))
def test_intervals_nest_and_hold_the_value(figure: Estimate, one: float, other: float) -> None:
    narrow, wide = bounds(figure, min(one, other)), bounds(figure, max(one, other))
    assert figure.value is not None
    assert wide[0] - 1e-9 <= narrow[0] <= figure.value <= narrow[1] <= wide[1] + 1e-9


@given(figures(), thresholds)
def test_a_small_p_value_means_that_the_bound_is_beyond(figure: Estimate, threshold: float) -> None:
    low, high = bounds(figure)
    if abs(high - threshold) > 1e-9:
        assert (figure.p_below(threshold) < 0.05) == (high < threshold)
    if abs(low - threshold) > 1e-9:
        assert (figure.p_above(threshold) < 0.05) == (low > threshold)
    assert 0 <= figure.p_below(threshold) <= 1


@given(figures(), thresholds, thresholds)
def test_p_values_are_monotone_in_the_threshold(figure: Estimate, one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert figure.p_below(high) <= figure.p_below(low) + 1e-9
    assert figure.p_above(low) <= figure.p_above(high) + 1e-9


@given(counts, counts)
def test_success_and_failure_mirror(first: tuple[int, int], second: tuple[int, int]) -> None:
    (s, n), (t, m) = first, second
    low, high = bounds(wilson(s, n))
    assert bounds(wilson(n - s, n)) == pytest.approx((1 - high, 1 - low), abs=1e-12)
    low, high = bounds(newcombe(s, n, t, m))
    assert bounds(newcombe(t, m, s, n)) == pytest.approx((-high, -low), abs=1e-12)
    low, high = bounds(rate_sequence(s, n))
    assert bounds(rate_sequence(n - s, n)) == pytest.approx((1 - high, 1 - low), abs=1e-9)


@given(counts, st.data())
def test_paired_difference_mirrors(pair: tuple[int, int], data: st.DataObject) -> None:
    first, n = pair
    second = data.draw(st.integers(0, n - first))
    low, high = bounds(paired_difference(first, second, n))
    assert -1 <= low <= high <= 1
    assert high > low
    assert bounds(paired_difference(second, first, n)) == pytest.approx((-high, -low), abs=1e-9)


@given(clusters, st.randoms(use_true_random=False), st.integers(2, 5))
def test_clusters_have_no_order_and_repeats_no_weight(
    many: list[tuple[int, int]], random: np.random.RandomState, times: int
) -> None:
    expected = bounds(clustered_rate(*columns(many)))
    assert 0 <= expected[0] < expected[1] <= 1
    shuffled = list(many)
    random.shuffle(shuffled)
    assert bounds(clustered_rate(*columns(shuffled))) == pytest.approx(expected, abs=1e-9)
    repeated = [(times * s, times * n) for s, n in many]
    low, high = bounds(clustered_rate(*columns(repeated)))
    total = sum(n for _, n in many)
    if clustered_rate(*columns(many)).effective_n != total:  # no cap in the way
        assert (low, high) == pytest.approx(expected, abs=1e-9)


@given(clusters)
def test_clustered_rates_mirror_and_a_thing_does_not_differ_from_itself(many: list[tuple[int, int]]) -> None:
    won, tried = columns(many)
    lost = [n - s for s, n in many]
    figure = clustered_rate(won, tried)
    if 2 * sum(won) != sum(tried):
        low, high = bounds(figure)
        assert bounds(clustered_rate(lost, tried)) == pytest.approx((1 - high, 1 - low), abs=1e-9)
    difference = clustered_difference(won, tried, won, tried)
    low, high = bounds(difference)
    assert difference.value == 0
    assert low < 0 < high
    assert low == pytest.approx(-high, abs=1e-9)


@given(p_values, st.randoms(use_true_random=False))
def test_corrections_keep_order_and_bounds(p: list[float], random: np.random.RandomState) -> None:
    family, discovery = holm(p), benjamini_hochberg(p)
    assert ((np.array(p) <= discovery + 1e-12) & (discovery <= family + 1e-12) & (family <= 1)).all()
    order = list(range(len(p)))
    random.shuffle(order)
    assert (holm([p[i] for i in order]) == family[order]).all()
    assert (benjamini_hochberg([p[i] for i in order]) == discovery[order]).all()
    for adjusted in (family, discovery):
        assert (np.diff(adjusted[np.argsort(p, kind="stable")]) >= 0).all()


@given(thresholds, thresholds)
def test_smaller_effects_need_more_seeds(value: float, threshold: float) -> None:
    if abs(value - threshold) > 1e-3:
        near = (value + threshold) / 2
        far_seeds, near_seeds = seeds_needed(value, threshold), seeds_needed(near, threshold)
        assert far_seeds is not None and near_seeds is not None
        assert near_seeds >= far_seeds


@given(st.lists(counts, min_size=1, max_size=6), thresholds)
def test_verdicts_never_contradict_the_interval(many: list[tuple[int, int]], threshold: float) -> None:
    gates = [GateInput(metric="pass_rate", estimate=wilson(s, n), min=threshold) for s, n in many]
    for gate, result in zip(gates, judge(gates), strict=True):
        low, high = bounds(gate.estimate)
        if result.verdict == "passed":
            assert low >= threshold
        if result.verdict == "failed":
            assert high < threshold
        assert result.reason
