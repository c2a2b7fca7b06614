"""Models in a process of their own (`python`, `mlflow`, `onnx`): their packages and crashes stay out of aitest."""

from __future__ import annotations

import time
from collections.abc import Sequence
from threading import Lock
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aitest_lib.config.card import Card, LoadedCard
from aitest_lib.errors import InputError, Interrupted, ModelAnswerError, ModelUnavailable
from aitest_lib.models.answers import all_failed, counted, input_word
from aitest_lib.models.base import StopSwitch, Usage, excerpt, hidden, hiding, private_mask
from aitest_lib.models.batches import Batch, isolate
from aitest_lib.models.clips import are_clips, clips_for_python, whole_seconds
from aitest_lib.models.input_checks import checked_inputs
from aitest_lib.models.pixels import images_for_python
from aitest_lib.models.processes import python_child
from aitest_lib.models.processes.patience import Patience
from aitest_lib.models.processes.process import ModelProcess, ProcessDied, ProcessKilled
from aitest_lib.models.processes.programs import program_of
from aitest_lib.models.python_answers import match_classes, read_answers
from aitest_lib.models.shapes import in_calls
from aitest_lib.types import ModelInfo, Predictions


class ChildModel:
    """A model in a child process, started at the first call and again when it has died."""

    def __init__(self, loaded: LoadedCard, info: ModelInfo, *, private: Sequence[str] = ()) -> None:
        self.info = info
        self.usage = Usage()
        self._loaded = loaded
        self._private = tuple(private)
        self._word = input_word(info.type)
        self._threshold = loaded.card.decision.threshold if loaded.card.decision else None
        self._stop = StopSwitch()
        self._turn = Lock()  # one child, one call at a time
        self._process: ModelProcess | None = None
        self._columns: list[int] | None = None
        self._patience = Patience()
        self._was_started = False
        self._try_again = True

    def start(self) -> None:
        """Starts the process and loads the model."""
        with self._stop.holding(self._turn):
            self._started()

    def predict(self, inputs: Batch) -> Predictions:
        """The answers to the n rows of a DataFrame, all in one call; to n uint8 images N×H×W×C, a few megabytes a call; or to n
        clips, two minutes a call."""
        card = self._loaded.card
        inputs = checked_inputs(inputs, card.name, card.type, card.inputs)
        _check_carried(inputs, card)
        if not len(inputs):
            return all_failed(0, "")
        hide = private_mask(inputs, self._private)

        def answers(part: Batch) -> Predictions:
            return isolate(part, self._ask, again=False, on_split=self.usage.split_noter(hide))

        with hiding(hide, self._private), self._stop.holding(self._turn):
            self._try_again = True
            try:
                return hidden(in_calls(inputs, answers), hide)
            except Interrupted:
                self.close()  # it is still busy with the call that nobody waits for
                raise

    def stop(self) -> None:
        """Ends the call in flight; its process is killed."""
        self._stop.set()

    def close(self) -> None:
        """Ends the process."""
        if self._process:
            self._process.end()
            self._process = None

    def _ask(self, batch: Batch) -> Predictions:
        inputs = self._as_taken(batch)
        try:
            header, buffers = self._call(inputs, retry=False)
        except ProcessDied:
            if not self._try_again:
                raise
            self._try_again = False  # once per predict: it may have been killed from outside
            header, buffers = self._call(inputs, retry=True)
        if "misfit" in header:
            raise InputError(f"{self._loaded.card.name}: {header['misfit']}")
        if "error" in header:
            raise ModelAnswerError(excerpt(header["error"]))
        labels = python_child.decode_array(header["labels"], buffers)
        scores = python_child.decode_array(header["scores"], buffers)
        return read_answers(labels, scores, len(inputs), self.info, self._columns, self._threshold)

    def _as_taken(self, batch: Any) -> pd.DataFrame | NDArray[Any] | python_child.Clips:
        """Images as the card says, but for an ONNX model: its file says more than the card."""
        if are_clips(batch):
            return clips_for_python(batch)
        card = self._loaded.card
        is_ready = isinstance(batch, pd.DataFrame) or card.onnx is not None
        return batch if is_ready else images_for_python(batch, card.inputs.image)

    def _call(self, inputs: pd.DataFrame | NDArray[Any] | python_child.Clips, *, retry: bool) -> python_child.Frame:
        process = self._started()
        rows = len(inputs)
        work = whole_seconds(inputs) if isinstance(inputs, python_child.Clips) else rows
        self.usage.add(rows=rows, retry=retry)
        begin = time.monotonic()
        try:
            frame = process.call(inputs, self._patience.limit_s(work))
        except (ProcessDied, ProcessKilled) as error:
            self.close()
            hung = isinstance(error, ProcessKilled) and error.hung
            if not self._patience.lost(rows, hung=hung):
                raise
            count = counted(self._patience.hangs if hung else self._patience.deaths, self._word)
            raise ModelUnavailable(
                f"the model {self._loaded.card.name} cannot be used: its process ended at {count} in a row, "
                f"the last time: {error}"
            ) from error
        self._patience.answered(work, time.monotonic() - begin)
        if process.has_grown():
            self.close()  # it leaks; a new one starts with the next call
        return frame

    def _started(self) -> ModelProcess:
        if self._process is None:
            want_scores = self.info.type.endswith("-classifier")
            program = program_of(self._loaded, want_scores=want_scores)
            try:
                process = ModelProcess(program, self._stop, self._word)
            except InputError as error:
                if not self._was_started:
                    raise
                raise ModelUnavailable(f"after its process had ended, {error}") from error
            self._process, self._was_started = process, True
            self.info, self._columns = match_classes(self.info, process.classes)
        return self._process


def _check_carried(inputs: Batch, card: Card) -> None:
    """Tables go to every model in a process, images to those in Python and ONNX, clips to those in Python."""
    is_image = isinstance(inputs, np.ndarray)
    if isinstance(inputs, pd.DataFrame) or (is_image and card.mlflow is None):
        return
    is_speech = card.type == "speech-to-text"
    if is_speech and card.python is not None:
        return
    backend = next(name for name in ("mlflow", "onnx", "python") if getattr(card, name) is not None)
    or_python = ", or load it in a class of your own and write one with `python`" if is_image or is_speech else ""
    raise InputError(
        f"{card.name}: got a model of type {card.type} behind `{backend}`, which is not asked here; "
        f"serve it and write a card with `endpoint`{or_python}"
    )
