"""Metrics of regressors."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from numpy.typing import NDArray

from aitest_lib.errors import InputError
from aitest_lib.metrics import Row
from aitest_lib.stats.estimates import Estimate, t_quantile, undefined
from aitest_lib.stats.intervals import mean

LARGEST_EXPONENT = 700.0  # of a float


def regression_metrics(truth: NDArray[np.float64], answers: NDArray[np.float64]) -> list[Row]:
    """`rmse`, `mae` (both in the unit of the label) and `r2` (at most 1) as (name, slice, figure, is higher better).

    `truth`, `answers`: (n,), finite. Intervals: t for `mae`; t on the logarithm of the mean squared error for `rmse`, and of
    its ratio to the variance of the labels for `r2` (delta method). Answers without any error get an interval without width.
    """
    if truth.shape != answers.shape or truth.ndim != 1:
        raise InputError(f"got labels {truth.shape} and answers {answers.shape}, expected one number of each per case")
    if not (np.isfinite(truth).all() and np.isfinite(answers).all()):
        raise InputError("got labels or answers that are not finite, expected numbers; leave out the cases without them")
    errors = answers - truth
    return [
        ("rmse", {}, rmse(errors), False),
        ("mae", {}, mean(np.abs(errors)), False),
        ("r2", {}, r_squared(truth, answers), True),
    ]


def rmse(errors: NDArray[np.float64]) -> Estimate:
    """Root of the mean squared error of `errors` (n,)."""
    squares = mean(errors**2)
    if squares.value is None:
        return squares
    value = math.sqrt(squares.value)
    if squares.interval is None:
        return Estimate(value=value, n=squares.n, reason=squares.reason)
    relative = float(np.std(errors**2, ddof=1)) / math.sqrt(squares.n) / squares.value if squares.value > 0 else 0.0
    return Estimate(value=value, n=squares.n, interval=partial(_root_interval, value, relative, squares.n - 1))


def r_squared(truth: NDArray[np.float64], answers: NDArray[np.float64]) -> Estimate:
    """1 - sum of squared errors / sum of squares about the mean label, of (n,) each; undefined where all labels are equal."""
    n = len(truth)
    if n < 2 or truth.min() == truth.max():
        return undefined("r2 needs at least 2 cases" if n < 2 else "all labels are equal", n)
    errors, squares = (answers - truth) ** 2, (truth - truth.mean()) ** 2
    share = float(errors.mean() / squares.mean())
    if share == 0:
        return Estimate(value=1.0, n=n, interval=partial(_explained_interval, 0.0, 0.0, n - 1))
    relative = float(np.std(errors / errors.mean() - squares / squares.mean(), ddof=1)) / math.sqrt(n)
    return Estimate(value=1 - share, n=n, interval=partial(_explained_interval, share, relative, n - 1))


def _root_interval(value: float, relative: float, degrees: int, confidence: float) -> tuple[float, float]:
    """Half the relative error of a mean square is that of its root."""
    factor = _factor(confidence, degrees, relative / 2)
    return value / factor, value * factor


def _explained_interval(share: float, relative: float, degrees: int, confidence: float) -> tuple[float, float]:
    factor = _factor(confidence, degrees, relative)
    return 1 - share * factor, 1 - share / factor


def _factor(confidence: float, degrees: int, relative: float) -> float:
    """On the logarithm a positive figure keeps positive bounds."""
    return math.exp(min(t_quantile(confidence, degrees) * relative, LARGEST_EXPONENT))
