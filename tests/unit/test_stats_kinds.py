"""Edges of the interval kinds, the bootstrap, the corrections and the planning."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from aitest_lib.errors import InputError
from aitest_lib.stats.bootstrap import bootstrap, bootstrap_counts
from aitest_lib.stats.clusters import clustered_difference, clustered_rate
from aitest_lib.stats.estimates import Estimate
from aitest_lib.stats.intervals import katz, mean, paired_difference, wilson
from aitest_lib.stats.multiple import benjamini_hochberg, holm
from aitest_lib.stats.planning import decidable, seeds_needed
from aitest_lib.stats.sequences import mean_sequence, rate_sequence


def bounds(figure: Estimate, confidence: float = 0.95) -> tuple[float, float]:
    found = figure.bounds(confidence)
    assert found is not None
    return found


def test_a_perfect_pool_counts_clusters_not_trials() -> None:
    low, high = bounds(clustered_rate(np.full(100, 12), np.full(100, 12)))
    assert high == 1.0
    assert low == pytest.approx(bounds(wilson(100, 100))[0], abs=0.002)
    assert bounds(clustered_rate(np.zeros(100), np.full(100, 12)))[1] == pytest.approx(1 - low)


def test_one_cluster_proves_next_to_nothing() -> None:
    low, high = bounds(clustered_rate([12], [12]))
    assert low < 0.3 and high == 1.0


def test_clusters_without_trials_do_not_count() -> None:
    some = clustered_rate([3, 0, 12, 11], [4, 0, 12, 12])
    assert some.n == 3
    assert bounds(some) == bounds(clustered_rate([3, 12, 11], [4, 12, 12]))


def test_repeating_every_outcome_adds_no_information() -> None:
    won = np.random.default_rng(1).binomial(1, 0.9, 200)
    once, often = clustered_rate(won, np.ones(200)), clustered_rate(12 * won, np.full(200, 12))
    assert bounds(often) == pytest.approx(bounds(once))
    assert bounds(once) == pytest.approx(bounds(wilson(int(won.sum()), 200)), abs=0.005)


def test_independent_trials_in_many_clusters_count_almost_fully() -> None:
    won = np.random.default_rng(2).binomial(12, 0.9, 2000)
    figure = clustered_rate(won, np.full(2000, 12))
    assert figure.effective_n == pytest.approx(24_000, rel=0.1)


def test_clustered_difference_of_single_trials_is_the_paired_one() -> None:
    rng = np.random.default_rng(3)
    first, second = rng.random(300) < 0.95, rng.random(300) < 0.9
    one = np.ones(300)
    figure = clustered_difference(first, one, second, one)
    paired = paired_difference(int((first & ~second).sum()), int((second & ~first).sum()), 300)
    assert figure.value == pytest.approx(paired.value)
    assert bounds(figure) == pytest.approx(bounds(paired), abs=0.004)


def test_clustered_difference_without_any_keeps_its_doubt() -> None:
    low, high = bounds(clustered_difference([12] * 50, [12] * 50, [12] * 50, [12] * 50))
    assert low == pytest.approx(-high)
    assert high == pytest.approx(bounds(paired_difference(0, 0, 50))[1], abs=0.005)


def test_zero_successes_keep_the_ratio_at_zero() -> None:
    figure = katz(0, 50, 20, 50)
    assert figure.value == 0.0
    assert bounds(figure)[0] == 0.0 and 0 < bounds(figure)[1] < 0.3


def test_bootstrap_of_a_mean_is_close_to_t_and_the_same_every_time() -> None:
    data = np.random.default_rng(4).normal(5, 2, 400)

    def average(weights: NDArray[np.int64]) -> float:
        return float(weights @ data / weights.sum())

    figure = bootstrap(average, 400, seed=7)
    assert figure.value == pytest.approx(data.mean())
    assert bounds(figure) == pytest.approx(bounds(mean(data)), abs=0.03)
    assert bounds(figure) == bounds(bootstrap(average, 400, seed=7))
    assert bounds(figure) != bounds(bootstrap(average, 400, seed=8))
    # Far beyond every replicate, the p-value is small but not zero.
    assert 0 < figure.p_below(6.0) < 1e-6


def test_bootstrap_of_counts_draws_the_same_distribution_as_units() -> None:
    table = np.array([[180, 20], [30, 70]])
    units = np.repeat(np.arange(4), table.ravel())

    def youden(counts: NDArray[np.int64]) -> float:
        return float(counts[0, 0] / counts[0].sum() + counts[1, 1] / counts[1].sum() - 1)

    by_counts = bootstrap_counts(youden, table, seed=1, replicates=2000)
    by_units = bootstrap(
        lambda weights: youden(np.bincount(units, weights=weights, minlength=4).reshape(2, 2)), 300, seed=1, replicates=2000
    )
    assert by_counts.value == pytest.approx(by_units.value)
    assert bounds(by_counts) == pytest.approx(bounds(by_units), abs=0.012)


def test_bootstrap_of_an_undefined_figure_says_so() -> None:
    assert bootstrap(lambda weights: math.nan, 10, seed=1, what="auc").reason == "auc is undefined on these cases"
    assert bootstrap(lambda weights: 1.0, 1, seed=1).value is None
    # Defined on the data, but not on the third of the resamples that lacks the only case of a class.
    figure = bootstrap(lambda weights: 1.0 if weights[0] else math.nan, 50, seed=1)
    assert figure.value == 1.0
    assert figure.bounds(0.95) is None and figure.reason is not None and "too few cases" in figure.reason


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == pytest.approx([1.0, 1.0])
    assert len(holm([])) == 0


def test_benjamini_hochberg_by_hand() -> None:
    assert benjamini_hochberg([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.02, 0.04, 0.04, 0.02])
    # Benjamini and Hochberg 1995, section 3.1: four of fifteen are rejected at 5 %.
    p = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0]
    assert int((benjamini_hochberg(p) <= 0.05).sum()) == 4
    assert int((holm(p) <= 0.05).sum()) == 3


@pytest.mark.parametrize("p", [[0.5, 1.5], [float("nan")], [[0.1]]])
def test_p_values_outside_their_range_are_refused(p: list[float]) -> None:
    with pytest.raises(InputError, match="p-values"):
        holm(p)


def test_seeds_needed_by_hand() -> None:
    spread = 1.6448536 * math.sqrt(0.95 * 0.05) + 0.8416212 * math.sqrt(0.93 * 0.07)
    assert seeds_needed(0.93, 0.95) == math.ceil((spread / 0.02) ** 2)
    assert seeds_needed(0.95, 0.95) is None
    assert seeds_needed(1.0, 0.95) == math.ceil(1.6448536**2 * 0.95 / 0.05)
    with pytest.raises(InputError, match="percentages"):
        seeds_needed(93, 95)


@pytest.mark.parametrize("n", [1, 7, 30, 52, 100, 500])
@pytest.mark.parametrize("threshold", [0.0, 0.5, 0.8, 0.95, 1.0])
def test_decidable_agrees_with_every_count(n: int, threshold: float) -> None:
    passing = [s / n for s in range(n + 1) if bounds(wilson(s, n))[0] >= threshold]
    failing = [s / n for s in range(n + 1) if bounds(wilson(s, n))[1] < threshold]
    assert decidable(n, threshold) == (min(passing, default=None), max(failing, default=None))


def test_too_few_seeds_decide_nothing() -> None:
    assert decidable(51, 0.95)[0] is None
    assert decidable(52, 0.95)[0] == 1.0  # 2.7055 * 0.95 / 0.05 = 51.4
    with pytest.raises(InputError, match="at least 1 seed"):
        decidable(0, 0.95)


def test_sequences_are_wider_than_a_single_look_and_shrink() -> None:
    fixed, sequence = bounds(wilson(900, 1000)), bounds(rate_sequence(900, 1000))
    assert sequence[0] < fixed[0] and fixed[1] < sequence[1]
    assert sequence[1] - sequence[0] < 2.5 * (fixed[1] - fixed[0])
    data = np.random.default_rng(5).random(100_000)
    widths = [high - low for low, high in (bounds(mean_sequence(data[:n])) for n in (100, 1000, 10_000, 100_000))]
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < 0.01


def test_sequence_of_differences() -> None:
    differences = np.array([-1, 0, 0, 0, 1, 0, 0, 0, 0, 0] * 500, dtype=float)
    low, high = bounds(mean_sequence(differences, lower=-1))
    assert -0.06 < low < 0 < high < 0.06
    assert mean_sequence(differences, lower=-1).value == 0


def test_perfect_streams() -> None:
    assert bounds(rate_sequence(100, 100)) == (pytest.approx(0.943, abs=0.002), 1.0)
    assert bounds(rate_sequence(0, 100))[0] == 0.0
