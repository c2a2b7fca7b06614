"""From a model's answers to what a search gets to know."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aitest_lib.searches.image.base import Reply

SMALLEST = 1e-12  # a score below it counts as this much, so that its logarithm is finite


def replies(
    codes: NDArray[np.float64], scores: NDArray[np.float64] | None, labels: NDArray[np.float64], labels_only: bool
) -> list[Reply]:
    """The replies to n answers: class `codes` (n,), NaN where there is none and -1 where it is no known class, `scores`
    (n, classes) or None, and the right classes `labels` (n,). The label that the model names decides what is broken; scores say
    how far it is from there."""
    known = ~np.isnan(codes)
    broken = known & (codes != labels)
    margin = np.where(broken, -1.0, 1.0)
    if scores is not None and not labels_only and scores.shape[1] > 1:
        margin = np.where(np.isnan(scores).any(axis=1), margin, margins(scores, labels))
    margin = np.where(known, margin, np.nan)
    return [Reply(float(one), bool(how)) for one, how in zip(margin, broken, strict=True)]


def margins(scores: NDArray[np.float64], labels: NDArray[np.float64]) -> NDArray[np.float64]:
    """ln of the right class' score less ln of the best other's: scores (n, classes > 1), labels (n,) -> (n,)."""
    logs = np.log(np.maximum(scores, SMALLEST))
    rows, right = np.arange(len(scores)), labels.astype(np.int64)
    own = logs[rows, right]
    logs[rows, right] = -np.inf
    best: NDArray[np.float64] = own - logs.max(axis=1)
    return best
