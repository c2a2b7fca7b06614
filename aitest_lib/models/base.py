"""What every model is here: a black box that answers batches, counts what it cost and can be told to stop."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from threading import Lock, Semaphore
from typing import Any, Protocol

import pandas as pd

from aitest_lib.config.secrets import Masker, mask
from aitest_lib.errors import InputError, Interrupted, ModelUnavailable
from aitest_lib.models.answers import with_reasons
from aitest_lib.models.batches import Batch
from aitest_lib.models.withholding import WITHHELD, is_withheld, withholding
from aitest_lib.types import ModelInfo, Predictions

POLL_S = 0.1  # how soon a waiting call notices `stop`
SHOWN = 200  # characters of an answer that a message quotes
READ = 20_000  # characters of an answer that are looked at for that


class Model(Protocol):
    """A black box: nothing but `predict`.

    `predict` is thread-safe and gives n answers for n inputs, in their order; what the model cannot answer comes back as the
    error of its input. It raises `ModelUnavailable` when the model cannot be used at all and `Interrupted` after `stop`.
    """

    info: ModelInfo
    usage: Usage

    def start(self) -> None:
        """Starts what must run before the first answer; `predict` does so by itself where it was not asked to."""

    def predict(self, inputs: Batch) -> Predictions:
        """The answers to n inputs: the rows of a DataFrame, uint8 images N×H×W×C (C = 1: grey), a list of texts, ...

        Inputs of another kind than the model's type takes, or than its card names, are an `InputError`.
        """

    def stop(self) -> None:
        """Ends waiting calls and pauses soon, from another thread or a signal handler. Final."""

    def close(self) -> None:
        """Releases connections and processes. May be called twice."""


@dataclass
class Usage:
    """What a model cost so far: calls (retries included), retries among them, rows on the wire.

    `splits`: batches that had to be halved because the model answered them unusably; `split_reason`: why, the last time.
    """

    calls: int = 0
    retries: int = 0
    rows: int = 0
    splits: int = 0
    split_reason: str | None = None
    _lock: Lock = field(default_factory=Lock, repr=False)

    def add(self, *, rows: int, retry: bool = False) -> None:
        """Counts one call."""
        with self._lock:
            self.calls += 1
            self.retries += retry
            self.rows += rows

    def split_noter(self, hide: Callable[[str], str]) -> Callable[[str], None]:
        """A function that counts one batch that had to be halved, and keeps why, masked."""

        def note(reason: str) -> None:
            with self._lock:
                self.splits += 1
                self.split_reason = hide(reason)

        return note


class StopSwitch:
    """Lets one thread, or a signal handler, end the waits of others: every pause and every queue goes through it.

    A plain flag that is polled: the locks of `threading.Event` could be held by the very thread that the signal interrupts.
    """

    def __init__(self) -> None:
        self._stopped = False

    def set(self) -> None:
        """From now on every wait raises `Interrupted`."""
        self._stopped = True

    def check(self) -> None:
        """Raises `Interrupted` once the switch is set."""
        if self._stopped:
            raise Interrupted("stopped while the model was being asked; answers so far are kept")

    def pause(self, seconds: float) -> None:
        """Sleeps; raises `Interrupted` soon after the switch is set."""
        end = time.monotonic() + seconds
        self.check()
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, POLL_S))
            self.check()

    @contextmanager
    def holding(self, gate: Semaphore | Lock) -> Iterator[None]:
        """Holds a lock or a semaphore's place; waiting for it ends with the switch."""
        self.check()
        while not gate.acquire(timeout=POLL_S):
            self.check()
        try:
            yield
        finally:
            gate.release()


def select_columns(inputs: pd.DataFrame, name: str, columns: Sequence[str] | None) -> pd.DataFrame:
    """The columns that the card `name` lists, in its order; all where it lists none. A missing one is an `InputError`."""
    if columns is None:
        return inputs
    missing = [column for column in columns if column not in inputs.columns]
    if missing:
        raise InputError(f"the data has no column {', '.join(missing)}, which `inputs` of the card {name} names")
    return inputs[list(columns)]


def excerpt(text: str) -> str:
    """The start of what came back, for a message: secrets masked before it is cut; nothing of it while it is withheld."""
    if is_withheld():
        return WITHHELD
    masked = mask(text[:READ])
    # A secret that was cut in two at the end would not be recognised.
    text = " ".join((masked if len(text) <= READ else masked[: -READ // 4]).split())
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."


def private_mask(inputs: Any, private: Sequence[str]) -> Callable[[str], str]:
    """A function that masks secrets and the values of private columns of a table in a text."""
    columns = [name for name in private if name in inputs.columns] if isinstance(inputs, pd.DataFrame) else []
    if not columns:
        return mask

    @cache  # most calls leave nothing to be masked
    def masker() -> Masker:
        return Masker(text for name in columns for value in inputs[name].dropna() for text in _forms(value))

    return lambda text: mask(masker().masked(text))


@contextmanager
def hiding(hide: Callable[[str], str], private: Sequence[str] = ()) -> Iterator[None]:
    """Masks the message of a `ModelUnavailable` that passes through; with private columns, nothing is quoted meanwhile."""
    try:
        with withholding(bool(private)):
            yield
    except ModelUnavailable as error:
        masked = ModelUnavailable(hide(str(error)))
        masked.answers = None if error.answers is None else hidden(error.answers, hide)
        raise masked from error.__cause__
    except Interrupted as error:
        error.answers = None if error.answers is None else hidden(error.answers, hide)
        raise


def hidden(predictions: Predictions, hide: Callable[[str], str]) -> Predictions:
    """The same answers with masked reasons."""
    return with_reasons(predictions, hide) if predictions.errors.any() else predictions


def _forms(value: Any) -> set[str]:
    """How a private value may be spelled: as text, whole, in JSON, as a date, with its spaces folded, cut."""
    text = str(value)
    forms = {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], repr(text)[1:-1], " ".join(text.split())}
    if isinstance(value, float) and value.is_integer():
        forms.add(str(int(value)))
    if hasattr(value, "isoformat"):
        forms |= {value.isoformat(), value.isoformat()[:10]}
    return forms | {form[:50] for form in forms if len(form) > 50}
