"""Interval estimates of rates, differences, ratios and means of independent units. All bounds are one-sided.

Chosen by measured coverage: Wald's intervals and the percentile bootstrap miss small or uneven groups by far, the score
methods here do not. Clustered data: `clusters.py`. Composite figures: `bootstrap.py`.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from aitest_lib.errors import InputError
from aitest_lib.stats.estimates import Estimate, bisect, normal_quantile, t_quantile, undefined

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

NO_CASES = "there are no cases to count"
LARGEST_EXPONENT = 700.0  # of a float
LARGEST_RATIO, SMALLEST_RATIO = 1000.0, 1e-6  # what lies beyond them as a bound of a ratio says nothing


def wilson(successes: int, n: int) -> Estimate:
    """The rate successes / n with Wilson's score interval (Wilson 1927), in [0, 1]."""
    _check_counts(successes, n)
    if n == 0:
        return undefined(NO_CASES)
    rate = successes / n
    return Estimate(value=rate, n=n, interval=partial(_wilson_interval, rate, n), effective_n=n)


def newcombe(successes_1: int, n_1: int, successes_2: int, n_2: int) -> Estimate:
    """The difference p1 - p2 of two independent rates, in [-1, 1].

    Hybrid score interval: Newcombe (1998), Interval estimation for the difference between independent proportions,
    method 10. `n` is that of the smaller group.
    """
    _check_counts(successes_1, n_1)
    _check_counts(successes_2, n_2)
    if n_1 == 0 or n_2 == 0:
        return undefined("a group is empty")
    rate_1, rate_2 = successes_1 / n_1, successes_2 / n_2
    return Estimate(value=rate_1 - rate_2, n=min(n_1, n_2), interval=partial(_newcombe_interval, rate_1, n_1, rate_2, n_2))


def rate_difference(first: Estimate, second: Estimate) -> Estimate:
    """The difference first - second of two rates of independent groups, each with its `effective_n` (clustered rates).

    The hybrid score interval of `newcombe`; `n` is that of the smaller group.
    """
    if first.value is None or second.value is None:
        return undefined("a group is empty")
    sizes = [float(one.effective_n or one.n) for one in (first, second)]
    interval = partial(_newcombe_interval, first.value, sizes[0], second.value, sizes[1])
    return Estimate(value=first.value - second.value, n=min(first.n, second.n), interval=interval)


def katz(successes_1: int, n_1: int, successes_2: int, n_2: int) -> Estimate:
    """The ratio p1 / p2 of two independent rates, at least 0; group 2 is the reference.

    Log interval of Katz et al. (1978) with 0.5 added to each count (Walter 1975). Undefined when a group is empty or the
    reference group has no success. `n` is that of the smaller group.
    """
    _check_counts(successes_1, n_1)
    _check_counts(successes_2, n_2)
    if n_1 == 0 or n_2 == 0:
        return undefined("a group is empty")
    if successes_2 == 0:
        return undefined("the reference group's rate is 0", min(n_1, n_2))
    ratio = (successes_1 / n_1) / (successes_2 / n_2)
    interval = partial(_katz_interval, successes_1, n_1, successes_2, n_2)
    return Estimate(value=ratio, n=min(n_1, n_2), interval=interval)


def rate_ratio(first: Estimate, second: Estimate) -> Estimate:
    """The ratio first / second of two rates of independent groups, each with its `effective_n`, at least 0.

    The wider of two intervals: that of `katz`, on effective counts, and Wilson's bounds of both rates put together by square
    and add on the logarithm (MOVER; Zou and Donner 2008), both with Student's quantile for the smaller group. Katz's interval
    alone takes a small group in which nearly all succeed for nearly certain: of 3 rows beside 300 its lower bound was too
    high in up to 91 % (rates 0.05 to 1, ratios 0.75 to 1), this one's in 2 %; of 10 in 76 % and 7 %, of 50 beside 50 in
    11 % and 5 %. `n` is that of the smaller group. Bounds as of `ratio_limits`.
    """
    n = min(first.n, second.n)
    if first.value is None or second.value is None:
        return undefined("a group is empty", n)
    if second.value == 0:
        return undefined("the reference group's rate is 0", n)
    sizes = [float(one.effective_n or one.n) for one in (first, second)]
    interval = partial(_ratio_interval, first.value, sizes[0], second.value, sizes[1])
    return Estimate(value=first.value / second.value, n=n, interval=interval)


def ratio_limits(low: float, high: float) -> tuple[float, float]:
    """The bounds of a ratio: an upper one above 1,000 is open (infinite), a lower one below 1e-6 is 0.

    >>> ratio_limits(0.5, 5e63), ratio_limits(1e-9, 2.0)
    ((0.5, inf), (0.0, 2.0))
    """
    return low if low >= SMALLEST_RATIO else 0.0, high if high <= LARGEST_RATIO else math.inf


def finite_bounds(estimate: Estimate, confidence: float) -> tuple[float | None, float | None]:
    """The one-sided bounds of an estimate, each at `confidence` in [0.5, 1), as a record holds them: None where a side is open
    or the figure has no bounds."""
    low, high = estimate.bounds(confidence) or (-math.inf, math.inf)
    return low if math.isfinite(low) else None, high if math.isfinite(high) else None


def paired_difference(only_first: int, only_second: int, n: int) -> Estimate:
    """The difference of two rates measured on the same n units, (only_first - only_second) / n, in [-1, 1].

    `only_first`: units with a success in the first measurement alone; `only_second` likewise. Score interval of Tango
    (1998), Equivalence test and confidence interval for the difference in proportions for the paired-sample design.
    With `only_second` = 0 its upper bound is Wilson's.
    """
    _check_counts(only_first, n)
    _check_counts(only_second, n)
    if only_first + only_second > n:
        raise InputError(
            f"got {only_first} + {only_second} discordant pairs of {n}, expected at most {n}; count each pair once"
        )
    if n == 0:
        return undefined("there are no pairs")
    return Estimate(value=(only_first - only_second) / n, n=n, interval=partial(_tango_normal, only_first, only_second, n))


def mean(values: ArrayLike) -> Estimate:
    """The mean of real values (n,) with Student's t interval. One value has no interval; constant values have width 0."""
    import numpy as np

    data = np.asarray(values, dtype=np.float64)
    if data.ndim != 1 or not np.isfinite(data).all():
        raise InputError(
            f"got values of shape {data.shape} or not all finite, expected a row of finite numbers; drop the others"
        )
    if len(data) == 0:
        return undefined("there are no values")
    centre = float(data.mean())
    if len(data) == 1:
        return Estimate(value=centre, n=1, reason="one value alone has no interval")
    error = float(data.std(ddof=1)) / math.sqrt(len(data))
    return Estimate(value=centre, n=len(data), interval=partial(_t_interval, centre, error, len(data) - 1))


def paired_mean(differences: ArrayLike) -> Estimate:
    """The mean of real-valued paired differences (n,), one per unit, with the paired t interval."""
    return mean(differences)


def median(values: ArrayLike) -> Estimate:
    """The (lower) median of independent values (n,), with the distribution-free interval of order statistics (sign test).

    With fewer than about five values a bound is the smallest, or largest, value, which covers less than it says.
    """
    import numpy as np

    ordered = np.sort(np.asarray(values, dtype=np.float64))
    if not len(ordered):
        return undefined(NO_CASES)
    middle = float(ordered[(len(ordered) - 1) // 2])
    return Estimate(value=middle, n=len(ordered), interval=partial(_median_interval, ordered))


def wilson_bounds(rate: float, n: float, quantile: float) -> tuple[float, float]:
    """Wilson's bounds for an observed rate in [0, 1] and an (effective, also fractional) n > 0."""
    square = quantile * quantile / n
    centre = (rate + square / 2) / (1 + square)
    half = quantile / (1 + square) * math.sqrt(rate * (1 - rate) / n + square / (4 * n))
    return (0.0 if rate == 0 else max(0.0, centre - half)), (1.0 if rate == 1 else min(1.0, centre + half))


def tango_bounds(only_first: float, only_second: float, n: float, quantile: float) -> tuple[float, float]:
    """Tango's bounds of a paired difference for (effective, also fractional) counts."""
    difference = (only_first - only_second) / n
    low = bisect(lambda delta: _tango_score(only_first, only_second, n, delta) < quantile, difference, -1.0)
    high = bisect(lambda delta: _tango_score(only_first, only_second, n, delta) > -quantile, difference, 1.0)
    return low, high


def _tango_score(only_first: float, only_second: float, n: float, delta: float) -> float:
    """Score statistic of "the difference is `delta`": decreasing in delta, 0 at the observed difference."""
    gap = only_first - only_second - n * delta
    if gap == 0:
        return 0.0
    # Largest share of "second only" under the constraint: the positive root of 2n q^2 + b q + c = 0.
    b = -only_first - only_second + (2 * n - only_first + only_second) * delta
    c = -only_second * delta * (1 - delta)
    root = (math.sqrt(max(b * b - 8 * n * c, 0.0)) - b) / (4 * n)
    variance = n * (2 * root + delta * (1 - delta))
    return gap / math.sqrt(variance) if variance > 0 else math.copysign(math.inf, gap)


def _tango_normal(only_first: float, only_second: float, n: float, confidence: float) -> tuple[float, float]:
    return tango_bounds(only_first, only_second, n, normal_quantile(confidence))


def _wilson_interval(rate: float, n: float, confidence: float) -> tuple[float, float]:
    return wilson_bounds(rate, n, normal_quantile(confidence))


def _newcombe_interval(rate_1: float, n_1: float, rate_2: float, n_2: float, confidence: float) -> tuple[float, float]:
    low_1, high_1 = _wilson_interval(rate_1, n_1, confidence)
    low_2, high_2 = _wilson_interval(rate_2, n_2, confidence)
    difference = rate_1 - rate_2
    return difference - math.hypot(rate_1 - low_1, high_2 - rate_2), difference + math.hypot(high_1 - rate_1, rate_2 - low_2)


def _katz_interval(successes_1: float, n_1: float, successes_2: float, n_2: float, confidence: float) -> tuple[float, float]:
    return _katz_bounds(successes_1, n_1, successes_2, n_2, normal_quantile(confidence))


def _katz_bounds(successes_1: float, n_1: float, successes_2: float, n_2: float, quantile: float) -> tuple[float, float]:
    s_1, m_1, s_2, m_2 = successes_1 + 0.5, n_1 + 0.5, successes_2 + 0.5, n_2 + 0.5
    centre = math.log(s_1 / m_1) - math.log(s_2 / m_2)
    half = quantile * math.sqrt(1 / s_1 - 1 / m_1 + 1 / s_2 - 1 / m_2)
    return math.exp(centre - half), _exp(centre + half)


def _ratio_interval(rate_1: float, n_1: float, rate_2: float, n_2: float, confidence: float) -> tuple[float, float]:
    """Katz's bounds or, where they lie further out, those from Wilson's; rate_2 > 0."""
    quantile = t_quantile(confidence, max(min(n_1, n_2) - 1, 1))
    low, high = _katz_bounds(rate_1 * n_1, n_1, rate_2 * n_2, n_2, quantile)
    low_1, high_1 = wilson_bounds(rate_1, n_1, quantile)
    low_2, high_2 = wilson_bounds(rate_2, n_2, quantile)
    if rate_1 == 0:
        return ratio_limits(0.0, max(high, high_1 / low_2 if low_2 > 0 else math.inf))
    below = math.hypot(_log_of(rate_1, low_1), _log_of(high_2, rate_2))
    above = math.hypot(_log_of(high_1, rate_1), _log_of(rate_2, low_2))
    ratio = rate_1 / rate_2
    return ratio_limits(min(low, ratio * math.exp(-below)), max(high, ratio * _exp(above)))


def _exp(power: float) -> float:
    return math.exp(power) if power < LARGEST_EXPONENT else math.inf


def _log_of(upper: float, lower: float) -> float:
    """The logarithm of upper / lower; a bound of very few effective trials can be 0 but for rounding."""
    return math.log(upper / lower) if lower > 0 else math.inf


def _median_interval(ordered: NDArray[np.float64], confidence: float) -> tuple[float, float]:
    from scipy.stats import binom

    below = max(int(binom.ppf(1 - confidence, len(ordered), 0.5)), 1)
    return float(ordered[below - 1]), float(ordered[-below])


def _t_interval(centre: float, error: float, degrees: int, confidence: float) -> tuple[float, float]:
    half = t_quantile(confidence, degrees) * error
    return centre - half, centre + half


def _check_counts(successes: int, n: int) -> None:
    if not 0 <= successes <= n:
        raise InputError(f"got {successes} successes of {n}, expected 0 <= successes <= n; check how the cases are counted")
