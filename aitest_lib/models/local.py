"""An object in memory as a model (the Python API), and what it shares with the child process: scores by class."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any

import numpy as np
import pandas as pd

from aitest_lib.config.inputs import Inputs
from aitest_lib.errors import InputError, ModelAnswerError
from aitest_lib.models.base import StopSwitch, Usage, excerpt, hidden, hiding, private_mask
from aitest_lib.models.batches import Batch, isolate
from aitest_lib.models.clips import are_clips, clips_for_python
from aitest_lib.models.input_checks import checked_inputs
from aitest_lib.models.pixels import images_for_python
from aitest_lib.models.processes.python_child import MisfitError, answer, one_line
from aitest_lib.models.python_answers import match_classes, read_answers
from aitest_lib.models.shapes import in_calls
from aitest_lib.types import ModelInfo, Predictions


class LocalModel:
    """A callable, or an object with `predict` (and `predict_proba` and `classes_`), that takes a DataFrame, images, or clips
    with their sample rate.

    `inputs`: what it takes, as in a card.
    """

    def __init__(self, obj: Any, info: ModelInfo, *, private: Sequence[str] = (), inputs: Inputs | None = None) -> None:
        if isinstance(obj, type) or not (callable(obj) or hasattr(obj, "predict")):
            raise InputError(f"got {type(obj).__name__} as model, expected a callable or an object with `predict`")
        self._want_scores = info.type.endswith("-classifier")
        own = getattr(obj, "classes_", None) if self._want_scores else None
        self.info, self._columns = match_classes(info, None if own is None else np.asarray(own).tolist())
        self.usage = Usage()
        self._obj = obj
        self._private = tuple(private)
        self._inputs = inputs or Inputs()
        self._stop = StopSwitch()
        self._turn = Lock()  # an unknown object may not be thread-safe

    def start(self) -> None:
        """Nothing to start."""

    def predict(self, inputs: Batch) -> Predictions:
        """The answers to n rows of a DataFrame, to uint8 images N×H×W×C or to clips; the object gets a copy of them."""
        inputs = checked_inputs(inputs, self.info.name, self.info.type, self._inputs)
        hide = private_mask(inputs, self._private)

        def answers(part: Batch) -> Predictions:
            return isolate(part, self._ask, again=False, on_split=self.usage.split_noter(hide))

        with hiding(hide, self._private), self._stop.holding(self._turn):
            return hidden(in_calls(inputs, answers), hide)

    def stop(self) -> None:
        """No further call is made; one that is running goes on."""
        self._stop.set()

    def close(self) -> None:
        """Nothing to release."""

    def _ask(self, inputs: Any) -> Predictions:
        self._stop.check()
        self.usage.add(rows=len(inputs))
        try:
            labels, scores = answer(self._obj, self._copied(inputs), self._want_scores)
        except MisfitError as error:
            raise InputError(f"{self.info.name}: {error}") from error
        except Exception as error:  # the user's code may raise anything
            raise ModelAnswerError(excerpt(one_line(error))) from error
        return read_answers(labels, scores, len(inputs), self.info, self._columns, None)

    def _copied(self, inputs: Any) -> Any:
        if isinstance(inputs, pd.DataFrame):
            return inputs.reset_index(drop=True)
        if are_clips(inputs):
            return clips_for_python(inputs)
        return images_for_python(inputs, self._inputs.image) if isinstance(inputs, np.ndarray) else list(inputs)
