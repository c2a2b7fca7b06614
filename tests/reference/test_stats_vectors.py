"""Intervals against published tables, scipy, and brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import binomtest, norm, ttest_1samp

from aitest_lib.stats.intervals import katz, mean, median, newcombe, paired_difference, paired_mean, rate_difference, wilson
from aitest_lib.stats.sequences import mean_sequence, rate_sequence


@pytest.mark.parametrize("n", [1, 2, 10, 37, 500, 20_000])
@pytest.mark.parametrize("share", [0.0, 0.03, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.975, 0.995])
def test_wilson_is_scipys(n: int, share: float, confidence: float) -> None:
    successes = round(share * n)
    expected = binomtest(successes, n).proportion_ci(confidence_level=2 * confidence - 1, method="wilson")
    assert wilson(successes, n).bounds(confidence) == pytest.approx((expected.low, expected.high), abs=1e-12)


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_in_newcombe_1998a_table_1(successes: int, n: int, low: float, high: float) -> None:
    assert wilson(successes, n).bounds(0.975) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize(
    ("counts", "low", "high"),
    [
        ((56, 70, 48, 80), 0.0524, 0.3339),
        ((9, 10, 3, 10), 0.1705, 0.8090),
        ((6, 7, 2, 7), 0.0582, 0.8062),
        ((5, 56, 0, 29), -0.0381, 0.1926),
        ((0, 10, 0, 20), -0.1611, 0.2775),
        ((0, 10, 0, 10), -0.2775, 0.2775),
        ((10, 10, 0, 20), 0.6791, 1.0),
        ((10, 10, 0, 10), 0.6075, 1.0),
    ],
)
def test_newcombe_in_newcombe_1998b_table_2_method_10(counts: tuple[int, int, int, int], low: float, high: float) -> None:
    assert newcombe(*counts).bounds(0.975) == pytest.approx((low, high), abs=5e-5)


def test_katz_by_hand() -> None:
    figure = katz(30, 100, 60, 120)
    assert figure.value == pytest.approx(0.6)
    centre = math.log(30.5 / 100.5) - math.log(60.5 / 120.5)
    error = math.sqrt(1 / 30.5 - 1 / 100.5 + 1 / 60.5 - 1 / 120.5)
    expected = (math.exp(centre - 1.959964 * error), math.exp(centre + 1.959964 * error))
    assert expected == pytest.approx((0.4279, 0.8539), abs=1e-4)
    assert figure.bounds(0.975) == pytest.approx(expected, rel=1e-6)


def _brute_force_score(only_first: int, only_second: int, n: int, delta: float) -> float:
    """Score statistic with the constrained likelihood maximised numerically."""
    least = max(0.0, -delta)
    most = (1 - delta) / 2

    def minus_likelihood(second: float) -> float:
        first = second + delta
        rest = 1 - first - second
        parts = ((only_first, first), (only_second, second), (n - only_first - only_second, rest))
        return -sum(count * math.log(max(share, 1e-300)) for count, share in parts if count)

    second = minimize_scalar(minus_likelihood, bounds=(least, most), method="bounded", options={"xatol": 1e-13}).x
    return float((only_first - only_second - n * delta) / math.sqrt(n * (2 * second + delta - delta**2)))


@pytest.mark.parametrize("counts", [(12, 2, 50), (7, 17, 70), (29, 25, 500), (1, 1, 30), (5, 3, 20)])
def test_paired_difference_is_the_inverted_score_test(counts: tuple[int, int, int]) -> None:
    only_first, only_second, n = counts
    observed = (only_first - only_second) / n
    low = brentq(lambda delta: _brute_force_score(*counts, delta) - 1.959964, -0.999, observed - 1e-9)
    high = brentq(lambda delta: _brute_force_score(*counts, delta) + 1.959964, observed + 1e-9, 0.999)
    assert paired_difference(only_first, only_second, n).bounds(0.975) == pytest.approx((low, high), abs=2e-5)


@pytest.mark.parametrize(("only_first", "n"), [(0, 30), (3, 50), (29, 500), (90, 100)])
def test_paired_difference_with_losses_only_is_wilson(only_first: int, n: int) -> None:
    paired, rate = paired_difference(only_first, 0, n).bounds(0.95), wilson(only_first, n).bounds(0.95)
    assert paired is not None and rate is not None
    assert paired[1] == pytest.approx(rate[1], abs=1e-9)
    if only_first:
        assert paired[0] == pytest.approx(rate[0], abs=0.02)


def test_mean_is_scipys_t_interval() -> None:
    data = np.random.default_rng(1).gamma(2, size=23)
    expected = ttest_1samp(data, 0).confidence_interval(0.9)
    assert mean(data).bounds(0.95) == pytest.approx((expected.low, expected.high))
    assert paired_mean(data) == mean(data)
    assert mean(data).p_below(3.0) == pytest.approx(ttest_1samp(data, 3.0, alternative="less").pvalue, rel=1e-6)


def test_mean_sequence_is_the_published_recursion() -> None:
    """Waudby-Smith and Ramdas 2024, theorem 2, value by value: what is bet on a value knows only those before it."""
    values = np.random.default_rng(2).beta(2, 5, 1000)
    centre = weight = penalty = 0.0
    total, squares = 0.5, 0.25
    for t, x in enumerate(values, start=1):
        before, variance = total / t, squares / t
        bet = min(math.sqrt(2 * math.log(20) / (variance * t * math.log(t + 1))), 0.5)
        centre += bet * x
        weight += bet
        penalty += 4 * (x - before) ** 2 * (-math.log(1 - bet) - bet) / 4
        total += x
        squares += (x - total / (t + 1)) ** 2
    half = (math.log(20) + penalty) / weight
    expected = (max(centre / weight - half, 0.0), min(centre / weight + half, 1.0))
    assert mean_sequence(values).bounds(0.95) == pytest.approx(expected)


def test_rate_sequence_by_hand() -> None:
    """Twenty successes of twenty: the mixture pays B(20.5, 0.5) / (B(0.5, 0.5) p^20)."""
    pays = math.exp(math.lgamma(20.5) + math.lgamma(0.5) - math.lgamma(21)) / math.pi
    found = rate_sequence(20, 20).bounds(0.95)
    assert found is not None
    assert found[0] == pytest.approx((pays * 0.05) ** (1 / 20))
    assert found[0] < 1 / (1 + norm.isf(0.05) ** 2 / 20)


@pytest.mark.parametrize("n", [1, 2, 7, 30, 501])
@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_a_median_lies_between_the_order_statistics_of_the_sign_test(n: int, confidence: float) -> None:
    values = np.random.default_rng(n).normal(size=n)
    found = median(values)
    ordered = np.sort(values)
    assert found.value == ordered[(n - 1) // 2]
    low, high = found.bounds(confidence)
    below = int((values < low).sum())
    # The bound is the highest order statistic that the median is below with a chance of at most 1 - confidence.
    assert low == ordered[0] or binomtest(below, n, 0.5, alternative="less").pvalue <= 1 - confidence
    assert binomtest(below + 1, n, 0.5, alternative="less").pvalue > 1 - confidence or low == found.value
    assert high == ordered[n - 1 - below] or high == found.value


def test_the_median_of_order_statistics_covers_as_it_says() -> None:
    rng = np.random.default_rng(0)
    for n in (20, 101):
        missed = sum(median(rng.exponential(size=n)).bounds(0.95)[0] > math.log(2) for _ in range(2_000))
        assert missed <= 0.05 * 2_000 + 2 * math.sqrt(2_000 * 0.05 * 0.95)


def test_a_difference_of_rates_is_newcombes_where_nothing_is_clustered() -> None:
    for counts in ((56, 70, 48, 80), (9, 10, 3, 10), (5, 56, 0, 29)):
        found = rate_difference(wilson(*counts[:2]), wilson(*counts[2:]))
        assert found.bounds(0.95) == pytest.approx(newcombe(*counts).bounds(0.95))
        assert found.value == pytest.approx(newcombe(*counts).value)
