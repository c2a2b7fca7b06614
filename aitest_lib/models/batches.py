"""Isolating what a model cannot answer: a batch is halved until the bad input stands alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from aitest_lib.errors import AitestError, ModelAnswerError
from aitest_lib.models.answers import all_failed, joined
from aitest_lib.types import Predictions

Ask = Callable[[pd.DataFrame], Predictions]
OnSplit = Callable[[str], None]


class CallLostError(ModelAnswerError):
    """A call that got no answer at all, whatever was tried: its rows fail, and halving it would only cost more calls."""


def isolate(inputs: pd.DataFrame, ask: Ask, *, again: bool, on_split: OnSplit) -> Predictions:
    """The answers to `inputs`, one by one where need be: on a `ModelAnswerError` the batch is halved.

    `again`: what failed (the whole batch, single inputs, rows with an unusable answer) is asked once more first.
    `on_split`: is told why a batch had to be halved.
    """
    return _isolate(inputs, ask, again, on_split, whole=True)


def _isolate(inputs: pd.DataFrame, ask: Ask, again: bool, on_split: OnSplit, *, whole: bool) -> Predictions:
    try:
        return _asked(inputs, ask, again and (whole or len(inputs) == 1))
    except CallLostError as error:
        return all_failed(len(inputs), str(error))
    except ModelAnswerError as error:
        if len(inputs) == 1:
            return all_failed(1, str(error))
        on_split(str(error))
    middle = len(inputs) // 2
    halves = (inputs.iloc[:middle], inputs.iloc[middle:])
    return joined([_isolate(half, ask, again, on_split, whole=False) for half in halves])


def _asked(inputs: pd.DataFrame, ask: Ask, again: bool) -> Predictions:
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
        second = _checked(inputs.iloc[bad], ask)
    except ModelAnswerError:
        return answers
    return _replaced(answers, bad, second)


def _checked(inputs: pd.DataFrame, ask: Ask) -> Predictions:
    """What a model sends may break any library that reads it; that is an unusable answer, not the end of the run."""
    try:
        return ask(inputs)
    except AitestError:
        raise
    except Exception as error:
        raise ModelAnswerError(f"the answer cannot be read ({type(error).__name__})") from error


def _replaced(answers: Predictions, at: np.ndarray[tuple[int], np.dtype[np.intp]], second: Predictions) -> Predictions:
    answers.labels[at] = second.labels
    answers.errors[at] = second.errors
    if answers.scores is not None and second.scores is not None:
        answers.scores[at] = second.scores
    return answers
