"""Small neighbourhoods of table rows: numbers moved a little, categories swapped, values gone missing.

Source of the neighbourhoods: robustness of tabular models in the AITEST papers; common random numbers along `epsilon`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from aitest_lib.data.schema import Column, Profile
from aitest_lib.data.table import frame_cells
from aitest_lib.errors import InputError, unknown
from aitest_lib.parameters import parameter
from aitest_lib.registry import register
from aitest_lib.transforms.base import RngFor, TableBatch, TableDraw, TabularTransform

MOVE_DIGITS = 5  # a moved number is rounded to this many digits of its move


@register
@dataclass(frozen=True, kw_only=True)
class NumericNoise(TabularTransform):
    """Every numeric column moves by a uniform draw within +- epsilon standard deviations; integers stay integers.

    Values are clipped to the schema's range. Tied, one-hot, immutable, private and ignored columns stay.
    """

    name: ClassVar[str] = "numeric_noise"
    strength: ClassVar[str | None] = "epsilon"
    distance_unit: ClassVar[str] = "sd"
    epsilon: float = parameter(0.1, help="half-width of the move", unit="standard deviations", gt=0, le=10)
    columns: list[str] | None = parameter(None, help="only these columns")

    def draw(self, seed_ids: list[str], batch: TableBatch, rng_for: RngFor) -> TableDraw:
        # One draw for each numeric column of the profile, changeable or not: leaving a column out moves no other draw.
        numeric = sorted((column for column in batch.profile.columns if column.numeric), key=lambda column: column.name)
        draws = np.array([rng_for(seed_id).uniform(-1, 1, len(numeric)) for seed_id in seed_ids]).reshape(
            len(seed_ids), len(numeric)
        )
        moved: dict[str, NDArray[np.float64]] = {}
        distance = np.zeros(len(seed_ids))
        free = set(loose_columns(batch.profile, _chosen(self.columns, batch)))
        for column, draw in zip(numeric, draws.T, strict=True):
            if column.name not in free or column.sd == 0:
                continue
            before = batch.frame[column.name].to_numpy(float, na_value=np.nan)
            after = moved_numbers(before, draw * self.epsilon * column.sd, column)
            moved[column.name] = np.where(after == before, np.nan, after)
            distance = np.fmax(distance, np.abs(after - before) / column.sd)
        reason = None if moved else "no numeric column may change"
        integers = {column.name for column in numeric if column.kind == "integer"}
        params = []
        for place in range(len(seed_ids)):
            new = {name: values[place] for name, values in moved.items() if not math.isnan(values[place])}
            params.append({"epsilon": self.epsilon, "set": {n: int(v) if n in integers else float(v) for n, v in new.items()}})
        return TableDraw(params, distance, [reason] * len(seed_ids))


@register
@dataclass(frozen=True, kw_only=True)
class CategorySwap(TabularTransform):
    """One categorical column (or tied group, or one-hot group) takes another observed value, as often as it occurs.

    Protected columns stay: what they do to the answer is a matter of fairness.
    """

    name: ClassVar[str] = "category_swap"
    distance_unit: ClassVar[str] = "columns changed"
    columns: list[str] | None = parameter(None, help="only these columns")

    def draw(self, seed_ids: list[str], batch: TableBatch, rng_for: RngFor) -> TableDraw:
        units = _swappable(batch, self.columns)
        params: list[dict[str, Any]] = []
        reasons: list[str | None] = []
        distance = np.zeros(len(seed_ids))
        rows = {name: frame_cells(batch.frame[name]) for unit in units for name in unit.columns}
        for place, seed_id in enumerate(seed_ids):
            first, second = rng_for(seed_id).random(2)
            if not units:
                params.append({"set": {}})
                reasons.append("no categorical column may change")
                continue
            unit = units[int(first * len(units))]
            new = unit.other({name: rows[name][place] for name in unit.columns}, second)
            params.append({"set": new})
            reasons.append(None)
            distance[place] = len(new)
        return TableDraw(params, distance, reasons)


@register
@dataclass(frozen=True, kw_only=True)
class MissingValue(TabularTransform):
    """One value goes missing, in a column whose schema allows that."""

    name: ClassVar[str] = "missing_value"
    distance_unit: ClassVar[str] = "columns changed"
    columns: list[str] | None = parameter(None, help="only these columns")

    def draw(self, seed_ids: list[str], batch: TableBatch, rng_for: RngFor) -> TableDraw:
        names = [name for name in loose_columns(batch.profile, _chosen(self.columns, batch)) if batch.profile[name].missing]
        names = sorted(name for name in names if name not in batch.protected)
        present = {name: batch.frame[name].notna().to_numpy() for name in names}
        params: list[dict[str, Any]] = []
        distance = np.zeros(len(seed_ids))
        for place, seed_id in enumerate(seed_ids):
            draw = rng_for(seed_id).random()
            new: dict[str, Any] = {}
            if names and present[name := names[int(draw * len(names))]][place]:
                new, distance[place] = {name: None}, 1
            params.append({"set": new})
        reason = None if names else "no column may be missing"
        return TableDraw(params, distance, [reason] * len(seed_ids))


def moved_numbers(before: NDArray[np.float64], shift: NDArray[np.float64], column: Column) -> NDArray[np.float64]:
    """`before + shift`, kept in the column's range, integers rounded; NaN stays NaN."""
    after = before + shift
    if column.kind == "integer":
        after = np.rint(after)
    else:
        after = _rounded(after, np.abs(shift))
    low = -math.inf if column.min is None else column.min
    high = math.inf if column.max is None else column.max
    # A seed outside the declared range is not pulled into it: that would be a change that nobody drew.
    return np.clip(after, np.fmin(low, before), np.fmax(high, before))


def _rounded(values: NDArray[np.float64], moves: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each value to as many decimals as its own move needs, so that the smallest move keeps its direction and size."""
    decimals = np.zeros(len(values))
    np.log10(moves, out=decimals, where=moves > 0)
    decimals = np.clip(MOVE_DIGITS - np.floor(decimals), 0, 300)
    result = values.copy()
    for count in np.unique(decimals[moves > 0]):
        rows = (decimals == count) & (moves > 0)
        result[rows] = np.round(values[rows], int(count))
    return result


class _Unit:
    """Columns that are swapped together, with the observed combinations and their frequencies."""

    def __init__(self, columns: tuple[str, ...], values: tuple[tuple[Any, ...], ...], counts: tuple[int, ...]) -> None:
        self.columns = columns
        self._values = values
        self._place = {value: place for place, value in enumerate(values)}
        self._edges = np.cumsum([0, *counts])

    def other(self, current: dict[str, Any], draw: float) -> dict[str, Any]:
        """Another combination than the current one, drawn by frequency: only the columns that differ."""
        now = tuple(current[name] for name in self.columns)
        own = self._place.get(now)
        low, high = (0, 0) if own is None else (self._edges[own], self._edges[own + 1])
        target = draw * (self._edges[-1] - (high - low))
        if target >= low:
            target += high - low  # steps over the current combination's own share
        if target >= self._edges[-1]:
            return {}
        new = self._values[int(np.searchsorted(self._edges, target, side="right")) - 1]
        return {name: value for name, value, old in zip(self.columns, new, now, strict=True) if value != old}


def _chosen(columns: list[str] | None, batch: TableBatch) -> list[str]:
    if columns is None:
        return list(batch.changeable)
    for name in columns:
        if name not in batch.changeable:
            raise InputError(f"columns: {unknown('changeable column', name, batch.changeable)}")
    return columns


def loose_columns(profile: Profile, names: Sequence[str]) -> list[str]:
    """The names that belong to no tied or one-hot group."""
    grouped = {name for group in profile.tied for name in group.columns}
    return [name for name in names if name not in grouped]


def _swappable(batch: TableBatch, columns: list[str] | None) -> list[_Unit]:
    names = [name for name in _chosen(columns, batch) if name not in batch.protected]
    units = []
    for name in loose_columns(batch.profile, names):
        column = batch.profile[name]
        if column.kind in ("category", "boolean") and len(column.values) > 1:
            units.append(_Unit((name,), tuple((value,) for value in column.values), column.counts))
    for group in batch.profile.tied:
        if set(group.columns) <= set(names) and len(group.values) > 1:
            units.append(_Unit(group.columns, group.values, group.counts))
    return sorted(units, key=lambda unit: unit.columns)
