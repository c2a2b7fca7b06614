"""Paired tests against published values, scipy and brute force; and how often they are right, by simulation."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, binomtest, permutation_test

from aitest_lib.errors import InputError
from aitest_lib.stats.paired import mcnemar_midp, paired_bootstrap, paired_rates, sign_flip

SIMULATIONS = 1_000
MOST_FLAGGED = 0.065
CASES = 8  # of each seed

Draw = Callable[[np.random.Generator, int, float, float], NDArray[np.int64]]


def test_mid_p_in_fagerland_lydersen_laake_2013() -> None:
    """Airway hyper-responsiveness before and after stem cell transplantation: 1 and 7 discordant pairs of 21."""
    assert mcnemar_midp(1, 7) == pytest.approx(0.0391, abs=5e-5)
    assert mcnemar_midp(7, 1) == mcnemar_midp(1, 7)


@pytest.mark.parametrize(("b", "c"), [(0, 1), (0, 5), (2, 9), (5, 6), (30, 50), (400, 501), (0, 900)])
def test_mid_p_is_scipys_exact_test_less_half_of_what_was_seen(b: int, c: int) -> None:
    exact = binomtest(b, b + c).pvalue - binom.pmf(b, b + c, 0.5)
    assert mcnemar_midp(b, c) == pytest.approx(max(exact, 1e-15), rel=1e-9, abs=1e-14)
    signs = [1] * c + [-1] * b + [0] * 3
    assert sign_flip(signs) == pytest.approx(mcnemar_midp(b, c), abs=1e-12)


@pytest.mark.parametrize("equal", [0, 1, 8])
def test_mid_p_without_a_difference_is_1(equal: int) -> None:
    assert mcnemar_midp(equal, equal) == pytest.approx(1.0)
    assert sign_flip([2] * equal + [-2] * equal) == pytest.approx(1.0)


def test_sign_flip_is_the_enumeration_of_all_signs() -> None:
    rng = np.random.default_rng(3)
    for _ in range(150):
        given = rng.integers(-5, 6, rng.integers(1, 11))
        sums = np.abs([np.dot(signs, given) for signs in itertools.product([-1, 1], repeat=len(given))])
        seen = abs(given.sum())
        expected = 1.0 if seen == 0 else (sums > seen).mean() + (sums == seen).mean() / 2
        assert sign_flip(given) == pytest.approx(expected, abs=1e-12), given


def test_sign_flip_is_scipys_permutation_test() -> None:
    given = np.array([3, 3, 1, -2, 4, 1, 1, -1, 2, 5, 0, 2])
    found = permutation_test(
        (given, np.zeros_like(given)), lambda a, b: np.sum(a - b), permutation_type="samples", n_resamples=np.inf
    )
    seen = float(np.mean(np.abs(found.null_distribution) == abs(given.sum())))
    assert sign_flip(given) == pytest.approx(found.pvalue - seen / 2, abs=1e-12)


@pytest.mark.parametrize("values", [[0.5], [[1]], [1.0, 2.0]])
def test_sign_flip_takes_whole_numbers(values: object) -> None:
    with pytest.raises(InputError, match="whole numbers"):
        sign_flip(values)  # type: ignore[arg-type]


def beta_binomial(rng: np.random.Generator, seeds: int, p: float, strength: float) -> NDArray[np.int64]:
    share = 1 / strength - 1
    return rng.binomial(CASES, rng.beta(p * share, (1 - p) * share, seeds))


def shared_shock(rng: np.random.Generator, seeds: int, p: float, strength: float) -> NDArray[np.int64]:
    """With probability `strength` a seed's cases fail or hold together."""
    together = rng.random(seeds) < strength
    return np.where(together, CASES * (rng.random(seeds) < p), rng.binomial(CASES, p, seeds))


@pytest.mark.parametrize(
    ("draw", "seeds", "p", "strengths"),
    [
        (beta_binomial, 200, 0.1, (0.3, 0.3)),
        (shared_shock, 2000, 0.05, (0.5, 0.5)),
        (beta_binomial, 100, 0.05, (0.6, 0.1)),  # not exchangeable: the failures of one model cluster, the other's do not
        (shared_shock, 50, 0.04, (0.9, 0.05)),
    ],
)
def test_models_of_equal_rates_that_fail_on_different_seeds_are_rarely_flagged(
    draw: Draw, seeds: int, p: float, strengths: tuple[float, float]
) -> None:
    rng = np.random.default_rng(11)
    tried = np.full(seeds, CASES)
    flagged = [
        paired_rates(*(draw(rng, seeds, p, strength) for strength in strengths), tried).p_value <= 0.05
        for _ in range(SIMULATIONS)
    ]
    assert np.mean(flagged) <= MOST_FLAGGED


def test_taking_correlated_cases_for_independent_would_flag_too_much() -> None:
    """What the seed as unit is for: McNemar's test over cases flags equal models far too often."""
    rng = np.random.default_rng(11)
    flagged = []
    for _ in range(300):
        difference = shared_shock(rng, 200, 0.1, 0.5) - shared_shock(rng, 200, 0.1, 0.5)
        flagged.append(mcnemar_midp(int(difference[difference > 0].sum()), -int(difference[difference < 0].sum())) <= 0.05)
    assert np.mean(flagged) > 2 * MOST_FLAGGED


@pytest.mark.parametrize("seeds", [40, 400])
def test_equal_models_with_one_case_a_seed_are_rarely_flagged(seeds: int) -> None:
    rng = np.random.default_rng(5)
    tried = np.ones(seeds, np.int64)
    pairs = (rng.random((2, seeds)) < 0.1 for _ in range(SIMULATIONS))
    flagged = [paired_rates(*pair.astype(np.int64), tried).p_value <= 0.05 for pair in pairs]
    assert 0.01 <= np.mean(flagged) <= MOST_FLAGGED


@pytest.mark.parametrize("cases", [1, 4])
def test_a_regression_of_2_points_on_2000_seeds_is_found(cases: int) -> None:
    """The candidate keeps four fifths of the base's failures at 10 % and adds new ones, to 12 %."""
    rng = np.random.default_rng(7)
    seeds, found = 2_000, []
    tried = np.full(seeds, cases)
    for _ in range(SIMULATIONS if cases == 1 else 200):
        base = (rng.random(seeds) < 0.1) * cases
        kept, new = rng.binomial(base, 0.8), rng.binomial(tried - base, 0.04 / 0.9)
        test = paired_rates(base, kept + new, tried)
        found.append(test.p_value <= 0.05 and (test.change.value or 0) > 0)
    assert np.mean(found) >= 0.8


@pytest.mark.parametrize(("seeds", "words"), [(60, 1), (100, 12)])
def test_equal_errors_are_rarely_flagged(seeds: int, words: int) -> None:
    """Skewed errors that hang together within a seed, and references of different lengths."""
    rng = np.random.default_rng(2)
    flagged = []
    for _ in range(150):
        hard = rng.gamma(2, 1, seeds)
        weights = rng.integers(1, words + 1, seeds)
        first, second = (hard * rng.gamma(1, 1, seeds) * weights for _ in range(2))
        flagged.append(paired_bootstrap(first, second, weights, 1).p_value <= 0.05)
    assert np.mean(flagged) <= 0.1  # of 150


def test_the_bootstrap_finds_a_difference_that_the_spread_of_errors_hides() -> None:
    rng = np.random.default_rng(4)
    base = rng.gamma(1, 10, 500)
    candidate = base + rng.normal(0.5, 2, 500)
    test = paired_bootstrap(base, candidate, np.ones(500), 1)
    assert test.change.value == pytest.approx(float(np.mean(candidate - base)))
    assert test.p_value < 0.001
    low, high = test.change.bounds(0.975) or (0, 0)
    assert 0 < low < 0.5 < high < 1


def test_the_bootstrap_is_a_ratio_of_sums_and_the_same_every_time() -> None:
    base, candidate, words = np.array([1, 0, 4, 2]), np.array([2, 0, 1, 2]), np.array([10, 5, 20, 8])
    test = paired_bootstrap(base, candidate, words, 9)
    assert test.change.value == pytest.approx((5 - 7) / 43)
    assert test.change.bounds(0.975) == paired_bootstrap(base, candidate, words, 9).change.bounds(0.975)
    assert paired_bootstrap(base, base, words, 9).p_value == 1.0


def test_pairs_see_what_two_separate_rates_hide() -> None:
    """100 and 115 failures of 1,000: nothing for an unpaired test; all 15 are new and none is gone for a paired one."""
    from aitest_lib.stats.intervals import newcombe

    base, candidate = np.zeros(1000, np.int64), np.zeros(1000, np.int64)
    base[:100], candidate[:115] = 1, 1
    low, high = newcombe(115, 1000, 100, 1000).bounds(0.975) or (0, 0)
    assert low < 0 < high
    test = paired_rates(base, candidate, np.ones(1000, np.int64))
    assert test.p_value < 0.001
    low, high = test.change.bounds(0.975) or (0, 0)
    assert 0 < low < 0.015 < high
