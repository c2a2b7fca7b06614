"""Rows made of real ones: cells swapped within the leaves of a surrogate (or anywhere), and columns drawn one by one.

Every value has been observed, columns that move together do, and no row breaks schema or rules. The content of row k hangs
on the random seed and k alone: rows are drawn in blocks of fixed size, each with a counter-based stream of its own.

The idea of asking a model about new rows with the distribution of a leaf is that of TREPAN (Craven & Shavlik 1996, Extracting
tree-structured representations of trained networks); swapping keeps more of what belongs together than its marginals do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aitest_lib.component import Component
from aitest_lib.config.synthesize import RATE
from aitest_lib.data.units import Pool, Unit
from aitest_lib.errors import InputError
from aitest_lib.rng import rng_for

BLOCK = 4_096  # rows that share a stream
CHUNK = 16 * BLOCK
FULL_TRIES = 8  # of a row, before it is changed in one unit only
SINGLE_TRIES = 4  # before it stays the real row


@dataclass(frozen=True)
class Synthesized:
    """Synthesized rows (m), and of each the position of the real row that it descends from (m,) in the frame given."""

    frame: pd.DataFrame
    base: NDArray[np.int64]


class Rows(ABC):
    """An endless sequence of synthesized rows, any stretch of which can be made by itself."""

    pool: Pool

    @abstractmethod
    def codes(self, start: int, rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The codes (rows, units) of these rows, and the rows of the pool that they descend from (rows,)."""

    def make(self, start: int, rows: int) -> Synthesized:
        """Rows `start` to `start + rows`."""
        codes, base = self.codes(start, rows)
        return Synthesized(self.pool.rows(codes, base), self.pool.origin[base])

    def chunks(self, rows: int, size: int = CHUNK) -> Iterator[Synthesized]:
        """The first `rows` rows in pieces of at most `size`, made as they are asked for."""
        for start in range(0, rows, size):
            yield self.make(start, min(size, rows - start))


@dataclass(frozen=True, kw_only=True)
class Swap(Component):
    """Each unit of a real row is replaced with probability `rate` by that of another row of its leaf; at least one changes.

    Where rules allow none of the rows drawn for it, a row is changed in one unit, at last in none.
    """

    name: ClassVar[str] = "swap"
    rate: float = RATE

    def over(self, pool: Pool, leaves: NDArray[np.int64]) -> Rows:
        """The rows made of `pool`; `leaves` (n,): the leaf of each row of the frame that the pool was built of."""
        if leaves.shape != pool.origin.shape:
            raise InputError(f"got leaves of shape {leaves.shape}, expected one for each of {len(pool.origin)} rows")
        return _Swapped(pool, leaves[pool.origin], self.rate, self.key)


@dataclass(frozen=True, kw_only=True)
class Marginal(Component):
    """Every unit is drawn by itself from its values in all rows; what may not change is that of a real row."""

    name: ClassVar[str] = "marginal"

    def over(self, pool: Pool) -> Rows:
        """The rows made of `pool`."""
        return _Swapped(pool, np.zeros(len(pool.frame), np.int64), 1.0, self.key)


class Donors:
    """Combinations of one unit to draw from, by stratum: rows of one leaf whose columns that may not change agree."""

    def __init__(self, unit: Unit, leaves: NDArray[np.int64]) -> None:
        strata = leaves * (int(unit.held.max()) + 1) + unit.held[unit.codes]
        _, self._stratum = np.unique(strata, return_inverse=True)
        giving = np.flatnonzero(unit.allowed[unit.codes])
        order = giving[np.argsort(self._stratum[giving], kind="stable")]
        self._codes = unit.codes[order]
        self._counts = np.bincount(self._stratum[giving], minlength=int(self._stratum.max()) + 1)
        self._starts = np.cumsum(self._counts) - self._counts

    def draw(self, base: NDArray[np.int64], uniform: NDArray[np.float64]) -> NDArray[np.int64]:
        """A combination (m,) for each row `base` (m,) of the pool, that of a row of its stratum, by a number in [0, 1)."""
        stratum = self._stratum[base]
        return np.asarray(self._codes[self._starts[stratum] + (uniform * self._counts[stratum]).astype(np.int64)])


class _Swapped(Rows):
    def __init__(self, pool: Pool, leaves: NDArray[np.int64], rate: float, key: str) -> None:
        self.pool = pool
        self._donors = [Donors(unit, leaves) for unit in pool.units]
        self._rate, self._key = rate, key

    def codes(self, start: int, rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        first = start // BLOCK
        blocks = [self._block(number) for number in range(first, -(-(start + rows) // BLOCK))]
        codes, base = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
        inside = slice(start - first * BLOCK, start - first * BLOCK + rows)
        return codes[inside], base[inside]

    def _block(self, number: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        bases = self.pool.bases
        base = bases[np.arange(number * BLOCK, (number + 1) * BLOCK) % len(bases)]
        rng = rng_for(self.pool.random_seed, self._key, f"block {number}")
        before = self.pool.codes(base)
        after = before.copy()
        open_rows = np.arange(BLOCK)
        for attempt in range(FULL_TRIES + SINGLE_TRIES):
            drawn = self._drawn(before[open_rows], base[open_rows], rng, self._rate if attempt < FULL_TRIES else 0.0)
            good = (drawn != before[open_rows]).any(axis=1) & self.pool.holds(drawn, base[open_rows])
            after[open_rows[good]] = drawn[good]
            open_rows = open_rows[~good]
            if not len(open_rows):
                break
        return after, base

    def _drawn(
        self, codes: NDArray[np.int64], base: NDArray[np.int64], rng: np.random.Generator, rate: float
    ) -> NDArray[np.int64]:
        """Candidates: the units of each row that are swapped have other codes, one at least is."""
        swapped = rng.random(codes.shape) < rate
        idle = np.flatnonzero(~swapped.any(axis=1))
        swapped[idle, rng.integers(codes.shape[1], size=len(idle))] = True
        uniform = rng.random(codes.shape)
        drawn = np.stack([donors.draw(base, uniform[:, place]) for place, donors in enumerate(self._donors)], axis=1)
        return np.where(swapped, drawn, codes)
