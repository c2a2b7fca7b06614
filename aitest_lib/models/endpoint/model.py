"""The `endpoint` backend: a table goes out as JSON over HTTP, JMESPath reads the answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from threading import Lock
from typing import Any

import jmespath
import pandas as pd
from jmespath.exceptions import JMESPathError

from aitest_lib.config.card import LoadedCard
from aitest_lib.errors import InputError, ModelAnswerError
from aitest_lib.models.answers import joined, to_predictions
from aitest_lib.models.base import StopSwitch, Usage, excerpt, hidden, hiding, private_mask, rows_text, select_columns
from aitest_lib.models.batches import Ask, isolate
from aitest_lib.models.endpoint.templates import RequestTemplate
from aitest_lib.models.endpoint.transport import Answer, Transport
from aitest_lib.types import ModelInfo, Predictions

NEVER_USABLE_AFTER = 20  # calls with a single input refused, and not one usable answer yet


class EndpointModel:
    """A model behind HTTP; batches are sent in parallel, as many at once as the card allows."""

    def __init__(self, loaded: LoadedCard, info: ModelInfo, *, private: Sequence[str] = ()) -> None:
        if loaded.card.endpoint is None:
            raise InputError(f"{loaded.card.name}: got a card without `endpoint`, expected one")
        self.info = info
        self.usage = Usage()
        self._card = loaded.card
        self._endpoint = loaded.card.endpoint
        self._private = tuple(private)
        self._stop = StopSwitch()
        self._template = RequestTemplate(self._endpoint.request, info)
        response = self._endpoint.response
        self._labels, self._scores, self._success = map(_compiled, (response.labels, response.scores, response.success))
        self._transport = Transport(self._endpoint, self.usage, self._stop)
        self._lock = Lock()
        self._usable = False
        self._refused = 0

    def predict(self, inputs: pd.DataFrame) -> Predictions:
        """The answers to n rows, `batch_size` rows a call."""
        inputs = select_columns(inputs, self._card)
        size = self._endpoint.batch_size
        batches = [inputs.iloc[start : start + size] for start in range(0, len(inputs), size)]
        hide = private_mask(inputs, self._private)

        def answers(batch: pd.DataFrame) -> Predictions:
            return isolate(batch, self._ask, again=True, on_split=self.usage.split_noter(hide))

        with hiding(hide, self._private):
            if len(batches) <= 1:
                return hidden(joined([answers(batch) for batch in batches]), hide)
            return hidden(joined(self._in_parallel(batches, answers)), hide)

    def stop(self) -> None:
        """Ends waiting calls and pauses."""
        self._stop.set()
        self._transport.shutdown()

    def close(self) -> None:
        """Closes the connections."""
        self._transport.close()

    def _in_parallel(self, batches: list[pd.DataFrame], answers: Ask) -> list[Predictions]:
        with ThreadPoolExecutor(min(self._endpoint.concurrency, len(batches)), "aitest-endpoint") as pool:
            futures = [pool.submit(answers, batch) for batch in batches]
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            if any(future.exception() for future in done):
                # The model is unusable, or the user stopped: what waits in the queue is not sent any more.
                pool.shutdown(wait=False, cancel_futures=True)
        raised = [future for future in futures if not future.cancelled() and future.exception()]
        return [future.result() for future in raised or futures]  # the first one that raised does so here

    def _ask(self, batch: pd.DataFrame) -> Predictions:
        body = self._template.render(batch)
        answer = self._transport.send(body, len(batch))
        try:
            answers = self._read(answer, len(batch))
        except ModelAnswerError as error:
            self._note_refusal(len(batch), str(error))
            raise
        self._usable = self._usable or not answers.errors.all()
        return answers

    def _note_refusal(self, rows: int, reason: str) -> None:
        """An endpoint that has refused many single inputs and answered none is not asked thousands of times more."""
        if self._usable or rows > 1:
            return
        with self._lock:
            self._refused += 1
        if self._refused > NEVER_USABLE_AFTER:
            raise self._transport.refused(f"the model has answered no input usably, the last: {reason}; check the card")

    def _read(self, answer: Answer, n: int) -> Predictions:
        came = excerpt(answer.text)
        if not 200 <= answer.status < 300:
            raise ModelAnswerError(f"sent {rows_text(n)}, got HTTP {answer.status} {came}".strip())
        try:
            data = json.loads(answer.text)
        except ValueError as error:
            raise ModelAnswerError(f"sent {rows_text(n)}, got no valid JSON: {came or 'nothing'}") from error
        response = self._endpoint.response
        if self._success is not None and not _search(self._success, data, "success", came):
            raise ModelAnswerError(f"sent {rows_text(n)}, got an answer where `{response.success}` is not true: {came}")
        labels = self._found(self._labels, response.labels, data, "labels", n, came)
        scores = self._found(self._scores, response.scores, data, "scores", n, came)
        threshold = self._card.decision.threshold if self._card.decision else None
        return to_predictions(labels, scores, n, self.info, threshold)

    def _found(self, compiled: Any, expression: str | None, data: Any, what: str, n: int, came: str) -> Any:
        if compiled is None:
            return None
        value = _search(compiled, data, what, came)
        if value is None:
            raise ModelAnswerError(f"sent {rows_text(n)}, found no {what} at `{expression}`, got {came}")
        if isinstance(value, list) and len(value) < n and expression and ("[*]" in expression or "[]" in expression):
            raise ModelAnswerError(
                f"sent {rows_text(n)}, got {len(value)} {what[:-1] if len(value) == 1 else what} at `{expression}`: "
                "a JMESPath projection drops nulls; write [*].not_null(key, 'none') so that every row keeps its place"
            )
        return value


def _compiled(expression: str | None) -> Any:
    return None if expression is None else jmespath.compile(expression)


def _search(compiled: Any, data: Any, what: str, came: str) -> Any:
    try:
        return compiled.search(data)
    except JMESPathError as error:
        problem = " ".join(str(error).split())
        raise ModelAnswerError(f"`{what}` cannot be read from the answer: {problem}; got {came}") from error
