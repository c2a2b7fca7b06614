"""Fairness of word error rates: against SciPy's permutation test, and by simulation of speakers and clips.

Speakers differ (log-sd 0.4), clips of 3 to 14 words vary more than counts do, and the mean word error rate is 0.15.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import permutation_test, ttest_ind

from aitest_lib.metrics.wer import pooled_rate, pooled_rise
from aitest_lib.stats.disparity import GroupGaps, disparity
from aitest_lib.stats.estimates import Estimate
from aitest_lib.stats.permutation import Speakers, gap_permutation, ratio_permutation

WER = 0.15
SPREAD = 0.4
CLIPS = 30

Clips = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.str_]]


def bounds(figure: Estimate, confidence: float = 0.95) -> tuple[float, float]:
    found = figure.bounds(confidence)
    assert found is not None
    return found


def group(rng: np.random.Generator, name: str, wer: float, speakers: int, clips: int = CLIPS) -> Clips:
    """Errors, words and speaker of each clip; the speakers' rates have the mean `wer`."""
    words = rng.integers(3, 15, (speakers, clips))
    rates = wer * np.exp(rng.normal(0, SPREAD, (speakers, 1)) - SPREAD**2 / 2)
    errors = rng.poisson(rates * words * rng.gamma(2, 0.5, words.shape))
    names = np.char.add(f"{name}-", np.repeat(np.arange(speakers), clips).astype(str))
    return errors.ravel(), words.ravel(), names


def compared(rng: np.random.Generator, rates: list[float], speakers: int, reference: str | None, seed: int) -> GroupGaps:
    groups = [group(rng, f"g{place}", wer, speakers) for place, wer in enumerate(rates)]
    errors, words, names = (np.concatenate(column) for column in zip(*groups, strict=True))
    return disparity(errors, words, names, [str(name).split("-")[0] for name in names], seed, reference)


def found(runs: int, rates: list[float], speakers: int, reference: str | None = None, seed: int = 21) -> float:
    """Share of the runs in which the lower bound of the worst gap is above 0."""
    rng = np.random.default_rng(seed)
    return float(np.mean([bounds(compared(rng, rates, speakers, reference, run).worst)[0] > 0 for run in range(runs)]))


def some_speakers(rng: np.random.Generator, count: int, wer: float) -> Speakers:
    errors, words, _ = group(rng, "", wer, count)
    sums = (row.reshape(count, CLIPS).sum(axis=1).astype(float) for row in (errors, words))
    return Speakers(errors=next(sums), words=next(sums), clips=np.full(count, float(CLIPS)))


@pytest.mark.parametrize("sizes", [(4, 4), (5, 3), (2, 7), (3, 6)])
def test_p_values_are_those_of_welchs_t_with_equal_words(sizes: tuple[int, int]) -> None:
    rng = np.random.default_rng(5)
    one, other = rng.integers(20, 40, sizes[0]).astype(float), rng.integers(0, 40, sizes[1]).astype(float)
    sides = [Speakers(errors=errors, words=np.full(len(errors), 100.0), clips=np.ones(len(errors))) for errors in (one, other)]
    scipys = permutation_test(
        (one, other),
        lambda a, b: abs(ttest_ind(a, b, equal_var=False).statistic),
        alternative="greater",
        n_resamples=np.inf,
    )
    assert gap_permutation(sides[0], sides[1], 0).p_value == pytest.approx(scipys.pvalue)


def test_drawn_permutations_are_near_the_t_distribution_with_many_speakers() -> None:
    rng = np.random.default_rng(6)
    one, other = rng.integers(10, 40, 30).astype(float), rng.integers(12, 44, 30).astype(float)
    sides = [Speakers(errors=errors, words=np.full(30, 100.0), clips=np.full(30, 500.0)) for errors in (one, other)]
    scipys = ttest_ind(one, other, equal_var=False)
    contrast = gap_permutation(sides[0], sides[1], 0)
    assert contrast.p_value == pytest.approx(scipys.pvalue, abs=0.03)
    interval = scipys.confidence_interval(0.9)
    np.testing.assert_allclose(bounds(contrast.estimate), np.array([interval.low, interval.high]) / 100, atol=0.004)


@pytest.mark.parametrize("reference", ["g0", None])
@pytest.mark.parametrize("groups", [2, 3])
def test_false_alarms(groups: int, reference: str | None) -> None:
    assert found(100, [WER] * groups, 5, reference) <= 0.065 + 2.5 * np.sqrt(0.065 * 0.935 / 100)


def test_clips_as_the_unit_would_fail_this_very_check() -> None:
    rng = np.random.default_rng(22)
    alarms = []
    for _ in range(150):
        (one, words_1, _), (other, words_2, _) = (group(rng, "", WER, 5) for _ in range(2))
        figures = [pooled_rate(errors, words, np.arange(len(words))) for errors, words in ((one, words_1), (other, words_2))]
        (low_1, high_1), (low_2, high_2) = (bounds(figure, 0.975) for figure in figures)
        gap = (figures[0].value or 0) - (figures[1].value or 0)
        down = np.hypot((figures[0].value or 0) - low_1, high_2 - (figures[1].value or 0))
        up = np.hypot(high_1 - (figures[0].value or 0), (figures[1].value or 0) - low_2)
        alarms.append(gap - down > 0 or gap + up < 0)
    assert np.mean(alarms) > 0.12


def test_a_ratio_of_one_and_a_half_is_found() -> None:
    assert found(40, [WER, 1.5 * WER], 20) >= 0.6


@pytest.mark.slow
@pytest.mark.parametrize("reference", ["g0", None])
@pytest.mark.parametrize("groups", [2, 3])
def test_false_alarms_of_a_thousand(groups: int, reference: str | None) -> None:
    assert found(1000, [WER] * groups, 5, reference, seed=23) <= 0.065


@pytest.mark.slow
@pytest.mark.parametrize("reference", ["g0", None])
@pytest.mark.parametrize("groups", [2, 3])
def test_power_of_twenty_speakers(groups: int, reference: str | None) -> None:
    assert found(300, [WER] * (groups - 1) + [1.5 * WER], 20, reference, seed=24) >= 0.6


@pytest.mark.parametrize("factor", [1.0, 1.5])
def test_gaps_and_ratios_hold_the_truth(factor: float) -> None:
    rng = np.random.default_rng(25)
    missed = []
    for run in range(150):
        one, other = some_speakers(rng, 6, factor * WER), some_speakers(rng, 6, WER)
        gap, ratio = (bounds(test(one, other, run).estimate) for test in (gap_permutation, ratio_permutation))
        truth = (factor - 1) * WER
        missed.append([gap[0] > truth, gap[1] < truth, ratio[0] > factor, ratio[1] < factor])
    assert (np.mean(missed, axis=0) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 150)).all()


@pytest.mark.parametrize("speakers", [10, 20])
def test_pooled_rates_hold_the_truth(speakers: int) -> None:
    rng = np.random.default_rng(26)
    limits = np.array([bounds(pooled_rate(*group(rng, "", WER, speakers))) for _ in range(400)])
    assert (limits[:, 0] > WER).mean() <= 0.06
    assert (limits[:, 1] < WER).mean() <= 0.10  # skewed towards few errors


@pytest.mark.parametrize("speakers", [10, 20])
def test_rises_hold_the_truth(speakers: int) -> None:
    """Each clip keeps 70 % of its clean errors, and the transform brings new ones."""
    rng = np.random.default_rng(27)
    limits = []
    for _ in range(400):
        clean, words, names = group(rng, "", WER, speakers)
        rates = np.repeat(0.1 * np.exp(rng.normal(0, SPREAD, speakers) - SPREAD**2 / 2), CLIPS)
        noisy = rng.binomial(clean, 0.7) + rng.poisson(rates * words * rng.gamma(2, 0.5, len(words)))
        limits.append(bounds(pooled_rise(noisy, clean, words, names)))
    truth = 0.1 - 0.3 * WER
    assert (np.array(limits)[:, 0] > truth).mean() <= 0.10
    assert (np.array(limits)[:, 1] < truth).mean() <= 0.10
