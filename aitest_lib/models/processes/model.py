"""The `python` backend: the model runs in a process of its own, so that its packages and crashes stay out of aitest."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

import pandas as pd

from aitest_lib.config.card import LoadedCard
from aitest_lib.errors import InputError, Interrupted, ModelAnswerError, ModelUnavailable
from aitest_lib.models.answers import all_failed
from aitest_lib.models.base import StopSwitch, Usage, excerpt, hidden, hiding, private_mask, select_columns
from aitest_lib.models.batches import isolate
from aitest_lib.models.local import match_classes, read_answers
from aitest_lib.models.processes import python_child
from aitest_lib.models.processes.process import ModelProcess, ProcessDied
from aitest_lib.types import ModelInfo, Predictions

MAX_DEATHS = 100  # a process that dies more often is not started again
NEVER_ANSWERED_AFTER = 10  # deaths without one answer


class ChildModel:
    """A Python model in a child process, started at the first call and again when it has died."""

    def __init__(self, loaded: LoadedCard, info: ModelInfo, *, private: Sequence[str] = ()) -> None:
        if loaded.card.python is None:
            raise InputError(f"{loaded.card.name}: got a card without `python`, expected one")
        self.info = info
        self.usage = Usage()
        self._card = loaded.card
        self._backend = loaded.card.python
        self._base_dir = loaded.base_dir
        self._private = tuple(private)
        self._threshold = loaded.card.decision.threshold if loaded.card.decision else None
        self._stop = StopSwitch()
        self._turn = Lock()  # one child, one call at a time
        self._process: ModelProcess | None = None
        self._columns: list[int] | None = None
        self._deaths = 0
        self._answered = False
        self._try_again = True

    def predict(self, inputs: pd.DataFrame) -> Predictions:
        """The answers to n rows, all of them in one call."""
        inputs = select_columns(inputs, self._card)
        if not len(inputs):
            return all_failed(0, "")
        hide = private_mask(inputs, self._private)
        with hiding(hide, self._private), self._stop.holding(self._turn):
            self._try_again = True
            try:
                return hidden(isolate(inputs, self._ask, again=False, on_split=self.usage.split_noter(hide)), hide)
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

    def _ask(self, inputs: pd.DataFrame) -> Predictions:
        try:
            header, buffers = self._call(inputs, retry=False)
        except ProcessDied:
            if not self._try_again:
                raise
            self._try_again = False  # once per predict: it may have been killed from outside
            header, buffers = self._call(inputs, retry=True)
        if "error" in header:
            raise ModelAnswerError(excerpt(header["error"]))
        labels = python_child.decode_array(header["labels"], buffers)
        scores = python_child.decode_array(header["scores"], buffers)
        predictions = read_answers(labels, scores, len(inputs), self.info, self._columns, self._threshold)
        self._answered = True
        return predictions

    def _call(self, inputs: pd.DataFrame, *, retry: bool) -> python_child.Frame:
        process = self._started()
        self.usage.add(rows=len(inputs), retry=retry)
        try:
            return process.call(inputs)
        except ModelAnswerError as error:  # it died, or was killed for its silence
            self.close()
            self._deaths += 1
            if self._deaths >= (MAX_DEATHS if self._answered else NEVER_ANSWERED_AFTER):
                raise ModelUnavailable(
                    f"the model {self._card.name} cannot be used: its process ended {self._deaths} times, the last: {error}"
                ) from error
            raise

    def _started(self) -> ModelProcess:
        if self._process is None:
            want_scores = self.info.type.endswith("-classifier")
            process = ModelProcess(self._backend, self._base_dir, self._stop, want_scores=want_scores)
            self._process = process
            self.info, self._columns = match_classes(self.info, process.classes)
        return self._process
