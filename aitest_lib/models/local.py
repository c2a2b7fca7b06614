"""An object in memory as a model (the Python API), and what it shares with the child process: scores by class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from threading import Lock
from typing import Any

import numpy as np
import pandas as pd

from aitest_lib.errors import InputError, ModelAnswerError
from aitest_lib.models.answers import to_predictions
from aitest_lib.models.base import StopSwitch, Usage, excerpt, hidden, hiding, private_mask
from aitest_lib.models.batches import isolate
from aitest_lib.models.processes.python_child import answer, one_line
from aitest_lib.types import ModelInfo, Predictions


class LocalModel:
    """A callable, or an object with `predict` (and `predict_proba` and `classes_`), that takes a DataFrame."""

    def __init__(self, obj: Any, info: ModelInfo, *, private: Sequence[str] = ()) -> None:
        if isinstance(obj, type) or not (callable(obj) or hasattr(obj, "predict")):
            raise InputError(f"got {type(obj).__name__} as model, expected a callable or an object with `predict`")
        self._want_scores = info.type.endswith("-classifier")
        own = getattr(obj, "classes_", None) if self._want_scores else None
        self.info, self._columns = match_classes(info, None if own is None else np.asarray(own).tolist())
        self.usage = Usage()
        self._obj = obj
        self._private = tuple(private)
        self._stop = StopSwitch()
        self._turn = Lock()  # an unknown object may not be thread-safe

    def predict(self, inputs: pd.DataFrame) -> Predictions:
        """The answers to n rows; the object gets a copy of them."""
        hide = private_mask(inputs, self._private)
        with hiding(hide, self._private), self._stop.holding(self._turn):
            return hidden(isolate(inputs, self._ask, again=False, on_split=self.usage.split_noter(hide)), hide)

    def stop(self) -> None:
        """No further call is made; one that is running goes on."""
        self._stop.set()

    def close(self) -> None:
        """Nothing to release."""

    def _ask(self, inputs: pd.DataFrame) -> Predictions:
        self._stop.check()
        self.usage.add(rows=len(inputs))
        try:
            labels, scores = answer(self._obj, inputs.reset_index(drop=True), self._want_scores)
        except Exception as error:  # the user's code may raise anything
            raise ModelAnswerError(excerpt(one_line(error))) from error
        return read_answers(labels, scores, len(inputs), self.info, self._columns, None)


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
