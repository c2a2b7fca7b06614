"""Given values put into rows: other protected ones (individual fairness), and one column moved alone (directions)."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from aitest_lib.data.counterparts import with_tied_values
from aitest_lib.data.table import frame_cells
from aitest_lib.transforms.base import RngFor, TableBatch, TableDraw, TabularTransform


@dataclass(frozen=True, kw_only=True)
class PutValues(TabularTransform):
    """The same values in every row; columns that are declared as tied move along. Nothing is drawn by chance."""

    distance_unit: ClassVar[str] = "columns changed"

    @property
    @abstractmethod
    def given(self) -> dict[str, Any]:
        """The values by column."""

    @property
    def slice(self) -> dict[str, Any]:
        return {"transform": self.name, **self.given}

    def draw(self, seed_ids: list[str], batch: TableBatch, rng_for: RngFor) -> TableDraw:
        rows = len(seed_ids)
        values = pd.DataFrame({name: pd.Series([value] * rows, dtype=object) for name, value in self.given.items()})
        changed = with_tied_values(batch.frame, values, batch.profile)
        cells = {name: (frame_cells(batch.frame[name]), frame_cells(changed[name])) for name in batch.frame.columns}
        moved = {name: pair for name, pair in cells.items() if pair[0] != pair[1]}
        params: list[dict[str, Any]] = []
        for place in range(rows):
            new = {name: after[place] for name, (before, after) in moved.items() if before[place] != after[place]}
            params.append({"values": self.given, "set": new})
        distance = np.array([len(row["set"]) for row in params], float)
        return TableDraw(params, distance, [None] * rows)


@dataclass(frozen=True, kw_only=True)
class ProtectedValues(PutValues):
    """Another combination of protected values, everything else as it was."""

    name: ClassVar[str] = "protected_values"
    values: dict[str, Any]

    @property
    def given(self) -> dict[str, Any]:
        return dict(self.values)


@dataclass(frozen=True, kw_only=True)
class MovedColumn(PutValues):
    """One column at a given value, everything else as it was."""

    name: ClassVar[str] = "moved"
    column: str
    to: Any

    @property
    def given(self) -> dict[str, Any]:
        return {self.column: self.to}

    @property
    def slice(self) -> dict[str, Any]:
        # With its column, so that one value of two columns is not taken for one kind of case.
        return {"transform": f"{self.name} {self.column}", **self.given}

    @property
    def strength_value(self) -> float | None:
        return float(self.to) if isinstance(self.to, int | float) and not isinstance(self.to, bool) else None


UNLISTED: dict[str, type[PutValues]] = {cls.name: cls for cls in (ProtectedValues, MovedColumn)}  # that no suite can name
