"""Rows made at one node of a TREPAN tree: like the real rows that reach it, and reaching it themselves.

A *unit* is what moves as one: a column, or the columns that are tied. A made row descends from a real one, whose immutable,
private and ignored columns it keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aitest_lib.data.schema import Column, Profile, invalid_reasons
from aitest_lib.data.units import connected
from aitest_lib.surrogates.tree import Test

Path = tuple[tuple[Test, bool], ...]
Unit = tuple[str, ...]
Made = tuple[pd.DataFrame, NDArray[np.int64]]  # rows, and the real row that each descends from
Rows = NDArray[np.int64]

TRIES = 5  # rounds of drawing until the valid rows must do


@dataclass(frozen=True, kw_only=True)
class Real:
    """The real rows, and what may move in them. `frame`: (n, columns), with a RangeIndex."""

    frame: pd.DataFrame
    profile: Profile
    units: tuple[Unit, ...]


def units_of(profile: Profile, columns: Sequence[str], ties: Sequence[Sequence[str]] = ()) -> tuple[Unit, ...]:
    """The columns that may change; those of a tied or one-hot group, or of `ties`, together, or not at all if one is fixed."""
    groups = connected(list(profile.by_name), [*(tied.columns for tied in profile.tied), *ties])
    units = (
        tuple(name for name in group if name in columns) for group in groups if not any(profile[name].fixed for name in group)
    )
    return tuple(unit for unit in units if unit)


def reaches(frame: pd.DataFrame, path: Path) -> NDArray[np.bool_]:
    """Which rows take the path, (n,)."""
    here = np.ones(len(frame), dtype=bool)
    for test, holds in path:
        here &= test.holds(frame) == holds
    return here


def swapped(real: Real, rows: Rows, path: Path, rate: float, count: int, rng: np.random.Generator) -> Made:
    """Rows of the node of which each unit is that of another row of it with probability `rate`, and what they descend from.

    A path asks about one column at a time, so that a swap between two rows that take it cannot leave it.
    """

    def draw(count: int) -> Made:
        base = rng.choice(rows, count)
        moved = rng.random((count, len(real.units))) < rate
        idle = np.flatnonzero(~moved.any(axis=1))
        moved[idle, rng.integers(len(real.units), size=len(idle))] = True  # one at least
        donors = [np.where(moves, rng.choice(rows, count), base) for moves in moved.T]
        return _composed(real, base, donors), base

    return _until_valid(real, path, draw, count)


def from_marginals(real: Real, rows: Rows, path: Path, count: int, rng: np.random.Generator) -> Made:
    """Rows of which each unit is drawn by itself, as Craven and Shavlik draw them, and what they descend from.

    From the values of `rows` that the path allows (of all rows, where it allows none of them): categories as often as they
    occur, numbers that are not tied from a Gaussian kernel density estimate with Silverman's bandwidth (1986, eq. 3.31).
    """
    fixed = set(real.frame.columns).difference(*real.units)
    bases = _allowed(real, rows, path, fixed)
    pools = [_allowed(real, rows, path, set(unit)) for unit in real.units]
    if not all(map(len, [bases, *pools])):
        return real.frame.iloc[:0], np.empty(0, np.int64)

    def draw(count: int) -> Made:
        base = rng.choice(bases, count)
        made = _composed(real, base, [rng.choice(pool, count) for pool in pools])
        for unit, pool in zip(real.units, pools, strict=True):
            column = real.profile[unit[0]]
            if len(unit) == 1 and column.numeric and isinstance(made[column.name].dtype, np.dtype):
                asked = tuple(step for step in path if step[0].column == column.name)
                made[column.name] = _smoothed(made[column.name], real.frame[column.name].iloc[pool], column, asked, rng)
        return made, base

    return _until_valid(real, path, draw, count)


def _allowed(real: Real, rows: Rows, path: Path, columns: set[str]) -> Rows:
    """Those of `rows`, or else of all, whose `columns` take the path."""
    asked = tuple(step for step in path if step[0].column in columns)
    if not asked:
        return rows
    near = rows[reaches(real.frame.iloc[rows], asked)]
    return near if len(near) else np.flatnonzero(reaches(real.frame, asked))


def _composed(real: Real, base: Rows, donors: Sequence[Rows]) -> pd.DataFrame:
    """Rows with the units of the `donors` (one array a unit) and the other columns of `base`."""
    taken = {name: rows for unit, rows in zip(real.units, donors, strict=True) for name in unit}
    return pd.DataFrame({name: real.frame[name].take(taken.get(name, base)).array for name in real.frame.columns})


def _smoothed(values: pd.Series, pool: pd.Series, column: Column, asked: Path, rng: np.random.Generator) -> pd.Series:
    """Kernel centres moved by the kernel's noise; those that would leave the column's range or the path stay."""
    known = np.sort(pool.dropna().to_numpy(np.float64))
    noise = rng.standard_normal(len(values))
    if len(known) < 2:
        return values
    low, high = np.quantile(known, [0.25, 0.75])
    width = 0.9 * min(float(np.std(known)), float(high - low) / 1.34) * len(known) ** -0.2
    moved = values.to_numpy(np.float64) + width * noise
    if column.kind == "integer":
        moved = np.rint(moved)
    inside = reaches(pd.DataFrame({column.name: moved}), asked)
    for bound, beyond in ((column.min, np.less), (column.max, np.greater)):
        if bound is not None:
            inside &= ~beyond(moved, bound)
    kept = np.where(inside, moved, values.to_numpy(np.float64))
    return pd.Series(kept).astype(values.dtype)


def _until_valid(real: Real, path: Path, draw: Callable[[int], Made], count: int) -> Made:
    """`count` drawn rows that take the path, satisfy the schema and differ from their base; fewer where that is hard."""
    frames, bases, missing = [real.frame.iloc[:0]], [np.empty(0, np.int64)], count
    for _ in range(TRIES):
        if missing <= 0 or not real.units:
            break
        made, base = draw(count)
        good = reaches(made, path) & (invalid_reasons(made, real.profile) == None) & _differ(made, real.frame.iloc[base])  # noqa: E711
        places = np.flatnonzero(good)[:missing]
        frames.append(made.iloc[places])
        bases.append(base[places])
        missing -= len(places)
    return pd.concat(frames, ignore_index=True), np.concatenate(bases)


def _differ(first: pd.DataFrame, second: pd.DataFrame) -> NDArray[np.bool_]:
    """Which rows are not the same, (n,); a missing value equals a missing one."""
    differ = np.zeros(len(first), dtype=bool)
    for name in first.columns:
        codes, _ = pd.factorize(pd.concat([first[name], second[name]], ignore_index=True))
        differ |= codes[: len(first)] != codes[len(first) :]
    return differ
