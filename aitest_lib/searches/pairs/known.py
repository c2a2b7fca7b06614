"""Real rows that were answered before a search for pairs, and cost it nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from aitest_lib.errors import InputError
from aitest_lib.searches.pairs.choosing import Rows, with_rows
from aitest_lib.searches.pairs.state import NOBODY, Known, PairState, checked, checked_scores


def with_known(state: PairState, known: Known) -> PairState:
    """The state in which these rows are looked at, those that are turned as parents. What they show is not found again."""
    pool, space = state.space.pool, state.space
    answers = checked(known.answers, len(known.rows), state.classes)
    logs = checked_scores(known.scores, len(known.rows), state.classes)
    if len(known.places) != len(known.rows) or not np.isin(known.places, np.arange(-1, space.places)).all():
        raise InputError(f"got combinations that are none, expected one of -1 to {space.places - 1} for each known row")
    position = np.empty(len(pool.origin), np.int64)
    position[pool.origin] = np.arange(len(pool.origin))
    order = np.lexsort((known.places, position[known.rows]))
    order = order[np.isin(position[known.rows[order]], pool.bases) & ~np.isnan(answers[order])]
    base, place, answers, logs = position[known.rows[order]], known.places[order], answers[order], logs[order]
    codes = pool.codes(base)
    own = space.own(codes, base)
    place = np.where(place < 0, own, place)
    untouched = np.flatnonzero(place == own)
    rows = Rows(codes[untouched], base[untouched], np.full(len(untouched), NOBODY))
    state = with_rows(state, rows, len(untouched))
    looked = state.looked.copy()
    row_of = {key: row for row, key in enumerate(space.keys(looked.codes, looked.base))}
    row = np.array([row_of.get(key, -1) for key in space.keys(codes, base)], np.int64)
    first = np.flatnonzero((row >= 0) & (place == looked.first[row]))[::-1]  # of equal rows the first one is the last written
    for values in (looked.answer, looked.low, looked.high):
        values[row[first]] = answers[first]
    looked.scores[row[first]] = logs[first]
    tried = np.flatnonzero((row >= 0) & (place >= 0))
    looked.closed[row[tried], place[tried]] = True
    state = replace(state, looked=looked, guided=not np.isnan(logs).all())
    swapped = tried[place[tried] != looked.first[row[tried]]]
    swapped = swapped[space.likely(codes[swapped], base[swapped])[np.arange(len(swapped)), place[swapped]]]
    for one in range(space.places):
        held = swapped[(place[swapped] == one) & ~state.looked.turned[row[swapped]]]
        held = held[np.unique(row[held], return_index=True)[1]]
        state = state.swapped(row[held], place[held], answers[held], logs[held], np.zeros(len(held), np.int64))
    return state
