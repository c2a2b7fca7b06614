"""Isolating what a model cannot answer: a batch is halved until the bad input stands alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aitest_lib.errors import AitestError, Interrupted, ModelAnswerError, ModelUnavailable
from aitest_lib.models.answers import all_failed, joined
from aitest_lib.types import Predictions

# Tables, lists (of texts, of conversations as lists of turns, of clips), and uint8 images N×H×W×C (1, 3 or 4 channels).
Batch = pd.DataFrame | Sequence[Any] | NDArray[Any]
B = TypeVar("B", bound=Batch)
OnSplit = Callable[[str], None]
NOT_ASKED = "not asked"
CALL_FLOATS = 4 << 20  # of pixels in one call to a model that runs here: its layers take many times as much memory


class CallLostError(ModelAnswerError):
    """A call that got no answer at all, whatever was tried: its rows fail, and halving it would only cost more calls."""


def taken(batch: B, at: slice | NDArray[np.intp]) -> B:
    """The inputs at these positions, in the batch's own kind."""
    if isinstance(batch, pd.DataFrame):
        return batch.iloc[at]
    if isinstance(batch, np.ndarray) or isinstance(at, slice):
        return batch[at]  # type: ignore[return-value, index]
    return [batch[n] for n in at]  # type: ignore[return-value]


def not_asked(n: int) -> Predictions:
    """n inputs that were not sent any more."""
    return all_failed(n, NOT_ASKED)


def parts_of(batch: B) -> list[B]:
    """What goes to a model on this machine in one call: images up to 4 million pixel values, everything else whole."""
    return cut(batch, images_within(batch, CALL_FLOATS)) if isinstance(batch, np.ndarray) else [batch]


def images_within(images: NDArray[Any], numbers: int) -> int:
    """How many images of this shape have so many pixel values together, at least one."""
    return max(1, numbers // max(images[:1].size, 1))


def cut(batch: B, size: int) -> list[B]:
    """The batch in pieces of `size` inputs, the last one perhaps smaller."""
    return [taken(batch, slice(start, start + size)) for start in range(0, len(batch), size)]


def in_turn(batches: Iterable[B], ask: Callable[[B], Predictions], n: int) -> Predictions:
    """The answers to batches of n inputs in all, asked one after the other.

    A `ModelUnavailable` or `Interrupted` that passes through carries what was answered before, for all n.
    """
    answers: list[Predictions] = []
    for batch in batches:
        answers.append(_kept(partial(ask, batch), answers, n))
    return joined(answers)


def isolate(inputs: B, ask: Callable[[B], Predictions], *, again: bool, on_split: OnSplit) -> Predictions:
    """The answers to `inputs`, one by one where need be: on a `ModelAnswerError` the batch is halved.

    `again`: what failed (the whole batch, single inputs, rows with an unusable answer) is asked once more first.
    `on_split`: is told why a batch had to be halved. A `ModelUnavailable` or `Interrupted` that passes through carries what
    was answered before.
    """
    return _isolate(inputs, ask, again, on_split, whole=True)


def _isolate(inputs: B, ask: Callable[[B], Predictions], again: bool, on_split: OnSplit, *, whole: bool) -> Predictions:
    try:
        return _asked(inputs, ask, again and (whole or len(inputs) == 1))
    except CallLostError as error:
        return all_failed(len(inputs), str(error))
    except ModelAnswerError as error:
        if len(inputs) == 1:
            return all_failed(1, str(error))
        on_split(str(error))
    middle = len(inputs) // 2
    first = _kept(lambda: _isolate(taken(inputs, slice(middle)), ask, again, on_split, whole=False), [], len(inputs))
    rest = _kept(lambda: _isolate(taken(inputs, slice(middle, None)), ask, again, on_split, whole=False), [first], len(inputs))
    return joined([first, rest])


def _kept(ask: Callable[[], Predictions], before: list[Predictions], n: int) -> Predictions:
    """What `ask` answers. An exception that ends everything gets the answers so far, for all n inputs."""
    try:
        return ask()
    except (ModelUnavailable, Interrupted) as error:
        known = joined([*before, *([error.answers] if error.answers is not None else [])])
        error.answers = joined([known, not_asked(n - len(known))])
        raise


def _asked(inputs: B, ask: Callable[[B], Predictions], again: bool) -> Predictions:
    try:
        answers = _checked(inputs, ask)
    except CallLostError:
        raise
    except ModelAnswerError:
        if not again:
            raise
        return _checked(inputs, ask)
    bad = np.flatnonzero(answers.errors.astype(bool))
    if not again or not len(bad):
        return answers
    try:
        second = _checked(taken(inputs, bad), ask)
    except ModelAnswerError:
        return answers
    except (ModelUnavailable, Interrupted) as error:
        error.answers = answers
        raise
    return _replaced(answers, bad, second)


def _checked(inputs: B, ask: Callable[[B], Predictions]) -> Predictions:
    """What a model sends may break any library that reads it; that is an unusable answer, not the end of the run."""
    try:
        return ask(inputs)
    except AitestError:
        raise
    except Exception as error:
        raise ModelAnswerError(f"the answer cannot be read ({type(error).__name__})") from error


def _replaced(answers: Predictions, at: NDArray[np.intp], second: Predictions) -> Predictions:
    answers.labels[at] = second.labels
    answers.errors[at] = second.errors
    if answers.scores is not None and second.scores is not None:
        answers.scores[at] = second.scores
    return answers
