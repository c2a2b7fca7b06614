"""The rows that a search for pairs may ask about: recombined real rows, and what makes two of them the same row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aitest_lib.data.counterparts import Counterparts
from aitest_lib.data.schema import Profile
from aitest_lib.data.synthesis import Donors
from aitest_lib.data.units import Pool, build_pool, codes_of, taken

Codes = NDArray[np.int64]  # (rows, units of the pool), see data/units.py
Places = NDArray[np.int64]  # combinations of protected values, -1: the row's own, which is none of those that are tried
Numbers = NDArray[np.int64]
CROSSED = 0.5  # share of the units that a child has from its second parent
MUTATED = 0.08  # and of those that it has from any real row
OVERSAMPLED = 1.3  # drawn for each that is wanted: some break a rule or are known
TRIES = 4  # draws before fewer than wanted must do


@dataclass(frozen=True)
class Space:
    """`rest`: of each unit, equal numbers where its columns are equal but for protected ones and those that move with them;
    `fixed` (rows of the pool,): likewise of the columns that belong to no unit. Rows that are equal in all of them are
    counterparts of each other, so that only one of them is ever looked at. `concerned`: the columns that say whether a
    combination may stand in a row that satisfies schema and rules as it is."""

    pool: Pool
    counterparts: Counterparts
    donors: tuple[Donors, ...]
    concerned: frozenset[str]
    rest: tuple[Numbers, ...]
    fixed: Numbers

    @property
    def places(self) -> int:
        """Number of combinations."""
        return len(self.counterparts.values)

    def keys(self, codes: Codes, base: Numbers) -> list[bytes]:
        """What tells a row from others that are no counterparts of it, for each of (m,) rows."""
        parts = [own[codes[:, place]] for place, own in enumerate(self.rest)]
        rows = np.stack([*parts, self.fixed[base]], axis=1)
        return [row.tobytes() for row in rows]

    def put(self, codes: Codes, base: Numbers, places: Places) -> pd.DataFrame:
        """The rows (m, columns) with these combinations; those at their own one as they are."""
        rows = self.pool.rows(codes, base)
        other = places != self.counterparts.own(rows)
        moved = self.counterparts.apply(taken(rows, np.flatnonzero(other)), places[other])
        both = pd.concat([taken(rows, np.flatnonzero(~other)), moved], ignore_index=True)
        return taken(both, np.argsort(np.argsort(other, kind="stable")))

    def likely(self, codes: Codes, base: Numbers) -> NDArray[np.bool_]:
        """Which combinations may stand in these rows (m, places)."""
        units = [at for at, unit in enumerate(self.pool.units) if self.concerned & set(unit.columns)]
        inside = {name for unit in self.pool.units for name in unit.columns}
        parts = [codes[:, units]] if self.concerned <= inside else [codes[:, units], base[:, None]]
        _, kept, same = np.unique(np.concatenate(parts, axis=1), axis=0, return_index=True, return_inverse=True)
        rows = self.pool.rows(codes[kept], base[kept], sorted(self.concerned))
        places = np.tile(np.arange(self.places), len(kept))
        good = self.counterparts.likely(taken(rows, np.repeat(np.arange(len(kept)), self.places)), places)
        return good.reshape(len(kept), self.places)[same.ravel()]

    def own(self, codes: Codes, base: Numbers) -> Places:
        """The combination (m,) that each row has."""
        return self.counterparts.own(self.pool.rows(codes, base, self.counterparts.values.columns))

    def children(self, first: Codes, second: Codes, base: Numbers, rng: np.random.Generator) -> tuple[Codes, NDArray[np.bool_]]:
        """A child (m, units) of each two parents, the first of which descends from the row `base` (m,) of the pool; and
        which of them satisfy the rules (m,)."""
        crossed, mutated, uniform = (rng.random(first.shape) for _ in range(3))
        made = first.copy()
        for place, unit in enumerate(self.pool.units):
            taken = (crossed[:, place] < CROSSED) & (unit.held[second[:, place]] == unit.held[first[:, place]])
            made[taken, place] = second[taken, place]
            drawn = np.flatnonzero(mutated[:, place] < MUTATED)
            made[drawn, place] = self.donors[place].draw(base[drawn], uniform[drawn, place])
        return made, self.pool.holds(made, base)


def build_space(
    frame: pd.DataFrame,
    profile: Profile,
    counterparts: Counterparts,
    ties: Sequence[Sequence[str]],
    rules: Sequence[str],
    random_seed: int,
) -> Space:
    """The space of what can be made of the rows of `frame`."""
    pool = build_pool(frame, profile, ties, rules, random_seed)
    protected = set(counterparts.values.columns)
    moving = protected.union(*(group.columns for group in profile.tied if protected & set(group.columns)))
    groups = [*(unit.columns for unit in pool.units), *(group.columns for group in profile.tied), *counterparts.ties]
    groups += [tuple(rule.columns) for rule in pool.rules]
    concerned = moving.union(*(group for group in groups if moving & set(group)))
    anywhere = np.zeros(len(pool.frame), np.int64)
    known = {name for unit in pool.units for name in unit.columns}
    return Space(
        pool=pool,
        counterparts=counterparts,
        concerned=frozenset(concerned & set(pool.frame.columns)),
        donors=tuple(Donors(unit, anywhere) for unit in pool.units),
        rest=tuple(codes_of(unit.table.drop(columns=[name for name in unit.columns if name in moving])) for unit in pool.units),
        fixed=codes_of(pool.frame.drop(columns=[name for name in pool.frame if name in known | moving])),
    )
