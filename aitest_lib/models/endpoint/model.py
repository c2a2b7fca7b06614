"""The `endpoint` backend: inputs go out over HTTP in batches, as the card says, and JMESPath reads the answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from threading import Lock

import numpy as np

from aitest_lib.config.card import LoadedCard
from aitest_lib.errors import InputError, Interrupted, ModelAnswerError, ModelUnavailable
from aitest_lib.models.answers import joined
from aitest_lib.models.base import StopSwitch, Usage, hidden, hiding, private_mask
from aitest_lib.models.batches import Batch, cut, images_within, isolate, not_asked
from aitest_lib.models.endpoint.payloads import Payload
from aitest_lib.models.endpoint.responses import Reader
from aitest_lib.models.endpoint.steps import Exchange, StepFailed, StepRefused
from aitest_lib.models.endpoint.transport import Transport
from aitest_lib.models.input_checks import checked_inputs
from aitest_lib.types import ModelInfo, Predictions

NEVER_USABLE_AFTER = 20  # calls with a single input answered unusably, and not one usable answer yet
MOST_NUMBERS = 1_000_000  # of pixels in one call, about 20 MB of JSON
REFUSED_AFTER = 40  # calls with a single input, each asked twice, denied since the last usable answer
DENIED = {403: "check that the credentials may use this model", 404: "check `endpoint.url`"}


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
        self._transport = Transport(self._endpoint, loaded.base_dir, self.usage, self._stop)
        self._exchange = Exchange(self._endpoint, info, self._transport, self._stop)
        threshold = self._card.decision.threshold if self._card.decision else None
        self._reader = Reader(self._endpoint.response, info, threshold)
        self._lock = Lock()
        self._usable = False
        self._in_a_row = 0

    def start(self) -> None:
        """Nothing to start."""

    def predict(self, inputs: Batch) -> Predictions:
        """The answers to n inputs, `batch_size` of them a call.

        `inputs`: a DataFrame (tabular), texts, conversations (lists of turns {role, text}), uint8 images N×H×W×C, or clips. A
        `ModelUnavailable` or `Interrupted` carries the answers that came before it.
        """
        inputs = checked_inputs(inputs, self._card.name, self._card.type, self._card.inputs)
        batches = cut(inputs, self._size(inputs))
        hide = private_mask(inputs, self._private)

        def answers(batch: Batch) -> Predictions:
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

    def _size(self, inputs: Batch) -> int:
        """As many inputs a call as the card says; fewer where that many images as numbers would be too much text."""
        size = self._endpoint.batch_size
        if isinstance(inputs, np.ndarray) and "images" in self._exchange.uses:
            return min(size, images_within(inputs, MOST_NUMBERS))
        return size

    def _in_parallel(self, batches: list[Batch], answers: Callable[[Batch], Predictions]) -> list[Predictions]:
        with ThreadPoolExecutor(min(self._endpoint.concurrency, len(batches)), "aitest-endpoint") as pool:
            futures = [pool.submit(answers, batch) for batch in batches]
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            if any(future.exception() for future in done):
                # The model is unusable, or the user stopped: what waits in the queue is not sent any more.
                pool.shutdown(wait=False, cancel_futures=True)
        raised = [error for future in futures if not future.cancelled() and (error := future.exception())]
        if not raised:
            return [future.result() for future in futures]
        if isinstance(raised[0], (ModelUnavailable, Interrupted)):
            raised[0].answers = joined([_known(future, len(batch)) for future, batch in zip(futures, batches, strict=True)])
        raise raised[0]

    def _ask(self, batch: Batch) -> Predictions:
        n = len(batch)
        try:
            answer = self._exchange.ask(Payload(self._card, batch, self._exchange.uses), n)
        except StepFailed as error:
            mend = "check this step's credentials" if isinstance(error, StepRefused) else None
            self._note_failure(n, str(error), mend)
            raise
        try:
            answers = self._reader.read(answer, n)
        except ModelAnswerError as error:
            mend = DENIED.get(answer.status)
            self._note_failure(n, str(error), mend)
            if self._usable or not mend:
                raise
            raise ModelAnswerError(f"{error}; {mend}") from error
        if not answers.errors.all():
            self._usable, self._in_a_row = True, 0
        return answers

    def _note_failure(self, rows: int, reason: str, mend: str | None) -> None:
        """A model that answers nothing usably, or denies everything, is not asked thousands of times more.

        `mend`: of what was denied. One denied input proves nothing: a firewall in front of the model may dislike it.
        """
        if rows > 1 or (self._usable and not mend):
            return
        with self._lock:
            self._in_a_row += 1
        if not self._usable and self._in_a_row > NEVER_USABLE_AFTER:
            todo = mend or "check the card"
            raise self._transport.refused(f"the model has answered no input usably, the last: {reason}; {todo}")
        if self._in_a_row > REFUSED_AFTER:
            raise self._transport.refused(f"the model refuses every input by now, the last: {reason}; {mend}")


def _known(future: Future[Predictions], n: int) -> Predictions:
    """What is known of a batch's answers, whatever became of it."""
    if future.cancelled():
        return not_asked(n)
    error = future.exception()
    if error is None:
        return future.result()
    answers: Predictions | None = getattr(error, "answers", None)
    return not_asked(n) if answers is None else answers
