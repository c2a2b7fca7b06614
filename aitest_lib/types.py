"""The shapes that travel between the rooms of the library."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Outcome = Literal["passed", "failed", "skipped", "error"]
Status = Literal["passed", "failed", "inconclusive", "unjudged", "error", "skipped"]
Scalar = str | int | float | bool

OUTCOMES: tuple[Outcome, ...] = ("passed", "failed", "skipped", "error")
# The suite's status is the worst of its properties', in this order (contract, section 5).
SEVERITY: tuple[Status, ...] = ("error", "failed", "inconclusive", "passed", "unjudged", "skipped")

OBJECT = re.compile(r"objects/[0-9a-f]{2}/[0-9a-f]{30}\.[a-z0-9]+")


def worst(statuses: list[Status]) -> Status:
    """The worst status, `error` first; `skipped` for none."""
    return min(statuses, key=SEVERITY.index, default="skipped")


@dataclass(frozen=True, kw_only=True)
class ModelInfo:
    """What a model is: enough to score its answers and to name its cache."""

    name: str
    type: str
    digest: str
    version: str | None = None
    revision: str | None = None
    classes: tuple[Scalar, ...] | None = None
    reusable: bool = False  # may answers be kept for the next run (contract, section 4)


@dataclass(frozen=True)
class Predictions:
    """The answers to one batch of n inputs, in its order.

    `labels`: object array (n,) of JSON scalars (class labels, or float for regressors); None where `errors` has a reason.
    `scores`: float64 (n, number of classes) in the order of the classes, or None when the model gives no scores.
    `errors`: object array (n,) of reasons (str) or None.
    """

    labels: NDArray[np.object_]
    scores: NDArray[np.float64] | None
    errors: NDArray[np.object_]

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, places: NDArray[np.intp]) -> Predictions:
        """The answers at these places."""
        return Predictions(self.labels[places], None if self.scores is None else self.scores[places], self.errors[places])


@dataclass(frozen=True, eq=False)
class Clip:
    """Mono audio: `samples` float32 (number of samples,) in [-1, 1], `sample_rate` in samples per second."""

    samples: NDArray[np.float32]
    sample_rate: int


@dataclass(frozen=True, kw_only=True)
class ArtifactRef:
    """A stored artifact: what tasks hand to one another instead of arrays.

    `uri` is exactly where an artifact of this digest and codec stands. Anything else, as a damaged or foreign record may
    hold it, is a `ValueError`: no reference leads to what is no artifact.
    """

    uri: str
    digest: str
    codec: str
    rows: int

    def __post_init__(self) -> None:
        named = all(isinstance(part, str) for part in (self.uri, self.digest, self.codec))
        counted = isinstance(self.rows, int) and not isinstance(self.rows, bool) and self.rows >= 0
        if not (named and counted and OBJECT.fullmatch(self.uri) and self.uri == object_path(self.digest, self.codec)):
            raise ValueError(f"got the artifact {self.uri!r:.100}, expected the path of its digest and codec")

    def to_dict(self) -> dict[str, Any]:
        """JSON form, the only form that crosses a task's border."""
        return {"uri": self.uri, "digest": self.digest, "codec": self.codec, "rows": self.rows}

    @classmethod
    def of(cls, data: dict[str, Any]) -> ArtifactRef:
        """Inverse of `to_dict`; `ValueError` for what is no reference."""
        try:
            return cls(uri=data["uri"], digest=data["digest"], codec=data["codec"], rows=data["rows"])
        except (KeyError, TypeError, IndexError) as error:
            raise ValueError(f"got {data!r:.100}, expected a reference") from error


def object_path(digest: str, codec: str) -> str:
    """Where in a store the artifact of a digest (32 hex digits) stands."""
    return f"objects/{digest[:2]}/{digest[2:]}.{codec}"
