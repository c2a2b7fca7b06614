"""Percentile bootstrap over the unit, for composite figures that no formula covers (Efron and Tibshirani 1993)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from aitest_lib.rng import rng_for
from aitest_lib.stats.estimates import Estimate, normal_quantile, undefined

if TYPE_CHECKING:
    from numpy.typing import NDArray

COMPONENT = "bootstrap@1"
MANY_UNITS = 20_000
REPLICATES_OF_MANY = 200
MOST_UNDEFINED = 0.05


def bootstrap(
    statistic: Callable[[NDArray[np.int64]], float], n: int, seed: int, replicates: int = 500, what: str = "the figure"
) -> Estimate:
    """`statistic` of n units, with the percentile interval of its replicates.

    `statistic` takes how often each unit counts, (n,) integers that sum to n (all 1 for the data themselves), and returns
    the figure, NaN where undefined. Same `seed`, same interval. One replicate in memory at a time; 200 replicates beyond
    20,000 units. `what` names the figure in the reason of an undefined one.
    """
    if n < 2:
        return undefined(f"{what} needs at least 2 cases", n)
    rng = rng_for(seed, COMPONENT, what)
    count = replicates if n <= MANY_UNITS else min(replicates, REPLICATES_OF_MANY)
    value = statistic(np.ones(n, dtype=np.int64))
    draws = (statistic(np.bincount(rng.integers(0, n, n, dtype=np.int32), minlength=n)) for _ in range(count))
    return _estimate(value, n, draws, count, what)


def bootstrap_counts(
    statistic: Callable[[NDArray[np.int64]], float],
    counts: NDArray[np.int64],
    seed: int,
    replicates: int = 500,
    what: str = "the figure",
) -> Estimate:
    """`bootstrap` for a figure that depends on a table of counts alone (a confusion matrix, of any shape).

    Drawing the table from a multinomial is the same as drawing its units, at a cost that does not grow with their number.
    """
    n = int(counts.sum())
    if n < 2:
        return undefined(f"{what} needs at least 2 cases", n)
    rng = rng_for(seed, COMPONENT, what)
    filled = counts > 0
    shares = counts[filled] / n

    def draw() -> NDArray[np.int64]:
        table = np.zeros_like(counts)
        table[filled] = rng.multinomial(n, shares)
        return table

    return _estimate(statistic(counts), n, (statistic(draw()) for _ in range(replicates)), replicates, what)


def _estimate(value: float, n: int, draws: Iterable[float], count: int, what: str) -> Estimate:
    if not math.isfinite(value):
        return undefined(f"{what} is undefined on these cases", n)
    figures = np.sort(np.fromiter(draws, dtype=np.float64, count=count))
    figures = figures[np.isfinite(figures)]
    if len(figures) < (1 - MOST_UNDEFINED) * count:
        return Estimate(
            value=value, n=n, reason=f"{what} is undefined on {count - len(figures)} of {count} resamples: too few cases"
        )
    return Estimate(value=value, n=n, interval=partial(_percentile_interval, value, figures))


def _percentile_interval(value: float, figures: NDArray[np.float64], confidence: float) -> tuple[float, float]:
    low, high = (float(bound) for bound in np.quantile(figures, [1 - confidence, confidence]))
    if 1 - confidence < 1 / (len(figures) + 1):
        # Beyond the outermost replicates their quantiles say nothing: a normal tail, so that small p-values stay honest.
        half = normal_quantile(confidence) * float(figures.std())
        low, high = min(low, value - half), max(high, value + half)
    return low, high
