"""How far a search for pairs is: the rows it has looked at, the counterparts asked, and the rows that wait for an answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from aitest_lib.errors import InputError
from aitest_lib.searches.pairs.guides import Swaps, logarithms
from aitest_lib.searches.pairs.space import Codes, Numbers, Places, Space

Differs = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.bool_]]
NOBODY = -1  # in the place of a parent


@dataclass(frozen=True)
class Known:
    """Answers to real rows: `rows` (m,) positions in the frame that the search is given, with the combinations `places` (m,)
    put in (-1: as they are), `answers` (m,) and `scores` (m, classes) as for `PairSearch.tell`. A row counts only if it is
    answered as it is."""

    rows: Numbers
    places: Places
    answers: NDArray[np.float64]
    scores: NDArray[np.float64] | None = None


@dataclass(frozen=True, kw_only=True)
class Looked:
    """The rows (n) that were looked at, each with the first combination that it was asked with.

    `codes` (n, units) and `base` (n,): what it is, in the pool; `parent` (n,): a row of this table that it resembles;
    `first` (n,): the combination first asked, with `answer` (n,) and `scores` (n, classes), logarithms; NaN: none.
    `low`, `high` (n,): least and greatest answer so far, at the combinations `low_at`, `high_at`; `closed` (n, places):
    asked, or not to be asked; `tries` (n,): counterparts asked. Where `turned` (n,), the combinations
    `pair` (n, 2) are decided differently, as query `found` (n,) told, 0: as was known before, and `change` (n, classes) is
    that of the scores from one to the other.
    """

    codes: Codes
    base: Numbers
    parent: Numbers
    first: Places
    answer: NDArray[np.float64]
    scores: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    low_at: Places
    high_at: Places
    closed: NDArray[np.bool_]
    tries: Numbers
    turned: NDArray[np.bool_]
    pair: Places
    found: Numbers
    change: NDArray[np.float64]

    @classmethod
    def new(cls, codes: Codes, base: Numbers, parent: Numbers, first: Places, closed: NDArray[np.bool_], classes: int) -> Self:
        """Rows that nobody has answered yet."""
        rows = len(base)
        nothing = np.full(rows, np.nan)
        closed = closed.copy()
        closed[np.flatnonzero(first >= 0), first[first >= 0]] = True
        return cls(
            codes=codes,
            base=base,
            parent=parent,
            first=first,
            answer=nothing,
            scores=np.full((rows, classes), np.nan),
            low=nothing,
            high=nothing,
            low_at=first,
            high_at=first,
            closed=closed,
            tries=np.zeros(rows, np.int64),
            turned=np.zeros(rows, bool),
            pair=np.full((rows, 2), -1, np.int64),
            found=np.zeros(rows, np.int64),
            change=np.full((rows, classes), np.nan),
        )

    def __add__(self, other: Self) -> Self:
        return replace(self, **{f.name: np.concatenate([getattr(self, f.name), getattr(other, f.name)]) for f in fields(self)})

    def copy(self) -> Self:
        """One whose arrays may be written to."""
        return replace(self, **{f.name: getattr(self, f.name).copy() for f in fields(self)})

    @property
    def open(self) -> NDArray[np.bool_]:
        """Which rows are answered and may still become a pair (n,)."""
        return ~np.isnan(self.answer) & ~self.turned & ~self.closed.all(axis=1)

    def inherited(self, rows: Numbers) -> NDArray[np.bool_]:
        """Which combinations (m, places) turned the parents of these rows (m,), asked first with the same one or with it."""
        found = np.zeros((len(rows), self.closed.shape[1]), bool)
        parent = self.parent[rows]
        for one, other in ((0, 1), (1, 0)):
            end = self.pair[parent, other]
            like = (parent != NOBODY) & self.turned[parent] & (self.pair[parent, one] == self.first[rows]) & (end >= 0)
            found[np.flatnonzero(like), end[like]] = True
        return found


@dataclass(frozen=True, kw_only=True)
class PairState:
    """A function of what was given to `start` and of all answers since.

    `classes`: number of them, 0 of a regressor; `differs`: what counts as decided differently; `guided`: scores came with the
    answers; `keys`: of all rows looked at, those in `looked`; `fresh`: how many real rows, in the order of the pool's bases,
    have had their turn; `rounds`: batches so far. The rows `asked` wait for answers: `asked_row` (m,) in `looked`, with
    the combination `asked_place` (m,); of the last `asked_new` it is the first answer.
    """

    space: Space
    classes: int
    differs: Differs
    random_seed: int
    looked: Looked
    swaps: Swaps
    keys: frozenset[bytes]
    guided: bool = False
    fresh: int = 0
    queries: int = 0
    rounds: int = 0
    asked: pd.DataFrame
    asked_row: Numbers
    asked_place: Places
    asked_new: int = 0

    @property
    def done(self) -> bool:
        """Is there nothing left to ask."""
        return not len(self.asked)

    def groups(self, rows: Numbers) -> Numbers:
        """The class (m,) of each of these rows of `looked`, as first answered; 0 of a regressor."""
        if not self.classes:
            return np.zeros(len(rows), np.int64)
        return np.nan_to_num(self.looked.answer[rows]).astype(np.int64)

    def told(self, answers: ArrayLike, scores: ArrayLike | None) -> PairState:
        """The state in which the asked rows are answered; see `PairSearch.tell`."""
        given = checked(answers, len(self.asked), self.classes)
        logs = checked_scores(scores, len(given), self.classes)
        new = np.arange(len(given)) >= len(given) - self.asked_new
        looked = self.looked.copy()
        looked.answer[self.asked_row[new]] = given[new]
        looked.low[self.asked_row[new]] = looked.high[self.asked_row[new]] = given[new]
        looked.scores[self.asked_row[new]] = logs[new]
        before = replace(self, looked=looked, guided=self.guided or not np.isnan(logs).all())
        number = self.queries + 1 + np.flatnonzero(~new)
        swapped = before.swapped(self.asked_row[~new], self.asked_place[~new], given[~new], logs[~new], number)
        return replace(
            swapped,
            queries=self.queries + len(given),
            asked=self.asked.iloc[:0],
            asked_row=self.asked_row[:0],
            asked_place=self.asked_place[:0],
            asked_new=0,
        )

    def swapped(
        self, row: Numbers, place: Places, answers: NDArray[np.float64], logs: NDArray[np.float64], number: Numbers
    ) -> PairState:
        """The state after counterparts of rows in `looked`, each row once, were answered as the queries of this `number`."""
        looked = self.looked.copy()
        usable = ~np.isnan(answers) & ~np.isnan(looked.answer[row])
        row, place, number = row[usable], place[usable], number[usable]
        answers, logs = answers[usable], logs[usable]
        above, below = (self.differs(looked.low[row], answers), self.differs(looked.high[row], answers))
        turned = above | below
        swaps = self.swaps + Swaps(
            row=row,
            start=looked.first[row],
            end=place,
            turned=turned,
            group=self.groups(row),
            after=looked.tries[row],
            inherited=looked.inherited(row)[np.arange(len(row)), place],
            change=logs - looked.scores[row],
        )
        looked.tries[row] += 1
        hit = row[turned]
        looked.turned[hit] = True
        looked.found[hit] = number[turned]
        looked.change[hit] = (logs - looked.scores[row])[turned]
        looked.pair[hit, 0] = np.where(above, looked.low_at[row], looked.high_at[row])[turned]
        looked.pair[hit, 1] = place[turned]
        least, greatest = answers < looked.low[row], answers > looked.high[row]
        looked.low[row[least]] = answers[least]
        looked.low_at[row[least]] = place[least]
        looked.high[row[greatest]] = answers[greatest]
        looked.high_at[row[greatest]] = place[greatest]
        return replace(self, looked=looked, swaps=swaps)


def checked(answers: ArrayLike, rows: int, classes: int) -> NDArray[np.float64]:
    """The answers as float64 (rows,), NaN where there is none; an `InputError` where they are not what they should be."""
    given = np.asarray(answers, np.float64)
    if given.shape != (rows,):
        raise InputError(f"got answers of shape {given.shape}, expected ({rows},), one for each row asked")
    usable = given[~np.isnan(given)]
    if not np.isfinite(usable).all():
        raise InputError("got an infinite answer, expected finite numbers, or NaN where there is none")
    if classes and not np.isin(usable, np.arange(classes)).all():
        raise InputError(f"got an answer that is no class code, expected 0 to {classes - 1}, or NaN where there is none")
    return given


def checked_scores(scores: ArrayLike | None, rows: int, classes: int) -> NDArray[np.float64]:
    """Logarithms of the scores (rows, classes), NaN where there are none; an `InputError` where the shape is another."""
    if scores is None or not classes:
        return np.full((rows, classes), np.nan)
    given = np.asarray(scores, np.float64)
    if given.shape != (rows, classes):
        raise InputError(f"got scores of shape {given.shape}, expected ({rows}, {classes}), one for each row and class")
    return logarithms(given)
