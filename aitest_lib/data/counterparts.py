"""Counterparts of rows: the same row with other values in some columns, and what such a row would contradict.

What is asked of a counterpart is in the end whether a person like that could stand in the data: a wife who is a man breaks no
schema, and yet no row has one. Columns that the suite declares as tied move along; of ties that the data show alone, a
counterpart is told to contradict them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from math import prod
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aitest_lib.data.schema import Column, Profile, invalid_reasons
from aitest_lib.data.table import frame_cells
from aitest_lib.data.ties import CONFIDENCE
from aitest_lib.errors import InputError

MOST_COMBINATIONS = 100  # of the values of the protected columns that are tried in one row
FEW_NUMBERS = 10  # whole numbers from the least to the largest value up to which each is a value of its own


@dataclass(frozen=True)
class Combinations:
    """Combinations of values to try: `values` (k, columns), of `every` that there are; the most frequent ones where some had to
    be left out. None in the place of a number: the row keeps its own."""

    values: pd.DataFrame
    every: int


def combined_values(
    profile: Profile,
    columns: Sequence[str],
    numbers: Mapping[str, Sequence[float]] | None = None,
    most: int = MOST_COMBINATIONS,
) -> Combinations:
    """All combinations of the values of these columns: every observed category, and of a number those given in `numbers`, or
    the row's own where it has others. Of more than `most` those whose values are the most frequent."""
    known = [_values(profile[name], (numbers or {}).get(name, ())) for name in columns]
    every = [tuple(zip(*one, strict=True)) for one in product(*(tuple(zip(*own, strict=True)) for own in known))]
    every = [one for one in every if any(value is not None for value in one[0])]
    ranked = sorted(range(len(every)), key=lambda place: -prod(every[place][1]))[:most]
    kept = sorted(ranked) if len(every) > most else range(len(every))
    cells = [every[place][0] for place in kept]
    frame = {name: pd.Series([cell[at] for cell in cells], dtype=object) for at, name in enumerate(columns)}
    return Combinations(pd.DataFrame(frame), len(every))


def _values(column: Column, numbers: Sequence[float]) -> tuple[tuple[Any, ...], tuple[float, ...]]:
    """The values of a column that are tried, and how frequent each is."""
    if column.numeric and numbers:
        found: list[Any] = [int(value) for value in numbers] if column.kind == "integer" else list(numbers)
        if (column.min, column.max) != (min(numbers), max(numbers)) or len(numbers) > FEW_NUMBERS:
            found.insert(0, None)
        return tuple(found), (1.0,) * len(found)
    if not column.values:
        raise InputError(
            f"data.protected: got {column.name} of kind {column.kind}, expected categories, true/false or numbers, to put "
            f"one in the place of another; set data.schema.{column.name}.type, or leave it out"
        )
    return column.values, tuple(map(float, column.counts))


@dataclass(frozen=True)
class Counterparts:
    """How rows get other values. `values` (k, columns): the combinations, None where a row keeps its own; `observed`: rows of
    the data, which say what goes together; `ties`: groups of columns that the data show to move together and that nobody has
    declared."""

    values: pd.DataFrame
    profile: Profile
    observed: pd.DataFrame
    ties: tuple[tuple[str, ...], ...] = ()

    def own(self, frame: pd.DataFrame) -> NDArray[np.int64]:
        """The first place (n,) in `values` that leaves each row as it is, -1 where none does."""
        names = list(self.values.columns)
        found = np.full(len(frame), -1, np.int64)
        cells = {name: np.array(frame_cells(frame[name]), dtype=object) for name in names}
        for place in range(len(self.values) - 1, -1, -1):
            same = np.ones(len(frame), bool)
            for name in names:
                value = self.values[name].iloc[place]
                same &= np.asarray(cells[name] == value) if value is not None else True
            found[same] = place
        return found

    def apply(self, frame: pd.DataFrame, places: NDArray[np.int64]) -> pd.DataFrame:
        """The rows (n) with the combinations at `places` (n,) put in; columns that are declared as tied move along."""
        values = self.values.take(places).reset_index(drop=True)
        for name in values.columns:
            kept = values[name].isna().to_numpy()
            if kept.any():
                own = np.array(frame_cells(frame[name]), dtype=object)
                values[name] = pd.Series(np.where(kept, own, values[name].to_numpy()), dtype=object)
        return with_tied_values(frame, values, self.profile)

    def tied(self, frame: pd.DataFrame, places: NDArray[np.int64]) -> pd.DataFrame:
        """The same, and the columns of `ties` move along, too: what the nearest person like that looks like."""
        changed = self.apply(frame, places)
        for group in self.ties:
            pairs = [pair for pair in self._pairs if pair.within(group)]
            good = np.logical_and.reduce([pair.holds(self.observed) for pair in pairs]) if pairs else np.zeros(0, bool)
            rows = self.observed[list(group)][good] if pairs else self.observed[list(group)]
            counted = Counter(zip(*(frame_cells(rows[name]) for name in rows), strict=True))
            changed = _moved(changed, list(self.values.columns), group, counted)
        return changed

    def likely(self, frame: pd.DataFrame, places: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which counterparts (n,) satisfy schema and rules, and contradict nothing that the data show to go together."""
        changed = self.apply(frame, places)
        good = np.array([reason is None for reason in invalid_reasons(changed, self.profile)], bool)
        for pair in self._pairs:
            good &= pair.holds(changed)
        return good

    def contradictions(self, row: pd.DataFrame) -> list[str]:
        """What the one row contradicts: `sex Female with relationship Husband`."""
        return [pair.words(row) for pair in self._pairs if not pair.holds(row)[0]]

    @cached_property
    def _pairs(self) -> list[_Pair]:
        """The pairs of tied columns of which one may be changed."""
        found = [pair for group in self.ties for pair in combinations(group, 2) if set(pair) & set(self.values.columns)]
        return [_Pair(self.observed, *pair) for pair in found]


def with_tied_values(frame: pd.DataFrame, values: pd.DataFrame, profile: Profile) -> pd.DataFrame:
    """`with_values`, and columns that the profile ties to them take the nearest combination that the data have: fewest other
    values, then the most frequent one. The same for every split of the rows."""
    changed = with_values(frame, values)
    for group in profile.tied:
        if set(group.columns) <= set(frame.columns):
            counted = dict(zip(group.values, group.counts, strict=True))
            changed = _moved(changed, list(values.columns), group.columns, counted)
    return changed


def with_values(frame: pd.DataFrame, values: pd.DataFrame) -> pd.DataFrame:
    """A copy of the rows (n) with the columns of `values` (n) in the place of theirs, in the types that they have."""
    result = frame.copy()
    for name in values.columns:
        kind: Any = frame[name].dtype
        result[name] = pd.Series(pd.array(values[name].to_list(), dtype=kind), index=frame.index, dtype=kind)
    return result


def _moved(
    frame: pd.DataFrame, changed: Sequence[str], group: Sequence[str], counted: Mapping[tuple[Any, ...], int]
) -> pd.DataFrame:
    """The rows, in which the columns of a group that were not changed take a combination that occurs with the changed ones.
    `counted`: how often each combination of the group does."""
    fixed = [at for at, name in enumerate(group) if name in changed]
    loose = [at for at, name in enumerate(group) if name not in changed]
    if not fixed or not loose:
        return frame
    known: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    for row, _ in sorted(counted.items(), key=lambda item: (-item[1], str(item[0]))):
        known.setdefault(tuple(row[at] for at in fixed), []).append(tuple(row[at] for at in loose))

    def nearest(row: tuple[Any, ...]) -> tuple[Any, ...]:
        wanted = tuple(row[at] for at in loose)
        others = known.get(tuple(row[at] for at in fixed), [])
        return min(others, key=lambda one: sum(a != b for a, b in zip(one, wanted, strict=True)), default=wanted)

    rows = list(zip(*(frame_cells(frame[name]) for name in group), strict=True))
    found = {row: nearest(row) for row in set(rows)}
    new = {group[at]: pd.Series([found[row][place] for row in rows], dtype=object) for place, at in enumerate(loose)}
    return with_values(frame, pd.DataFrame(new))


class _Pair:
    """Which values of two columns go together: neither is as good as never seen with the other."""

    def __init__(self, observed: pd.DataFrame, first: str, second: str) -> None:
        self._names = (first, second)
        self._known = [
            pd.Index(list(dict.fromkeys(map(_key, frame_cells(observed[name])))), dtype=object) for name in self._names
        ]
        rows, columns = self._codes(observed)
        table = np.zeros([len(known) for known in self._known], np.int64)
        np.add.at(table, (rows, columns), 1)
        least = np.maximum(table.sum(axis=0, keepdims=True), table.sum(axis=1, keepdims=True)) * (1 - CONFIDENCE)
        self._good = table > least

    def holds(self, frame: pd.DataFrame) -> NDArray[np.bool_]:
        """Which rows (n,) have values that go together; a value that was never seen goes with none."""
        rows, columns = self._codes(frame)
        return np.asarray((rows >= 0) & (columns >= 0) & self._good[rows, columns])

    def within(self, group: Sequence[str]) -> bool:
        """Are both columns in a group."""
        return set(self._names) <= set(group)

    def words(self, row: pd.DataFrame) -> str:
        """The two values of one row."""
        return " with ".join(f"{name} {frame_cells(row[name])[0]}" for name in self._names)

    def _codes(self, frame: pd.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        first, second = (_codes_in(known, frame[name]) for known, name in zip(self._known, self._names, strict=True))
        return first, second


def _codes_in(known: pd.Index[str], cells: pd.Series[Any]) -> NDArray[np.int64]:
    """The place of each cell (n,) among the known ones, -1 where it is none; each distinct cell is looked up once."""
    codes, distinct = pd.factorize(cells, use_na_sentinel=False)
    places = known.get_indexer(pd.Index([_key(cell) for cell in frame_cells(pd.Series(distinct))], dtype=object))
    return np.asarray(places[codes], np.int64)


def _key(cell: Any) -> str:
    """A cell as text that tells missing, numbers and words apart."""
    return f"{type(cell).__name__}:{cell}"
