"""What a model in Python answers, here or in a process of its own: its classes beside the card's, labels and scores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from aitest_lib.errors import InputError
from aitest_lib.models.answers import to_predictions
from aitest_lib.types import ModelInfo, Predictions


def match_classes(info: ModelInfo, own: list[Any] | None) -> tuple[ModelInfo, list[int] | None]:
    """The info with the classes known, and for each class its column in the model's `predict_proba` (-1: it has none).

    `own`: the model's `classes_`, or None. A class that the card does not have is an `InputError`.
    """
    if own is None:
        return info, None
    if info.classes is None:
        return replace(info, classes=tuple(own)), None
    known = [(type(label), label) for label in info.classes]
    if strange := [label for label in own if (type(label), label) not in known]:
        raise InputError(
            f"the model {info.name} has the class {strange[0]!r} ({type(strange[0]).__name__}), "
            f"expected one of {list(info.classes)}; write `classes` as the model answers them"
        )
    position = {(type(label), label): n for n, label in enumerate(own)}
    return info, [position.get(one, -1) for one in known]


def read_answers(
    labels: Any, scores: Any, n: int, info: ModelInfo, columns: list[int] | None, threshold: float | None
) -> Predictions:
    """What a model in Python answered to n rows.

    With a `threshold`, a model without `predict_proba` answers scores. So does a classifier whose `predict` gives several
    numbers a row: the label is then the class with the highest one.
    """
    if info.type.endswith("-classifier") and _are_scores(labels):
        scores, labels = labels if scores is None else scores, None
        if info.classes is None:
            raise InputError(f"the model {info.name} answers scores only; list `classes` in the card, in their order")
    elif threshold is not None and scores is None:
        scores, labels = labels, None
    if columns is not None and getattr(scores, "ndim", 0) == 2 and scores.shape[1] > max(columns):
        padded = np.column_stack([np.asarray(scores, dtype=np.float64), np.zeros(len(scores))])
        scores = padded[:, columns]  # column -1 is the zeros
    return to_predictions(labels, scores, n, info, threshold)


def _are_scores(labels: Any) -> bool:
    """Is it a number for each of several classes, row by row."""
    if isinstance(labels, list):
        return bool(labels) and all(_is_score_row(row) for row in labels)
    return getattr(labels, "ndim", 1) == 2 and labels.shape[1] > 1 and labels.dtype.kind == "f"


def _is_score_row(row: Any) -> bool:
    values = list(row.values()) if isinstance(row, dict) else row if isinstance(row, list) else []
    return len(values) > 1 and all(isinstance(value, float) for value in values)
