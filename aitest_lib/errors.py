"""Errors a user can meet. Each says what was got, what was expected and what to do, in one message.

The exit status of the command line (contract, section 3) is carried by the class, so that no layer above has to guess.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


class AitestError(Exception):
    """Base of every error that is shown to the user as one message without a traceback."""

    exit_code: int = 3


class InputError(AitestError):
    """The user's input (suite, card, data, arguments) is wrong."""

    exit_code = 2


class UnavailableError(AitestError):
    """The model, the store, MLflow or Prefect could not be used. The run can be resumed."""

    exit_code = 3


class ModelUnavailable(UnavailableError):
    """The model behind the card could not be reached, or refuses every call.

    `answers`: the `Predictions` it gave before, one for each input, where a part of a call was answered.
    """

    answers: Any = None


class PrefectGone(UnavailableError):
    """The Prefect server went away during a run."""


class ModelAnswerError(AitestError):
    """The model answered one call, but not usably. Becomes an `error` case, not the end of the run."""


class StoreError(UnavailableError):
    """The artifact store could not be read or written."""


class ArtifactMissing(StoreError):
    """An artifact is not in the store, or its bytes do not match its digest. It can be made again."""

    def __init__(self, uri: str, why: str = "it is not there") -> None:
        super().__init__(f"artifact {uri} cannot be used: {why}; it will be made again")
        self.uri = uri


class Interrupted(AitestError):
    """The user asked for a stop. What is answered is kept; `answers` as in `ModelUnavailable`."""

    exit_code = 130
    answers: Any = None


class Unscored(Exception):
    """What a property has asked cannot be scored, and why, in words for people: it spares the other properties."""


def nearest(name: str, known: Iterable[str], limit: int = 3) -> list[str]:
    """The known names most like `name`, best first; empty where nothing is near."""
    return difflib.get_close_matches(name, list(known), n=limit, cutoff=0.5)


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """Message part for an unknown name: the nearest known ones, or all of them where none is near."""
    choices = sorted(known)
    near = nearest(name, choices)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(choices) or 'none'}"
    return f"unknown {kind} {name!r}; {hint}"
