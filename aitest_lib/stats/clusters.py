"""Rates and differences pooled over cases that share a seed (or a speaker, or a series): intervals by cluster.

The variance between clusters is estimated from the data. Where few clusters fail, it is a poor guess, and too small a one
whenever the rare cluster that fails as a whole has not been drawn yet. So one imagined cluster that fails as a whole joins
the variance (not the value). It costs little with many failing clusters, and without any it leaves each cluster to
count as one trial. Without it the lower bound missed up to 30 % instead of 5 % (shared shocks, 30 to 100 clusters).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from aitest_lib.errors import InputError
from aitest_lib.stats.estimates import Estimate, t_quantile, undefined
from aitest_lib.stats.intervals import NO_CASES, tango_bounds, wilson, wilson_bounds

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def clustered_rate(successes: ArrayLike, trials: ArrayLike) -> Estimate:
    """The pooled rate sum(successes) / sum(trials), in [0, 1]; `n` is the number of clusters with trials.

    `successes`, `trials`: counts per cluster, (clusters,). The linearised (ultimate-cluster) variance of the ratio gives an
    effective number of trials, never more than there are; Wilson's bounds with it and a t quantile (after Korn and
    Graubard 1998, Confidence intervals for proportions with small expected number of positive counts).
    """
    won, tried = _counts(successes, trials)
    kept = tried > 0
    won, tried = won[kept], tried[kept]
    clusters = len(tried)
    if clusters == 0:
        return undefined(NO_CASES)
    total = float(tried.sum())
    rate = float(won.sum()) / total
    rarer = won if rate < 0.5 else tried - won
    imagined = total / clusters
    effective = _effective_rate(np.append(rarer, imagined), np.append(tried, imagined), clusters)
    interval = partial(_rate_interval, rate, min(effective, total), max(clusters - 1, 1))
    return Estimate(value=rate, n=clusters, interval=interval, effective_n=min(effective, total))


def rate_of_rows(hits: ArrayLike, clusters: NDArray[np.int64] | None) -> Estimate:
    """The share of rows that hit (n,), each by itself (Wilson), or, where `clusters` (n,) says what they descend from, by
    cluster."""
    won = np.asarray(hits, bool)
    if clusters is None:
        return wilson(int(won.sum()), len(won))
    return clustered_rate(np.bincount(clusters, won).astype(np.int64), np.bincount(clusters))


def clustered_difference(
    first_successes: ArrayLike, first_trials: ArrayLike, second_successes: ArrayLike, second_trials: ArrayLike
) -> Estimate:
    """The difference of two pooled rates measured in the same clusters, first - second, in [-1, 1].

    All four are counts per cluster, (clusters,); clusters with no trial at all are ignored; `n` is the number of clusters.
    The linearised variance sets the effective number of pairs of Tango's score interval (`paired_difference`), taken with
    a t quantile: its width is the linearised one, its shape stays right where few clusters differ.
    """
    first, first_tried = _counts(first_successes, first_trials)
    second, second_tried = _counts(second_successes, second_trials)
    if first.shape != second.shape:
        raise InputError(f"got {len(first)} and {len(second)} clusters, expected the same clusters twice; align them by seed")
    kept = (first_tried > 0) | (second_tried > 0)
    clusters = int(kept.sum())
    most = float(max(first_tried.sum(), second_tried.sum()))
    if first_tried.sum() == 0 or second_tried.sum() == 0:
        return undefined(NO_CASES, clusters)
    won_1, tried_1 = (part[kept] / first_tried.sum() * clusters for part in (first, first_tried))
    won_2, tried_2 = (part[kept] / second_tried.sum() * clusters for part in (second, second_tried))
    difference = float(won_1.mean() - won_2.mean())
    discordant = _discordant_share(won_1 - won_2)
    effective = min(_effective_pairs(won_1, tried_1, won_2, tried_2, clusters), most)
    only_first, only_second = effective * (discordant + difference) / 2, effective * (discordant - difference) / 2
    interval = partial(_difference_interval, only_first, only_second, effective, max(clusters - 1, 1))
    return Estimate(value=difference, n=clusters, interval=interval)


def _effective_rate(counts: NDArray[np.float64], trials: NDArray[np.float64], clusters: int) -> float:
    """Effective number of trials; the last entry is the imagined cluster."""
    rate = counts.sum() / trials.sum()
    residuals = (counts - rate * trials) / trials[:-1].sum()
    return float(rate * (1 - rate) / ((clusters + 1) / clusters * (residuals @ residuals)))


def _effective_pairs(
    won_1: NDArray[np.float64],
    tried_1: NDArray[np.float64],
    won_2: NDArray[np.float64],
    tried_2: NDArray[np.float64],
    clusters: int,
) -> float:
    """Effective number of pairs of counts scaled to a mean of one trial per cluster.

    Half an imagined cluster succeeds in the first measurement alone, half in the second alone, so that they favour neither.
    """
    rate_1, rate_2 = won_1.mean(), won_2.mean()
    residuals = (won_1 - rate_1 * tried_1) - (won_2 - rate_2 * tried_2)
    squares = (float(residuals @ residuals) + 1) / clusters**2
    difference = (won_1.sum() - won_2.sum()) / (clusters + 1)
    discordant = (float(np.abs(won_1 - won_2).sum()) + 1) / (clusters + 1)
    return float((discordant - difference**2) / ((clusters + 1) / clusters * squares))


def _discordant_share(differences: NDArray[np.float64]) -> float:
    """Share of the pairs that differ: at least the net difference, at most all."""
    return min(max(float(np.abs(differences).mean()), abs(float(differences.mean()))), 1.0)


def _rate_interval(rate: float, effective: float, degrees: int, confidence: float) -> tuple[float, float]:
    return wilson_bounds(rate, effective, t_quantile(confidence, degrees))


def _difference_interval(
    only_first: float, only_second: float, effective: float, degrees: int, confidence: float
) -> tuple[float, float]:
    return tango_bounds(only_first, only_second, effective, t_quantile(confidence, degrees))


def _counts(successes: ArrayLike, trials: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    won, tried = np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    if won.shape != tried.shape or won.ndim != 1:
        raise InputError(f"got successes {won.shape} and trials {tried.shape}, expected two rows of one count per cluster")
    if not ((won >= 0) & (won <= tried) & np.isfinite(tried)).all():
        raise InputError("got a cluster with other counts, expected 0 <= successes <= trials; check how the cases are counted")
    return won, tried
