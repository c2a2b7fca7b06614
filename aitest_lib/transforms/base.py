"""Transforms: draw the parameters first (all randomness), then apply them (pure).

The drawn parameters are stored with each case and make it replayable.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aitest_lib.component import Component
from aitest_lib.data.schema import Profile

RngFor = Callable[[str], np.random.Generator]  # seed_id -> its generator (aitest_lib.rng.rng_for, run seed and component bound)


@dataclass(frozen=True)
class TableBatch:
    """Rows as a DataFrame (n, columns), with the profile of their columns and the names a transform may change."""

    frame: pd.DataFrame
    profile: Profile
    changeable: tuple[str, ...]
    protected: tuple[str, ...] = ()


@dataclass(frozen=True)
class TableDraw:
    """What was drawn for n seeds: parameters (JSON) with `set` = the new values, how far each case is from its seed,
    and the reason where a seed has no case (None elsewhere)."""

    params: list[dict[str, Any]]
    distance: NDArray[np.float64]
    not_applicable: list[str | None]


@dataclass(frozen=True, kw_only=True)
class Transform(Component):
    """Makes cases from seeds. `strength` names the parameter that a sweep scales; `distance_unit` says what distance counts."""

    modality: ClassVar[str]
    strength: ClassVar[str | None] = None
    distance_unit: ClassVar[str] = "1"

    @property
    def slice(self) -> dict[str, Any]:
        """The slice of a report this component stands for, e.g. {"transform": "numeric_noise", "epsilon": 0.1}."""
        given = {name: value for name, value in self.parameters().items() if value is not None}
        flat = {name: ", ".join(value) if isinstance(value, list | tuple) else value for name, value in given.items()}
        return {"transform": self.name, **flat}

    @classmethod
    def sweepable(cls) -> list[str]:
        """The parameters in which a list is a sweep, one component for each value."""
        return [name for name in (cls.strength, "severity") if name is not None]

    @property
    def strength_value(self) -> float | None:
        """The value of the strength parameter, where there is one."""
        return None if self.strength is None else float(self.parameters()[self.strength])


def unit_of(transform: Transform) -> str:
    """The unit of a transform's strength, e.g. degrees; empty where it has none."""
    found = [item for item in dataclasses.fields(transform) if item.name == transform.strength]
    return str(found[0].metadata.get("unit") or "") if found else ""


@dataclass(frozen=True, kw_only=True)
class TabularTransform(Transform):
    """A transform of table rows."""

    modality: ClassVar[str] = "tabular"

    @abstractmethod
    def draw(self, seed_ids: list[str], batch: TableBatch, rng_for: RngFor) -> TableDraw:
        """Draws for every row of the batch from its own generator; equal for every split of the batch."""

    def apply(self, frame: pd.DataFrame, params: list[dict[str, Any]]) -> pd.DataFrame:
        """A copy of the rows with each row's `set` values in place. Pure."""
        result = frame.copy()
        for name in dict.fromkeys(name for row in params for name in row["set"]):
            rows = [place for place, row in enumerate(params) if name in row["set"]]
            values = [params[place]["set"][name] for place in rows]
            filled = result[name].array.copy()  # keeps the type: Int64 holds ids that a float would round
            filled[rows] = pd.array(values, dtype=filled.dtype)
            result[name] = pd.Series(filled, index=result.index, dtype=result[name].dtype)
        return result
