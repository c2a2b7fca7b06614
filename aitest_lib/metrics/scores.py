"""Metrics of class scores: ranking, log loss, calibration."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from numpy.typing import NDArray

from aitest_lib.errors import InputError
from aitest_lib.stats.estimates import Estimate, normal_quantile, undefined
from aitest_lib.stats.intervals import mean, wilson_bounds

BINS = 15
SUM_TOLERANCE = 1e-3


def roc_auc(labels: NDArray[np.int64], scores: NDArray[np.float64], classes: list[str]) -> Estimate:
    """Area under the ROC curve, in [0, 1]: of the last class (binary), or the mean of one class against the rest.

    `labels`: codes (n,); `scores`: (n, k), any monotone scale. Ties count one half. Undefined when a class has no case or
    every case. Interval: variance of DeLong et al. (1988), on the logit scale (Pepe 2003); without any inversion, or
    without any order, Wilson's with the rarest class's count.
    """
    _check(labels, scores)
    n, k = scores.shape
    tested = [k - 1] if k == 2 else list(range(k))
    present = np.bincount(labels, minlength=k)
    for c in range(k):
        if present[c] in (0, n):
            return undefined(f"{'no' if present[c] == 0 else 'every'} case has the label {classes[c]!r}", n)
    areas, influence = [], np.zeros(n)
    for c in tested:
        area, part = _area(labels == c, scores[:, c])
        areas.append(area)
        influence += part / len(tested)
    value = float(np.mean(areas))
    error = math.sqrt(float(influence @ influence))
    return Estimate(value=value, n=n, interval=partial(_logit_interval, value, error, int(present.min())))


def log_loss(labels: NDArray[np.int64], scores: NDArray[np.float64]) -> Estimate:
    """Mean of -log(probability of the label), at least 0, nats; probabilities are clipped to [2.2e-16, 1]. t interval."""
    _check(labels, scores)
    reason = _not_probabilities(scores)
    if reason:
        return undefined(reason, len(labels))
    of_label = scores[np.arange(len(labels)), labels]
    return mean(-np.log(np.clip(of_label, np.finfo(np.float64).eps, 1.0)))


def calibration_error(labels: NDArray[np.int64], scores: NDArray[np.float64]) -> Estimate:
    """Expected calibration error, in [0, 1] (Guo et al. 2017, On calibration of modern neural networks).

    15 equal-width bins of the top score, closed on the right; the mean over the cases of |share of right top classes - mean
    top score| of their bin. Chance alone makes it positive, so the lower bound takes off the noise of every bin (triangle
    inequality), while the upper bound adds that of the sum: both hold for calibrated and for miscalibrated scores.
    """
    _check(labels, scores)
    n = len(labels)
    reason = _not_probabilities(scores)
    if reason:
        return undefined(reason, n)
    top = scores.max(axis=1)
    gap = (scores.argmax(axis=1) == labels) - top
    bins = np.clip(np.ceil(top * BINS).astype(np.int64) - 1, 0, BINS - 1)
    value = float(np.abs(np.bincount(bins, weights=gap)).sum()) / n
    variances = np.bincount(bins, weights=gap**2) / n**2
    # One imagined case that is surely and wrongly answered: without it, a few sure and right answers would prove perfection.
    variances[variances.argmax()] += 1 / n**2
    total, spread = float(np.sqrt(variances).sum()), math.sqrt(float(variances.sum()))
    return Estimate(value=value, n=n, interval=partial(_calibration_interval, value, total, spread))


def _area(positive: NDArray[np.bool_], score: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
    """The area, and every case's share in its error (n,): their squares add up to the variance."""
    from scipy.stats import rankdata

    m = int(positive.sum())
    n = len(score) - m
    overall = rankdata(score)
    beaten = (overall[positive] - rankdata(score[positive])) / n  # share of the negatives below each positive
    beating = 1 - (overall[~positive] - rankdata(score[~positive])) / m  # share of the positives above each negative
    area = float(beaten.mean())
    influence = np.empty(len(score))
    influence[positive] = (beaten - area) / math.sqrt(m * max(m - 1, 1))
    influence[~positive] = (beating - area) / math.sqrt(n * max(n - 1, 1))
    return area, influence


def _logit_interval(value: float, error: float, rarest: int, confidence: float) -> tuple[float, float]:
    quantile = normal_quantile(confidence)
    if error == 0 or value in (0.0, 1.0):
        return wilson_bounds(value, rarest, quantile)
    logit, half = math.log(value / (1 - value)), quantile * error / (value * (1 - value))
    return _expit(logit - half), _expit(logit + half)


def _expit(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


def _calibration_interval(value: float, total: float, spread: float, confidence: float) -> tuple[float, float]:
    """`total`, `spread`: sum and root sum of squares of the bins' standard errors; |normal| has mean 0.80 and sd 0.60."""
    quantile = normal_quantile(confidence)
    noise = math.sqrt(2 / math.pi) * total + quantile * math.sqrt(1 - 2 / math.pi) * spread
    of_one_bin = -normal_quantile((1 - confidence) / 2) * spread
    return max(value - max(noise, of_one_bin), 0.0), min(value + quantile * spread, 1.0)


def _not_probabilities(scores: NDArray[np.float64]) -> str | None:
    """Why the scores are no probabilities, or None."""
    if not len(scores):
        return "there are no cases to count"
    sums = scores.sum(axis=1)
    if scores.min() < 0 or scores.max() > 1 or np.abs(sums - 1).max() > SUM_TOLERANCE:
        return (
            f"the scores are not probabilities: they run from {scores.min():.3g} to {scores.max():.3g} "
            f"and add up to {sums.min():.3g} to {sums.max():.3g} per case"
        )
    return None


def _check(labels: NDArray[np.int64], scores: NDArray[np.float64]) -> None:
    if scores.ndim != 2 or scores.shape[1] < 2 or labels.shape != scores.shape[:1]:
        raise InputError(
            f"got labels {labels.shape} and scores {scores.shape}, expected one label and one row of scores per case"
        )
    if not np.isfinite(scores).all():
        raise InputError("got scores that are not finite, expected numbers; leave out the cases without a usable answer")
    if len(labels) and not (labels.min() >= 0 and labels.max() < scores.shape[1]):
        raise InputError(f"got label codes outside 0..{scores.shape[1] - 1}, expected one per column of the scores")
