"""Metrics of classifiers, from a confusion matrix and, where they exist, scores."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from aitest_lib.errors import InputError
from aitest_lib.metrics import Row
from aitest_lib.metrics.scores import calibration_error, log_loss, roc_auc
from aitest_lib.stats.bootstrap import bootstrap_counts
from aitest_lib.stats.estimates import Estimate, undefined
from aitest_lib.stats.intervals import wilson


def confusion(labels: NDArray[np.int64], answers: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """Counts (k, k), rows = label, columns = answer, of integer codes (n,) in 0..k-1."""
    if labels.shape != answers.shape or labels.ndim != 1:
        raise InputError(f"got labels {labels.shape} and answers {answers.shape}, expected one code of each per case")
    for what, codes in (("label", labels), ("answer", answers)):
        if len(codes) and not (codes.min() >= 0 and codes.max() < k):
            raise InputError(
                f"got {what} codes from {codes.min()} to {codes.max()}, expected 0..{k - 1}; leave out other cases"
            )
    return np.bincount(labels * k + answers, minlength=k * k).reshape(k, k)


def classification_metrics(
    counts: NDArray[np.int64],
    classes: list[str],
    labels: NDArray[np.int64] | None = None,
    scores: NDArray[np.float64] | None = None,
    seed: int = 0,
) -> list[Row]:
    """Metrics as (name, slice, figure, is higher better); slice is {} or {"class": name}.

    `counts`: confusion matrix (k, k) in the order of `classes`. `labels` (n,) codes and `scores` (n, k), both or neither,
    add `roc_auc`, `log_loss` and `calibration_error`. `seed` fixes the bootstrap.

    accuracy; precision, recall, f1 = 2 TP / (2 TP + FP + FN) per class and macro (unweighted mean over the classes);
    balanced_accuracy = macro recall (Brodersen et al. 2010). A quotient 0 / 0 is undefined, and so is a macro mean with an
    undefined class. Intervals: Wilson for what is a rate, F1 through the rate TP / (TP + FP + FN); macro precision and
    recall from the intervals of their classes (Zou and Donner 2008); macro F1 by bootstrap.
    """
    if counts.shape != (len(classes), len(classes)):
        raise InputError(f"got a confusion matrix {counts.shape} for {len(classes)} classes, expected one row and column each")
    precision, recall, f1 = zip(*(_of_class(counts, c, name) for c, name in enumerate(classes)), strict=True)
    rows: list[Row] = [
        ("accuracy", {}, wilson(int(counts.trace()), int(counts.sum())), True),
        ("balanced_accuracy", {}, _mean_of_independent(recall, classes), True),
        ("macro_precision", {}, _mean_of_independent(precision, classes), True),
        ("macro_recall", {}, _mean_of_independent(recall, classes), True),
        ("macro_f1", {}, _macro_f1(counts, f1, classes, seed), True),
    ]
    if labels is not None and scores is not None:
        rows += [
            ("roc_auc", {}, roc_auc(labels, scores, classes), True),
            ("log_loss", {}, log_loss(labels, scores), False),
            ("calibration_error", {}, calibration_error(labels, scores), False),
        ]
    for c, name in enumerate(classes):
        rows += [
            (metric, {"class": name}, of[c], True) for metric, of in (("precision", precision), ("recall", recall), ("f1", f1))
        ]
    return rows


def _of_class(counts: NDArray[np.int64], c: int, name: str) -> tuple[Estimate, Estimate, Estimate]:
    """Precision, recall and F1 of class `c`."""
    hits, answered, present = int(counts[c, c]), int(counts[:, c].sum()), int(counts[c].sum())
    either = answered + present - hits
    precision = wilson(hits, answered) if answered else undefined(f"the model never answers {name!r}")
    recall = wilson(hits, present) if present else undefined(f"no case has the label {name!r}")
    if not either:
        return precision, recall, undefined(f"no case has the label or the answer {name!r}")
    shared = wilson(hits, either)
    f1 = Estimate(value=2 * hits / (answered + present), n=either, interval=partial(_f1_interval, shared))
    return precision, recall, f1


def _f1_interval(shared: Estimate, confidence: float) -> tuple[float, float]:
    """F1 = 2 J / (1 + J) grows with J = TP / (TP + FP + FN), a rate among the cases that carry the class at all."""
    low, high = shared.bounds(confidence) or (0.0, 1.0)
    return 2 * low / (1 + low), 2 * high / (1 + high)


def _undefined_macro(parts: tuple[Estimate, ...], classes: list[str], n: int) -> Estimate | None:
    for name, part in zip(classes, parts, strict=True):
        if part.value is None:
            return undefined(f"undefined for class {name!r}: {part.reason}", n)
    return None


def _mean_of_independent(parts: tuple[Estimate, ...], classes: list[str]) -> Estimate:
    """Mean of rates over disjoint sets of cases."""
    n = sum(part.n for part in parts)
    missing = _undefined_macro(parts, classes, n)
    if missing is not None:
        return missing
    return Estimate(value=_mean(parts), n=n, interval=partial(_recovered_interval, parts))


def _recovered_interval(parts: tuple[Estimate, ...], confidence: float) -> tuple[float, float]:
    """Variance recovered from each part's bounds (MOVER), so that a perfect class keeps its doubt."""
    value, k = _mean(parts), len(parts)
    bounds = [(part.value or 0.0, *(part.bounds(confidence) or (0.0, 1.0))) for part in parts]
    below = math.sqrt(sum((middle - low) ** 2 for middle, low, _ in bounds)) / k
    above = math.sqrt(sum((high - middle) ** 2 for middle, _, high in bounds)) / k
    return max(value - below, 0.0), min(value + above, 1.0)


def _macro_f1(counts: NDArray[np.int64], parts: tuple[Estimate, ...], classes: list[str], seed: int) -> Estimate:
    n = int(counts.sum())
    missing = _undefined_macro(parts, classes, n)
    if missing is not None:
        return missing
    drawn = bootstrap_counts(macro_f1_of, counts, seed, what="macro_f1")
    if drawn.interval is None:
        return drawn
    return Estimate(value=_mean(parts), n=n, interval=partial(_wider, drawn.interval, partial(_recovered_interval, parts)))


def macro_f1_of(counts: NDArray[np.int64]) -> float:
    """Macro F1 of a confusion matrix (k, k); a class with neither label nor answer is left out, NaN without any."""
    hits, either = np.diag(counts), counts.sum(0) + counts.sum(1)
    there = either > 0
    return float((2 * hits[there] / either[there]).mean()) if there.any() else math.nan


def _wider(
    one: Callable[[float], tuple[float, float]], other: Callable[[float], tuple[float, float]], confidence: float
) -> tuple[float, float]:
    """An error counts against two classes, which only the bootstrap sees; without errors only the formula keeps a width."""
    (low_1, high_1), (low_2, high_2) = one(confidence), other(confidence)
    return min(low_1, low_2), max(high_1, high_2)


def _mean(parts: tuple[Estimate, ...]) -> float:
    return sum(part.value or 0.0 for part in parts) / len(parts)
