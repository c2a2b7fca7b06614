"""Curves of one column: what is watched at value after value, and where it moves against the expectation.

Individual curves over a grid of values are those of Goldstein et al. (2015), Peeking inside the black box: visualizing
statistical learning with plots of individual conditional expectation; their mean is Friedman's (2001) partial dependence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from aitest_lib.reports.records_fairness import DirectionReport, DirectionStep, Stretch
from aitest_lib.stats.estimates import Estimate
from aitest_lib.stats.intervals import mean, wilson

OWN = -1  # in the place of a neighbouring value: the row as it is
MOST_STRETCHES = 10


@dataclass(frozen=True)
class Watched:
    """What is watched: the score of the class of this `code`, whether the decision is that class, or a number; it may move
    against the expectation by `tolerance`. `known`: does the model give it at all."""

    on: Literal["score", "decision", "number"]
    favorable: str | None
    tolerance: float
    code: int = -1
    known: bool = True


@dataclass(frozen=True)
class Curves:
    """The curves of n rows over k values of a column, in ascending order; arrays are (n, k), but for `place` (n,): where among
    the values the row's own stands.

    `values`: what is watched, NaN where there is no answer; `neighbour`: place of the value that each is compared with, -1 for
    the row as it is, which is the nearest one on the way to the row's own value that has an answer; `before`: what is
    watched there, NaN where there is none; `move`: how far it moves against the expectation from the lower to the upper one
    of the two values, negative where it moves with it; `against`: by more than the tolerance.
    """

    values: NDArray[np.float64]
    neighbour: NDArray[np.int64]
    before: NDArray[np.float64]
    move: NDArray[np.float64]
    against: NDArray[np.bool_]
    place: NDArray[np.float64]

    @classmethod
    def of(
        cls,
        values: NDArray[np.float64],
        own: NDArray[np.float64],
        place: NDArray[np.float64],
        upwards: bool,
        tolerance: float,
    ) -> Self:
        """`own` (n,): what is watched of the row as it is; `place` (n,): where among the k values its own stands (2.5: between
        those at 2 and 3; NaN: nowhere, then each value is compared with the one before)."""
        rows, width = values.shape
        neighbour = np.full((rows, width), OWN, np.int64)
        before = np.full((rows, width), np.nan)
        at = np.where(np.isnan(place), OWN, place)
        known = ~np.isnan(values)
        left = _last_known(known)  # the last value before each that has an answer, -1 where there is none
        right = width - 1 - _last_known(known[:, ::-1])[:, ::-1]
        for step in range(width):
            above = at < step  # the row's own value is below: its neighbour is on the left
            near = np.where(above, left[:, step], np.where(right[:, step] >= width, OWN, right[:, step]))
            beyond = np.where(above, near < at, (near > at) | (near == OWN))  # nothing between it and the row's own value
            near = np.where(beyond | (at == step), OWN, near)
            neighbour[:, step] = near
            there = values[np.arange(rows), np.maximum(near, 0)]
            # Without a place of its own a row is no neighbour of anything.
            before[:, step] = np.where(near >= 0, there, np.where(np.isnan(place), np.nan, own))
        rise = values - before
        downwards = np.arange(width) < at[:, None]  # the neighbour is the upper one of the two
        move = np.where(downwards, rise, -rise) * (1 if upwards else -1)
        with np.errstate(invalid="ignore"):
            against = np.nan_to_num(move, nan=-np.inf) > tolerance
        return cls(values, neighbour, before, move, against, place)

    def firm(
        self,
        ends: tuple[NDArray[np.float64], NDArray[np.float64]],
        own: tuple[NDArray[np.float64], NDArray[np.float64]],
        upwards: bool,
        tolerance: float,
    ) -> NDArray[np.bool_]:
        """Which moves (n, k) go against the expectation whichever of several answers is taken: `ends` are the least and the
        greatest answers (n, k), `own` those to the rows as they are (n,)."""
        rows = np.arange(len(self.values))[:, None]
        near = np.maximum(self.neighbour, 0)
        least, most = (
            np.where(self.neighbour >= 0, values[rows, near], mine[:, None]) for values, mine in zip(ends, own, strict=True)
        )
        at = np.where(np.isnan(self.place), OWN, self.place)
        falls = np.arange(self.values.shape[1]) < at[:, None]  # the neighbour is the upper one of the two
        lower = (np.where(falls, ends[0], least), np.where(falls, ends[1], most))
        upper = (np.where(falls, least, ends[0]), np.where(falls, most, ends[1]))
        with np.errstate(invalid="ignore"):
            gap = lower[0] - upper[1] if upwards else upper[0] - lower[1]
            return np.asarray(self.against & (np.nan_to_num(gap, nan=-np.inf) > tolerance))


def _last_known(known: NDArray[np.bool_]) -> NDArray[np.int64]:
    """For each place (n, k) the last one before it in its row where `known` holds, -1 where there is none."""
    places = np.where(known, np.arange(known.shape[1]), -1)
    last = np.maximum.accumulate(places, axis=1)
    return np.concatenate([np.full((len(known), 1), -1), last[:, :-1]], axis=1)


def direction_report(
    column: str,
    expected: Literal["increasing", "decreasing", "never_helps", "never_hurts"],
    watched: Watched,
    values: Sequence[Any],
    curves: Curves,
    rate: Estimate,
    confidence: float,
) -> DirectionReport:
    """The curves as a report shows them: their mean at every value, and the stretches where rows go against the expectation."""
    told = ~np.isnan(curves.values).all(axis=1)
    seen = np.where(curves.against, curves.move, 0.0)
    low, high = rate.bounds(confidence) or (None, None)
    steps = []
    upwards = expected in ("increasing", "never_hurts")
    stretches = _stretches(values, curves, watched.tolerance, upwards)
    for place, value in enumerate(values):
        cells = curves.values[told, place]
        cells = cells[~np.isnan(cells)]
        at = wilson(int(cells.sum()), len(cells)) if watched.on == "decision" else mean(cells)
        ends = at.bounds(confidence) or (None, None)
        against = stretches[place - 1].against if place else 0
        steps.append(
            DirectionStep(value=_shown(value), mean=at.value, low=ends[0], high=ends[1], rows=len(cells), against=against)
        )
    return DirectionReport(
        column=column,
        expected=expected,
        on=watched.on,
        favorable=watched.favorable,
        rows=int(told.sum()),
        violating=int(curves.against.any(axis=1).sum()),
        rate=rate.value,
        low=low,
        high=high,
        largest=float(seen.max()) if curves.against.any() else None,
        steps=steps,
        stretches=sorted((one for one in stretches if one.against), key=lambda one: -one.against * one.mean)[:MOST_STRETCHES],
    )


def _stretches(values: Sequence[Any], curves: Curves, tolerance: float, upwards: bool) -> list[Stretch]:
    """Between each value and the next: the rows that go against the expectation there, from the one to the other, or to or
    from a value of their own between the two."""
    found = []
    for at in range(len(values) - 1):
        rise = curves.values[:, at + 1] - curves.values[:, at]
        known = ~np.isnan(rise)
        falls = [np.where(known, -rise if upwards else rise, -np.inf)]
        for step, inside in (
            (at, (curves.place > at) & (curves.place <= at + 1)),
            (at + 1, (curves.place >= at) & (curves.place < at + 1)),
        ):
            own = inside & (curves.neighbour[:, step] == OWN) & ~np.isnan(curves.move[:, step])
            falls.append(np.where(own, curves.move[:, step], -np.inf))
        worst = np.max(falls, axis=0)
        bad = worst[worst > tolerance]
        found.append(
            Stretch(
                start=_shown(values[at]),
                end=_shown(values[at + 1]),
                rows=int((worst > -np.inf).sum()),
                against=len(bad),
                mean=float(bad.mean()) if len(bad) else 0.0,
                largest=float(bad.max()) if len(bad) else 0.0,
            )
        )
    return found


def _shown(value: Any) -> float | str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return float(value) if isinstance(value, int | float) else str(value)
