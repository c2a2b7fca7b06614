"""An object in memory as a model (the Python API), and what it shares with the child process: scores by class."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any

import numpy as np
import pandas as pd

from aitest_lib.errors import InputError, ModelAnswerError
from aitest_lib.models.base import StopSwitch, Usage, excerpt, hidden, hiding, private_mask
from aitest_lib.models.batches import isolate
from aitest_lib.models.processes.python_child import answer, one_line
from aitest_lib.models.python_answers import match_classes, read_answers
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

    def start(self) -> None:
        """Nothing to start."""

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
