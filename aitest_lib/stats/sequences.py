"""Confidence sequences: bounds that stay valid however often, and whenever, one looks while the data come in."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from aitest_lib.errors import InputError
from aitest_lib.stats.estimates import Estimate, bisect, undefined
from aitest_lib.stats.intervals import NO_CASES

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

# The bets may depend on anything but the coming value; they are sharpest for a bound at this error rate.
TUNED_ALPHA = 0.05
LARGEST_BET = 0.5


def rate_sequence(successes: int, n: int) -> Estimate:
    """The rate of the first n of a stream of 0/1 outcomes, in [0, 1], valid at every n at once.

    Beta-binomial mixture martingale with Beta(1/2, 1/2) (Robbins 1970; Howard et al. 2021, Time-uniform, nonparametric,
    nonasymptotic confidence sequences). Any stopping rule is allowed; the outcomes need the same success rate throughout.
    """
    if not 0 <= successes <= n:
        raise InputError(f"got {successes} successes of {n}, expected 0 <= successes <= n; check how the cases are counted")
    if n == 0:
        return undefined(NO_CASES)
    return Estimate(value=successes / n, n=n, interval=partial(_mixture_interval, successes, n), effective_n=n)


def mean_sequence(values: ArrayLike, lower: float = 0.0, upper: float = 1.0) -> Estimate:
    """The mean of values (n,) in [lower, upper], in the order of arrival, valid at every n at once.

    Predictable plug-in empirical Bernstein confidence sequence (Waudby-Smith and Ramdas 2024, Estimating means of bounded
    random variables by betting, theorem 2), one-sided. Paired differences of outcomes: `lower=-1`. O(n).
    """
    data = np.asarray(values, dtype=np.float64)
    if data.ndim != 1 or not ((data >= lower) & (data <= upper)).all():
        raise InputError(
            f"got values of shape {data.shape} or outside [{lower:g}, {upper:g}], expected a row inside; set the range"
        )
    n = len(data)
    if n == 0:
        return undefined(NO_CASES)
    unit = (data - lower) / (upper - lower)
    bets, surprises = _bets(unit)
    total = float(bets.sum())
    centre = float(bets @ unit) / total
    # v (-log(1 - bet) - bet) / 4 with v = 4 surprise^2
    penalty = float(surprises @ (-np.log1p(-bets) - bets)) / total
    interval = partial(_bernstein_interval, centre, penalty, total, lower, upper)
    return Estimate(value=float(data.mean()), n=n, interval=interval)


def _bets(unit: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Each value's bet, made from earlier values only, and its squared distance from their mean."""
    time = np.arange(1, len(unit) + 1, dtype=np.float64)
    means = (0.5 + np.cumsum(unit)) / (time + 1)
    variances = (0.25 + np.cumsum((unit - means) ** 2)) / (time + 1)
    mean_before = np.concatenate([[0.5], means[:-1]])
    variance_before = np.concatenate([[0.25], variances[:-1]])
    bets = np.sqrt(2 * math.log(1 / TUNED_ALPHA) / (variance_before * time * np.log1p(time)))
    return np.minimum(bets, LARGEST_BET), (unit - mean_before) ** 2


def _bernstein_interval(
    centre: float, penalty: float, total: float, lower: float, upper: float, confidence: float
) -> tuple[float, float]:
    half = math.log(1 / (1 - confidence)) / total + penalty
    low, high = max(centre - half, 0.0), min(centre + half, 1.0)
    return lower + (upper - lower) * low, lower + (upper - lower) * high


def _mixture_interval(successes: int, n: int, confidence: float) -> tuple[float, float]:
    """All rates that the mixture has not yet outbet by 1 / alpha."""
    limit = math.log(1 / (1 - confidence))
    evidence = _log_beta(successes + 0.5, n - successes + 0.5) - _log_beta(0.5, 0.5)

    def kept(rate: float) -> bool:
        log_likelihood = _times_log(successes, rate) + _times_log(n - successes, 1 - rate)
        return evidence - log_likelihood < limit

    rate = successes / n
    return bisect(kept, rate, 0.0), bisect(kept, rate, 1.0)


def _times_log(count: int, rate: float) -> float:
    if count == 0:
        return 0.0
    return count * math.log(rate) if rate > 0 else -math.inf


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
