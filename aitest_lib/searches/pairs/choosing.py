"""What a search for pairs asks next: other combinations of rows that it knows, and new rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from aitest_lib.searches.pairs.guides import INHERITED, Offsets, Rates, boundary
from aitest_lib.searches.pairs.space import OVERSAMPLED, TRIES, Codes, Numbers, Places
from aitest_lib.searches.pairs.state import NOBODY, Looked, PairState

STRETCH = 256  # real rows whose keys are looked up at once


def promising(state: PairState, most: int, least: float, rng: np.random.Generator) -> tuple[Numbers, Places]:
    """At most so many rows of `looked` (m,) with a combination (m,) that each is to be asked with next, the best chances first
    and none below `least`."""
    rows = np.flatnonzero(state.looked.open)
    if not len(rows) or most <= 0:
        return rows[:0], rows[:0]
    chances = chances_of(state, rows)
    chances += 1e-9 * rng.random(chances.shape)  # equals in any order, but the same one whenever it is asked
    chances[state.looked.closed[rows]] = -1
    place = chances.argmax(axis=1)
    best = chances[np.arange(len(rows)), place]
    chosen = np.argsort(-best, kind="stable")[:most]
    chosen = chosen[best[chosen] >= least]
    return rows[chosen], place[chosen]


def chances_of(state: PairState, rows: Numbers) -> NDArray[np.float64]:
    """The chance (m, places) of each combination to turn the answers to these rows."""
    looked, places = state.looked, state.space.places
    inherited = looked.inherited(rows)
    group = state.groups(rows)
    if not state.guided:
        return Rates(state.swaps, max(state.classes, 1), places).chances(group, looked.tries[rows], inherited)
    offsets = Offsets(state.swaps, places, state.classes)
    extra = np.zeros((len(rows), places, state.classes))
    which, place = np.nonzero(inherited)
    if len(which):
        parent = looked.parent[rows[which]]
        straight = looked.pair[parent, 1] == place
        peculiar = offsets.peculiar(looked.pair[parent, 0], looked.pair[parent, 1], looked.change[parent])
        extra[which, place] = INHERITED * np.where(straight, 1, -1)[:, None] * np.nan_to_num(peculiar)
    scores = looked.scores[rows]
    if state.classes == 2:
        scores[:, 1] -= boundary(looked.scores, looked.answer)
    return offsets.chances(looked.first[rows], group, scores, extra)


def with_fresh(state: PairState, most: int) -> PairState:
    """The state after as many real rows that nobody has looked at are added to `looked`."""
    pool, keys, kept = state.space.pool, set(state.keys), list[int]()
    at = state.fresh
    while len(kept) < most and at < len(pool.bases):
        base = pool.bases[at : at + STRETCH]
        for row, key in zip(base.tolist(), state.space.keys(pool.codes(base), base), strict=True):
            if len(kept) == most:
                break
            at += 1
            if key not in keys:
                keys.add(key)
                kept.append(row)
    base = np.array(kept, np.int64)
    return with_rows(replace(state, fresh=at), Rows(pool.codes(base), base, np.full(len(base), NOBODY)), most)


def with_bred(state: PairState, most: int, rng: np.random.Generator) -> PairState:
    """The state after as many children are added: of rows that were turned, else of real ones.

    A parent is drawn among the real rows that some turned row descends from, then among its descendants, so that no family
    outgrows the others. Children that contradict what goes together are dropped.
    """
    for _ in range(TRIES):
        if most <= 0:
            break
        draws = int(OVERSAMPLED * most) + 1
        pool, turned = state.space.pool, np.flatnonzero(state.looked.turned)
        if len(turned):
            first, second = (turned[one] for one in by_family(state.looked.base[turned], draws, rng))
            codes, base = (state.looked.codes[first], state.looked.codes[second]), state.looked.base[first]
        else:
            base, other = rng.choice(pool.bases, (2, draws))
            codes, first = (pool.codes(base), pool.codes(other)), np.full(draws, NOBODY)
        made, good = state.space.children(*codes, base, rng)
        before = len(state.looked.base)
        state = with_rows(state, Rows(made[good], base[good], first[good]), most, made=True)
        most -= len(state.looked.base) - before
    return state


def by_family(family: Numbers, draws: int, rng: np.random.Generator) -> tuple[Numbers, Numbers]:
    """Two members (draws,) each: a family at random, then one of it at random."""
    order = np.argsort(family, kind="stable")
    _, starts, sizes = np.unique(family[order], return_index=True, return_counts=True)
    chosen = rng.integers(len(starts), size=(2, draws))
    member = starts[chosen] + (rng.random((2, draws)) * sizes[chosen]).astype(np.int64)
    first, second = order[member]
    return first, second


@dataclass(frozen=True)
class Rows:
    """Rows that may be looked at: `codes` (m, units), the rows `base` (m,) of the pool that they descend from, and `parent`
    (m,) in `looked`."""

    codes: Codes
    base: Numbers
    parent: Numbers


def with_rows(state: PairState, rows: Rows, most: int, *, made: bool = False) -> PairState:
    """The state with the first `most` of these rows that no row looked at equals but for protected columns. Of rows that
    are `made`, those that contradict what goes together are left out."""
    space, keys = state.space, set(state.keys)
    own, likely = space.own(rows.codes, rows.base), space.likely(rows.codes, rows.base)
    good = (own < 0) | likely[np.arange(len(own)), own] if made else np.ones(len(own), bool)
    kept: list[int] = []
    for place, key in enumerate(space.keys(rows.codes, rows.base)):
        if good[place] and key not in keys and len(kept) < most:
            keys.add(key)
            kept.append(place)
    at = np.array(kept, np.int64)
    new = Looked.new(rows.codes[at], rows.base[at], rows.parent[at], own[at], ~likely[at], state.classes)
    return replace(state, keys=frozenset(keys), looked=state.looked + new)
