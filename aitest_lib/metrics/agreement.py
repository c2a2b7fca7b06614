"""How much two raters agree beyond chance."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from aitest_lib.stats.bootstrap import bootstrap_counts
from aitest_lib.stats.estimates import Estimate


def cohen_kappa(counts: NDArray[np.int64], seed: int = 0) -> Estimate:
    """Cohen's kappa (1960) of a table (k, k) of counts, rows one rater, columns the other: 1 full agreement, 0 that of chance.

    Bootstrap interval, fixed by `seed`; undefined where both always give one and the same answer.
    """
    return bootstrap_counts(kappa_of, counts, seed, what="kappa")


def kappa_of(counts: NDArray[np.int64]) -> float:
    """Kappa of a table of counts (k, k), NaN where chance alone agrees fully."""
    n = float(counts.sum())
    if not n:
        return math.nan
    by_chance = float(counts.sum(axis=1) @ counts.sum(axis=0)) / n**2
    return (float(np.trace(counts)) / n - by_chance) / (1 - by_chance) if by_chance < 1 else math.nan
