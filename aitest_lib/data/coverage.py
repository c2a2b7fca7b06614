"""Rows for every path of a surrogate: those that reach a leaf, then others moved onto its path.

A row is moved by giving the units that offend against the path another combination that satisfies it: an observed one, and of
a single column also one that the schema allows. A path that no row can take is named, with what stands against it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aitest_lib.component import Component
from aitest_lib.data.schema import Column, is_valid
from aitest_lib.data.synthesis import Rows
from aitest_lib.data.units import Pool, Unit
from aitest_lib.errors import InputError
from aitest_lib.rng import rng_for

BLOCK = 64  # rows of one leaf that share a stream
NEAREST = 4_096  # rows of other leaves that are looked at
CHOICES = 256  # combinations that a leaf keeps of a unit to choose from
TRIES = 8  # of a row with other values for what offends
WIDE_TRIES = 8  # and with other values for what the rules are about, too
SEARCHED = 8  # blocks that are tried before a path counts as infeasible


class Question(Protocol):
    """What a decision node asks, as `surrogates.tree.Test` does; hashable."""

    @property
    def column(self) -> str:
        """The column it is about."""

    @property
    def at_most(self) -> float | str | None:
        """The threshold, if it has one."""

    def holds(self, frame: pd.DataFrame) -> NDArray[np.bool_]:
        """The answer of each row (n,)."""

    def words(self, holds: bool = True) -> str:
        """The question, or its negation, as a condition."""


Path = Sequence[tuple[Question, bool]]


@dataclass(frozen=True)
class LeafCover:
    """A leaf: its path in words, how many rows of the pool reach it, and why none can (None: some can)."""

    leaf: int
    path: str
    real: int
    infeasible: str | None = None


@dataclass(frozen=True, kw_only=True)
class Coverage(Component):
    """The same number of rows for every leaf that a row can reach, in turn; real ones first."""

    name: ClassVar[str] = "coverage"

    def over(self, pool: Pool, paths: Mapping[int, Path]) -> CoverageRows:
        """The rows made of `pool`; `paths`: of every leaf its questions with their answers.

        Raises `InputError` where no path is feasible.
        """
        return CoverageRows(pool, paths, self.key)


class CoverageRows(Rows):
    """The rows of `Coverage`; `leaves`: what it found out about each leaf, in the order of `paths`."""

    def __init__(self, pool: Pool, paths: Mapping[int, Path], key: str) -> None:
        asked = [question for path in paths.values() for question, _ in path]
        self.pool = _extended(pool, asked)
        answers = _Answers(self.pool)
        self.leaves: list[LeafCover] = []
        self._leaves: list[_Leaf] = []
        for leaf, path in paths.items():
            found = _Leaf(self.pool, path, answers, f"{key}:{leaf}")
            self.leaves.append(LeafCover(leaf, _words(path), found.real, found.infeasible))
            if found.infeasible is None:
                self._leaves.append(found)
        if not self._leaves:
            raise InputError(f"data.synthesize: no path of the surrogate can be taken; the first: {self.leaves[0].infeasible}")

    def codes(self, start: int, rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        lap = len(self._leaves) * BLOCK  # rows for which every leaf gives one block, in turn
        first = start // lap
        laps = [self._lap(number) for number in range(first, -(-(start + rows) // lap))]
        codes, base = (np.concatenate(parts) for parts in zip(*laps, strict=True))
        inside = slice(start - first * lap, start - first * lap + rows)
        return codes[inside], base[inside]

    def _lap(self, number: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        blocks = [leaf.block(number) for leaf in self._leaves]
        codes = np.stack([codes for codes, _ in blocks], axis=1)
        return codes.reshape(-1, codes.shape[-1]), np.stack([base for _, base in blocks], axis=1).reshape(-1)


class _Answers:
    """Whether combinations satisfy questions; every question is asked once."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._unit_of = {name: place for place, unit in enumerate(pool.units) for name in unit.columns}
        self._known: dict[Question, NDArray[np.bool_]] = {}

    def unit(self, question: Question) -> int | None:
        """The place of the unit that the question is about; None: of none that may change."""
        return self._unit_of.get(question.column)

    def __call__(self, question: Question) -> NDArray[np.bool_]:
        """The answer of every combination of that unit, or of every row where it may not change."""
        if question not in self._known:
            place = self.unit(question)
            self._known[question] = question.holds(self._pool.frame if place is None else self._pool.units[place].table)
        return self._known[question]


class _Leaf:
    """The rows of one leaf."""

    def __init__(self, pool: Pool, path: Path, answers: _Answers, key: str) -> None:
        self._pool, self._key = pool, key
        self._fitting = [unit.allowed.copy() for unit in pool.units]  # by unit: combinations that keep to the path
        asked = set()
        possible = np.ones(len(pool.frame), bool)
        for question, answer in path:
            place = answers.unit(question)
            if place is None:
                possible &= answers(question) == answer
            else:
                self._fitting[place] &= answers(question) == answer
                asked.add(place)
        bases = pool.bases[possible[pool.bases]]
        on_path = np.ones(len(bases), bool)
        for place in asked:
            on_path &= self._fitting[place][pool.units[place].codes[bases]]
        self.real = int(on_path.sum())
        self.infeasible = None if len(bases) else self._immovable(path, answers)
        self.infeasible = self.infeasible or self._contradiction(path, answers)
        if self.infeasible is not None:
            return
        others = bases[~on_path][:NEAREST]
        offending = self._offending(pool.codes(others)).sum(axis=1)
        self._bases = np.concatenate([bases[on_path], others[np.argsort(offending, kind="stable")]])
        ruled = {name for rule in pool.rules for name in rule.columns}
        self._ruled = np.array([bool(ruled & set(unit.columns)) for unit in pool.units])
        movable = asked | set(np.flatnonzero(self._ruled))
        self._choices = {place: _Choices(pool.units[place], self._fitting[place], pool.bases) for place in sorted(movable)}
        self._spare, self.infeasible = self._first()

    def block(self, number: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The codes (BLOCK, units) and bases (BLOCK,) of rows of this leaf."""
        codes, base, good = self._tried(number)
        if self._spare is not None:
            codes[~good], base[~good] = self._spare
        return codes, base

    def _first(self) -> tuple[tuple[NDArray[np.int64], int] | None, str | None]:
        """A row that is sure to be on the path, or what stands against it."""
        broken: Counter[str] = Counter()
        for number in range(SEARCHED):
            codes, base, good = self._tried(number)
            if good.any():
                place = int(good.argmax())
                return (codes[place], int(base[place])), None
            frame = self._pool.rows(codes, base)
            broken.update({f"rule {rule.text}": int((~rule.holds(frame)).sum()) for rule in self._pool.rules})
        if not broken.total():
            return None, "no row was found whose columns that may not change go with it"
        return None, f"no row was found that satisfies {broken.most_common(1)[0][0]}"

    def _tried(self, number: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        rng = rng_for(self._pool.random_seed, self._key, f"block {number}")
        base = self._bases[np.arange(number * BLOCK, (number + 1) * BLOCK) % len(self._bases)]
        before = self._pool.codes(base)
        after, good = before.copy(), np.zeros(BLOCK, bool)
        offending = self._offending(before)
        for attempt in range(TRIES + WIDE_TRIES):
            rows = np.flatnonzero(~good)
            if not len(rows):
                break
            moved = offending[rows] | (self._ruled & (attempt >= TRIES))
            uniform = rng.random(moved.shape)
            for place, choices in self._choices.items():
                chosen = choices.draw(before[rows, place], uniform[:, place])
                after[rows, place] = np.where(moved[:, place], chosen, before[rows, place])
            good[rows] = ~self._offending(after[rows]).any(axis=1) & self._pool.holds(after[rows], base[rows])
        return after, base, good

    def _offending(self, codes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which units of rows (m, units) leave the path."""
        return np.stack([~fitting[codes[:, place]] for place, fitting in enumerate(self._fitting)], axis=1)

    def _immovable(self, path: Path, answers: _Answers) -> str:
        told = _words([(question, answer) for question, answer in path if answers.unit(question) is None])
        return f"no row has {told}, and what it is about may not change"

    def _contradiction(self, path: Path, answers: _Answers) -> str | None:
        for place, (unit, fitting) in enumerate(zip(self._pool.units, self._fitting, strict=True)):
            if not fitting.any():
                told = _words([(question, answer) for question, answer in path if answers.unit(question) == place])
                if len(unit.columns) > 1:
                    return f"no observed combination of {', '.join(unit.columns)}, which move together, has {told}"
                return f"no value that schema and rules allow has {told}"
        return None


class _Choices:
    """Combinations of a unit that keep to a path, as often as rows have them; where no row has one, those that are allowed."""

    def __init__(self, unit: Unit, fitting: NDArray[np.bool_], bases: NDArray[np.int64]) -> None:
        codes = unit.codes[bases]
        codes = codes[fitting[codes]]
        if not len(codes):
            codes = np.flatnonzero(fitting)
        if not unit.held.any():
            codes = codes[:CHOICES]  # the bases are shuffled
        self._held = unit.held
        self._codes = codes[np.argsort(unit.held[codes], kind="stable")]
        self._counts = np.bincount(unit.held[codes], minlength=int(unit.held.max()) + 1)
        self._starts = np.cumsum(self._counts) - self._counts

    def draw(self, codes: NDArray[np.int64], uniform: NDArray[np.float64]) -> NDArray[np.int64]:
        """One (m,) in place of each of `codes` (m,), by a number in [0, 1); the same where what may not change leaves none."""
        held = self._held[codes]
        count = self._counts[held]
        place = np.minimum(self._starts[held] + (uniform * count).astype(np.int64), len(self._codes) - 1)
        return np.where(count > 0, self._codes[place], codes)


def _words(conditions: Path) -> str:
    return " and ".join(question.words(answer) for question, answer in conditions) or "anything"


def _extended(pool: Pool, asked: Sequence[Question]) -> Pool:
    """The pool with values that no row has, but the schema allows, at the end of the tables of single columns."""
    thresholds: dict[str, set[float]] = {}
    for question in asked:
        if question.at_most is not None and not isinstance(question.at_most, str):
            thresholds.setdefault(question.column, set()).add(float(question.at_most))
    units = []
    for unit in pool.units:
        column = pool.profile[unit.columns[0]]
        extra = _unseen(column, unit.table[column.name], thresholds.get(column.name, set())) if len(unit.columns) == 1 else []
        if extra:
            table = pd.concat([unit.table, pd.DataFrame({column.name: pd.Series(extra, dtype=unit.table.dtypes.iloc[0])})])
            table = table.set_axis(pd.RangeIndex(len(table)), axis=0)
            allowed = is_valid(table, pool.profile)
            unit = Unit(table, unit.codes, allowed, np.zeros(len(table), np.int64))
        units.append(unit)
    return replace(pool, units=tuple(units))


def _unseen(column: Column, values: pd.Series[Any], thresholds: set[float]) -> list[Any]:
    """Values that make every satisfiable set of questions about one column satisfiable by a value that is in its table.

    Numbers that satisfy a set fill an interval that is closed on the right: its end is a threshold or the largest allowed.
    """
    if column.numeric:
        ends = thresholds | {end for end in (column.max,) if end is not None}
        wanted: list[Any] = sorted({float(np.floor(end)) if column.kind == "integer" else end for end in ends})
    else:
        wanted = list(column.allowed or ())
    seen = set(values.dropna())
    extra = [value for value in wanted if value not in seen]
    if column.missing and not values.isna().any() and values.dtype.kind in "fO":
        extra.append(None)
    return extra
