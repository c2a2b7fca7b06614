"""Columns as the numbers that scikit-learn splits, and its splits back as questions in the user's terms.

scikit-learn computes in float32, where identifiers above 2^24 melt together and 1e39 is an error; so a number is coded as
its rank among the distinct values, which leaves every split as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aitest_lib.data.schema import Column, Profile
from aitest_lib.errors import InputError, unknown
from aitest_lib.surrogates.cells import Cells, time_text
from aitest_lib.surrogates.tree import Test

MANY_VALUES = 50  # categories up to here have a 0/1 feature each, more are coded by their frequency
DAY, SECOND = 86_400_000_000, 1_000_000  # microseconds


@dataclass(frozen=True)
class Feature:
    """One column of the matrix: how a split of it reads.

    `points`: sorted distinct numbers (or microseconds of dates), whose ranks are the codes; or else `values`: one value,
    coded 1 where a cell has it (none: where the cell is missing), or many, coded by their place.
    """

    column: str
    points: NDArray[Any] | None = None
    dates: bool = False
    whole: bool = False
    values: tuple[Any, ...] = ()
    ranked: bool = False
    may_miss: bool = False

    def test(self, threshold: float, missing_left: bool) -> tuple[Test, bool]:
        """The question that a split asks, and whether its `yes` is scikit-learn's left."""
        if threshold == np.inf:  # every value goes left, the missing ones right
            return Test(column=self.column, among=(), missing=True), False
        missing = missing_left if self.may_miss else None
        if self.points is not None:
            low, high = self.points[int(threshold)], self.points[int(threshold) + 1]
            bound = _date_between(int(low), int(high)) if self.dates else _between(low, high, self.whole)
            return Test(column=self.column, at_most=bound, missing=missing), True
        if self.ranked:
            return Test(column=self.column, among=self.values[: int(threshold) + 1], missing=missing), True
        return Test(column=self.column, among=self.values, missing=None if self.values else True), False


@dataclass(frozen=True)
class Encoded:
    """`matrix` float32 (n, features), NaN where a number is missing; `features` says what its columns are."""

    matrix: NDArray[np.float32]
    features: list[Feature]


def encode(frame: pd.DataFrame, profile: Profile, columns: Sequence[str]) -> Encoded:
    """The columns of a frame that a tree may ask about: neither private, ignored, text nor constant ones."""
    features: list[Feature] = []
    arrays: list[NDArray[np.float32]] = []
    for column in usable(profile, columns):
        for feature, codes in _encode(column, Cells(frame[column.name])):
            features.append(feature)
            arrays.append(codes)
    matrix = np.column_stack(arrays) if arrays else np.zeros((len(frame), 0), np.float32)
    return Encoded(matrix, features)


def usable(profile: Profile, columns: Sequence[str]) -> list[Column]:
    """Those of `columns` that a tree may ask about."""
    for name in columns:
        if name not in profile.by_name:
            raise InputError(f"columns of the surrogate: {unknown('column', name, profile.by_name)}")
    found = [profile[name] for name in columns]
    return [column for column in found if not (column.private or column.ignored or column.kind == "text")]


def _encode(column: Column, cells: Cells) -> list[tuple[Feature, NDArray[np.float32]]]:
    if column.numeric or column.kind == "datetime":
        return _ranks(column, cells)
    codes, distinct = cells.coded
    absent = bool(cells.missing.any())
    if len(distinct) + absent < 2:
        return []
    if len(distinct) > MANY_VALUES:
        return [_by_frequency(column.name, codes, distinct, absent)]
    places = sorted(range(len(distinct)), key=lambda place: str(distinct[place]))
    if len(distinct) == 2 and not absent:
        places = places[1:] if column.kind == "boolean" else places[:1]  # the other one would be its mirror image
    features = [(Feature(column.name, values=(distinct[place],)), _is(codes, place)) for place in places]
    return features + ([(Feature(column.name, may_miss=True), _is(codes, -1))] if absent else [])


def _ranks(column: Column, cells: Cells) -> list[tuple[Feature, NDArray[np.float32]]]:
    absent = cells.missing
    points, ranks = np.unique(cells.numbers[~absent], return_inverse=True)
    if len(points) + bool(absent.any()) < 2:
        return []
    codes = np.full(len(absent), np.nan, np.float32)
    codes[~absent] = ranks
    dates, whole = column.kind == "datetime", column.kind == "integer"
    return [(Feature(column.name, points=points, dates=dates, whole=whole, may_miss=bool(absent.any())), codes)]


def _by_frequency(
    name: str, codes: NDArray[np.int64], distinct: list[Any], absent: bool
) -> tuple[Feature, NDArray[np.float32]]:
    """The most frequent values first, each a code of its own; the rarer ones share the last code."""
    counts = np.bincount(codes[codes >= 0], minlength=len(distinct))
    order = sorted(range(len(distinct)), key=lambda place: (-counts[place], str(distinct[place])))
    places = np.full(len(distinct) + 1, MANY_VALUES, np.float32)
    places[order[:MANY_VALUES]] = np.arange(MANY_VALUES)
    places[-1] = np.nan  # read by code -1, the missing one
    values = tuple(distinct[place] for place in order[:MANY_VALUES])
    return Feature(name, values=values, ranked=True, may_miss=absent), places[codes]


def _is(codes: NDArray[np.int64], place: int) -> NDArray[np.float32]:
    return np.asarray(codes == place, np.float32)


def _between(low: Any, high: Any, whole: bool) -> float | int:
    """The middle of two neighbours, of whole numbers the one below it; an integer stays one, so that no digit is lost."""
    if isinstance(low, np.integer):
        return (int(low) + int(high)) // 2
    middle = float(low) / 2 + float(high) / 2
    middle = float(np.floor(middle)) if whole else middle
    return middle if low <= middle < high else float(low)


def _date_between(low: int, high: int) -> str:
    """A date in [low, high) near the middle: a whole day if there is one, else a whole second."""
    middle = (low + high) // 2
    rounded = (middle // unit * unit for unit in (DAY, SECOND))
    return time_text(next((date for date in rounded if date >= low), middle))
