"""Real rows that were answered before a search for pairs, and cost it nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from aitest_lib.errors import InputError
from aitest_lib.searches.pairs.choosing import Rows, with_rows
from aitest_lib.searches.pairs.space import Codes, Numbers, Places
from aitest_lib.searches.pairs.state import NOBODY, Known, PairState, checked, checked_scores


def with_known(state: PairState, known: Known) -> PairState:
    """The state in which these rows are looked at, those that are turned as parents. What they show is not found again."""
    told = _in_order(state, known)
    space, plain = state.space, np.flatnonzero(told.place == told.own)
    state = with_rows(state, Rows(told.codes[plain], told.base[plain], np.full(len(plain), NOBODY)), len(plain))
    looked = state.looked.copy()
    row_of = {key: row for row, key in enumerate(space.keys(looked.codes, looked.base))}
    row = np.array([row_of.get(key, NOBODY) for key in space.keys(told.codes, told.base)], np.int64)
    first = np.flatnonzero((row != NOBODY) & (told.place == looked.first[row]))[::-1]  # of equal rows the first is written last
    for values in (looked.answer, looked.low, looked.high):
        values[row[first]] = told.answers[first]
    looked.scores[row[first]] = told.logs[first]
    tried = np.flatnonzero((row != NOBODY) & (told.place >= 0))
    looked.closed[row[tried], told.place[tried]] = True
    state = replace(state, looked=looked, guided=not np.isnan(told.logs).all())
    swapped = tried[told.place[tried] != looked.first[row[tried]]]
    likely = space.likely(told.codes[swapped], told.base[swapped])
    swapped = swapped[likely[np.arange(len(swapped)), told.place[swapped]]]
    turned = state.differs(looked.answer[row[swapped]], told.answers[swapped])
    often = np.bincount(told.place[swapped], turned, space.places)
    for place in np.argsort(-often, kind="stable"):  # of the combinations that turned a row the one that turned the most
        held = swapped[(told.place[swapped] == place) & ~state.looked.turned[row[swapped]]]
        held = held[np.unique(row[held], return_index=True)[1]]
        before_the_search = np.zeros(len(held), np.int64)
        state = state.swapped(row[held], told.place[held], told.answers[held], told.logs[held], before_the_search)
    return state


@dataclass(frozen=True)
class _Told:
    """Answers (m,) to rows of the pool, with their own combinations."""

    codes: Codes
    base: Numbers
    own: Places
    place: Places
    answers: NDArray[np.float64]
    logs: NDArray[np.float64]


def _in_order(state: PairState, known: Known) -> _Told:
    """What is known of rows that satisfy schema and rules, in the order of the pool, which is none of the caller's."""
    pool, places = state.space.pool, state.space.places
    answers = checked(known.answers, len(known.rows), state.classes)
    logs = checked_scores(known.scores, len(known.rows), state.classes)
    if known.places.shape != known.rows.shape or not np.isin(known.places, np.arange(-1, places)).all():
        raise InputError(f"got combinations that are none, expected one of -1 to {places - 1} for each known row")
    position = np.empty(len(pool.origin), np.int64)
    position[pool.origin] = np.arange(len(pool.origin))
    base = position[known.rows]
    order = np.lexsort((known.places, base))
    order = order[np.isin(base[order], pool.bases) & ~np.isnan(answers[order])]
    codes = pool.codes(base[order])
    own = state.space.own(codes, base[order])
    place = np.where(known.places[order] < 0, own, known.places[order])
    return _Told(codes, base[order], own, place, answers[order], logs[order])
