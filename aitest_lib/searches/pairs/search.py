"""The search for pairs of rows that are equal but for protected columns, and are decided differently.

First real rows are asked, then children of rows that were found. Each is asked once, and then with one other combination of
protected values after the other, the one that promises most first, until one is decided differently. After each answer the
queries that are left go where they promise most: to another combination of a row that is known, or to a new row.

That discriminatory rows breed discriminatory rows is the idea of Aequitas (Udeshi, Arora & Chattopadhyay 2018, Automated
directed fairness testing) and ExpGA (Fan et al. 2022, Explanation-guided fairness testing through genetic algorithm). What
differs: all values and what goes together in them come from real rows, and rows are not asked with every combination.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from aitest_lib.component import Component
from aitest_lib.data.counterparts import Counterparts
from aitest_lib.data.schema import Profile
from aitest_lib.rng import rng_for
from aitest_lib.searches.pairs.choosing import promising, with_bred, with_fresh
from aitest_lib.searches.pairs.guides import Swaps
from aitest_lib.searches.pairs.known import with_known
from aitest_lib.searches.pairs.space import Numbers, Places, build_space
from aitest_lib.searches.pairs.state import Differs, Known, Looked, PairState

ROUNDS = 32  # that the queries are spread over, if there is enough to ask,
LEAST_BATCH = 50  # but no round asks fewer
MOST_ROUNDS = 60
SEEDED = 0.1  # of the queries go to real rows first, where scores tell which of them are near the boundary
FRESH = 0.1  # of the new rows are real ones, later too, so that what is found spreads
LEAST_CHANCE = 0.02  # below it a combination is not asked while there is anything else


@dataclass(frozen=True)
class Pairs:
    """What was found, in the order of the queries. `first`, `second`: rows (m, columns), equal but for protected columns and
    those that move with them; `first_place`, `second_place` (m,): their combinations, -1 for one that is none of those tried;
    `query` (m,): number of the query that told, from 1 on; `row` (m,): position of the real row that each descends from."""

    first: pd.DataFrame
    second: pd.DataFrame
    first_place: Places
    second_place: Places
    query: Numbers
    row: Numbers


@dataclass(frozen=True, kw_only=True)
class PairSearch(Component):
    """`start`, then `ask` and `tell` in turn until nothing is asked any more, then `result`; no model inside.

    No row is asked twice, and none of more than `queries`.
    """

    name: ClassVar[str] = "pair_search"
    version: ClassVar[int] = 1
    queries: int = 5000

    def start(
        self,
        frame: pd.DataFrame,
        profile: Profile,
        counterparts: Counterparts,
        *,
        classes: int,
        ties: Sequence[Sequence[str]] = (),
        rules: Sequence[str] = (),
        random_seed: int = 0,
        differs: Differs = np.not_equal,
        known: Known | None = None,
    ) -> PairState:
        """The state before the first answer.

        `frame` (n, columns): real rows as they are sent to the model, in any order; `classes`: how many, 0 of a regressor;
        `ties`, `rules`: as for `build_pool`; `differs(a, b)`: which answers (m,) are different decisions; `known`: real rows
        that are answered already. Raises `InputError` where no row satisfies schema and rules.
        """
        space = build_space(frame, profile, counterparts, ties, rules, random_seed)
        nothing = np.empty(0, np.int64)
        codes, closed = nothing.reshape(0, len(space.pool.units)), np.empty((0, space.places), bool)
        looked = Looked.new(codes, nothing, nothing, nothing, closed, classes)
        state = PairState(
            space=space,
            classes=classes,
            differs=differs,
            random_seed=random_seed,
            looked=looked,
            swaps=Swaps.none(classes),
            keys=frozenset(),
            asked=space.pool.frame.iloc[:0],
            asked_row=nothing,
            asked_place=nothing,
        )
        return self._asking(state if known is None else with_known(state, known))

    def ask(self, state: PairState) -> tuple[pd.DataFrame, Numbers]:
        """The rows to send next (m, columns), and for each the position of the real row that it descends from, (m,)."""
        return state.asked, state.space.pool.origin[state.looked.base[state.asked_row]]

    def tell(self, state: PairState, answers: ArrayLike, scores: ArrayLike | None = None) -> PairState:
        """The state after the answers to the rows of `ask`: `answers` (m,) class codes, or numbers of a regressor, NaN where
        there is no usable one; `scores` (m, classes) from 0 to 1, if the model gives any."""
        return self._asking(state.told(answers, scores))

    def result(self, state: PairState) -> Pairs:
        """The pairs found so far."""
        looked = state.looked
        rows = np.flatnonzero(looked.found)
        rows = rows[np.argsort(looked.found[rows], kind="stable")]
        first, second = looked.pair[rows].T
        return Pairs(
            first=state.space.put(looked.codes[rows], looked.base[rows], first),
            second=state.space.put(looked.codes[rows], looked.base[rows], second),
            first_place=first,
            second_place=second,
            query=looked.found[rows],
            row=state.space.pool.origin[looked.base[rows]],
        )

    def _asking(self, state: PairState) -> PairState:
        """The state that waits for the next answers."""
        left = self.queries - state.queries
        if left <= 0 or state.rounds >= MOST_ROUNDS:
            return state
        size = min(left, max(LEAST_BATCH, -(-self.queries // ROUNDS)))
        rng = rng_for(state.random_seed, self.key, f"round {state.rounds}")
        worth = max(LEAST_CHANCE, np.count_nonzero(state.looked.found) / max(state.queries, 1))
        row, place = promising(state, size, worth, rng)
        before = len(state.looked.base)
        new = size - len(row)
        seeding = not state.looked.turned.any() or (state.guided and state.fresh < SEEDED * self.queries)
        state = with_fresh(state, new if seeding else int(np.ceil(FRESH * new)))
        state = with_bred(state, before + new - len(state.looked.base), rng)
        state = with_fresh(state, before + new - len(state.looked.base))
        added = np.arange(before, len(state.looked.base))
        if len(row) + len(added) < size:  # nothing new to be had: then whatever is open
            row, place = promising(state, size - len(added), 0.0, rng)
        closed = state.looked.closed.copy()
        closed[row, place] = True
        rows = np.concatenate([row, added])
        places = np.concatenate([place, state.looked.first[added]])
        return replace(
            state,
            looked=replace(state.looked, closed=closed),
            rounds=state.rounds + 1,
            asked=state.space.put(state.looked.codes[rows], state.looked.base[rows], places),
            asked_row=rows,
            asked_place=places,
            asked_new=len(added),
        )
