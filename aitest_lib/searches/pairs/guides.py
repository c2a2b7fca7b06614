"""Which combination of protected values is the most likely to turn the answer to a row, learned from the answers so far."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

import numpy as np
from numpy.typing import NDArray

from aitest_lib.searches.pairs.space import Numbers, Places

Scores = NDArray[np.float64]
FLOOR = 1e-6  # a score below it is as good as none
DIGITS = 6  # of a logarithm; further ones may hang on the batch in which the model answered
PRIOR = 0.3  # rows that say that a combination makes no difference
SPREAD = 0.5  # of the effect of a combination from row to row, in logarithms of scores, before there are answers,
SPREAD_ROWS = 5  # as if so many rows had said so
INHERITED = 0.7  # of what was peculiar about a parent's response that its child has
LOGISTIC = 1.702  # makes the logistic curve follow the normal one
RATE_ROWS = 4  # rows that say that a combination turns as many answers as others do


@dataclass(frozen=True)
class Swaps:
    """Counterparts that were asked: of the row `row` (t,), first asked with combination `start`, now with `end`. `change`
    (t, classes): of the logarithms of the scores, NaN where there are none; `turned`; `group`: class of the first answer;
    `after`: how many were asked of the row before; `inherited`: the parent of the row was turned between the same two."""

    row: Numbers
    start: Places
    end: Places
    turned: NDArray[np.bool_]
    group: Numbers
    after: Numbers
    inherited: NDArray[np.bool_]
    change: Scores

    @classmethod
    def none(cls, classes: int) -> Self:
        """Before the first."""
        numbers, truths = np.empty(0, np.int64), np.empty(0, bool)
        return cls(numbers, numbers, numbers, truths, numbers, numbers, truths, np.empty((0, classes)))

    def __add__(self, other: Self) -> Self:
        return type(self)(*(np.concatenate([getattr(self, f.name), getattr(other, f.name)]) for f in fields(self)))


def logarithms(scores: NDArray[np.float64]) -> Scores:
    """Logarithms of scores (m, classes), as comparable ones as a model's scores are."""
    return np.log(np.maximum(scores, FLOOR)).round(DIGITS).astype(np.float64)


def boundary(scores: Scores, answers: NDArray[np.float64]) -> float:
    """The lead of the second of two classes, in log scores (m, 2), from which it is answered (m,): 0 unless another value
    explains more of the answers, as where a card sets a threshold. NaN are left out."""
    lead = scores[:, 1] - scores[:, 0]
    known = ~np.isnan(lead) & ~np.isnan(answers)
    order = np.argsort(lead[known], kind="stable")
    lead, second = lead[known][order], answers[known][order] == 1
    wrong = np.concatenate([[0], np.cumsum(second)]) + np.concatenate([np.cumsum(~second[::-1])[::-1], [0]])
    wrong[1:-1][lead[1:] == lead[:-1]] = len(lead) + 1  # no cut between equals
    if not len(lead) or wrong[np.searchsorted(lead, 0)] <= wrong.min():
        return 0.0
    cut = int(wrong.argmin())
    return float((lead[max(cut - 1, 0)] + lead[min(cut, len(lead) - 1)]) / 2)


class Offsets:
    """By scores: log score of class c = what the row is + what its combination adds, by least squares with a weak prior.

    The chance of a turn is that of a normal deviate: the predicted lead of the present class over its rival, as a multiple
    of how far such predictions have been off. A combination that has hardly been tried is the less sure, so that it is tried.
    """

    def __init__(self, swaps: Swaps, places: int, classes: int) -> None:
        design = PRIOR * np.eye(places)
        told = np.zeros((places, classes))
        known = (swaps.start >= 0) & ~np.isnan(swaps.change).any(axis=1)
        start, end, change = swaps.start[known], swaps.end[known], swaps.change[known]
        for left, right, sign in ((start, start, 1), (end, end, 1), (start, end, -1), (end, start, -1)):
            np.add.at(design, (left, right), sign)
        np.add.at(told, end, change)
        np.add.at(told, start, -change)
        inverse = np.linalg.inv(design)
        self.offsets = inverse @ told
        self._doubt = np.diag(inverse)[:, None] + np.diag(inverse)[None, :] - 2 * inverse
        error = change - (self.offsets[end] - self.offsets[start])
        lead = error - error.mean(axis=1, keepdims=True)
        squares = 2 * (lead**2).sum(axis=1)
        self._spread = float(np.sqrt((squares.sum() + SPREAD_ROWS * SPREAD**2) / (len(squares) + SPREAD_ROWS)))

    def peculiar(self, start: Places, end: Places, change: Scores) -> Scores:
        """By how much a row responded otherwise than others do."""
        return np.asarray(change - (self.offsets[end] - np.where(start[:, None] >= 0, self.offsets[start], 0)))

    def chances(self, start: Places, group: Numbers, scores: Scores, extra: NDArray[np.float64]) -> NDArray[np.float64]:
        """The chance (m, places) of each combination to turn a row that has `scores` (m, classes) with `start`; `extra`
        (m, places, classes) is what is known beyond the offsets."""
        before = np.where(start[:, None] >= 0, self.offsets[start], 0)
        after = (scores - before)[:, None, :] + self.offsets[None] + extra
        rows = np.arange(len(start))
        present = after[rows, :, group].copy()
        after[rows, :, group] = -np.inf
        lead = present - after.max(axis=2)
        doubt = np.where(start[:, None] >= 0, self._doubt[start], 0)
        deviate = lead / (self._spread * np.sqrt(1 + doubt))
        chance: NDArray[np.float64] = 1 / (1 + np.exp(np.clip(LOGISTIC * deviate, -50, 50)))
        return np.nan_to_num(chance, nan=0.0)


class Rates:
    """By labels alone: how often a combination has turned rows of the same class, which is less the more others have failed
    before it; what turned a parent is told apart."""

    def __init__(self, swaps: Swaps, groups: int, places: int) -> None:
        anew = ~swaps.inherited
        overall = (swaps.turned[anew].sum() + 1) / (anew.sum() + 2)
        tried, turned = np.zeros((groups, places)), np.zeros((groups, places))
        np.add.at(tried, (swaps.group[anew], swaps.end[anew]), 1)
        np.add.at(turned, (swaps.group[anew], swaps.end[anew]), swaps.turned[anew])
        self._rate = (turned + RATE_ROWS * overall) / (tried + RATE_ROWS)
        after = np.minimum(swaps.after[anew], places)
        tries = np.bincount(after, minlength=places + 1)
        hits = np.bincount(after, swaps.turned[anew], minlength=places + 1)
        self._fading = (hits + RATE_ROWS * overall) / (tries + RATE_ROWS) / overall
        self._inherited = (swaps.turned[~anew].sum() + 1) / ((~anew).sum() + 1)

    def chances(self, group: Numbers, after: Numbers, inherited: NDArray[np.bool_]) -> NDArray[np.float64]:
        """The chance (m, places) of each combination to turn a row of class `group` (m,) when so many have failed; `inherited`
        (m, places): it turned the row's parent."""
        anew = self._rate[group] * self._fading[np.minimum(after, len(self._fading) - 1)][:, None]
        return np.asarray(np.minimum(np.where(inherited, self._inherited, anew), 1.0))
