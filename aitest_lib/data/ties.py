"""Columns that move together, found in the data: `education` fixes `education-num`, a `Husband` is `Male`.

Swapped one by one, such columns make rows that cannot be. Whoever declares none still gets the evident ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aitest_lib.data.schema import MANY_VALUES, Profile
from aitest_lib.data.table import frame_cells
from aitest_lib.data.units import canonical_order, connected

MOST_ROWS = 100_000  # looked at; more rows show no tie of use that these do not
LEAST_SUPPORT = 20  # rows with the implying value,
LEAST_SHARE = 0.005  # and their share,
CONFIDENCE = 0.999  # share of them with the implied value,
MOST_COMMON = 0.9  # while of all rows no more than this share has it
CHANCE = 1e-6  # and so many implying rows would agree less often than this if the columns had nothing to do with each other


@dataclass(frozen=True)
class FoundTie:
    """A group of columns that move together, and why, one line for each pair that shows it:
    `relationship is Husband -> sex is Male (18665 rows)`."""

    columns: tuple[str, ...]
    evidence: tuple[str, ...]


def find_ties(frame: pd.DataFrame, profile: Profile) -> list[FoundTie]:
    """The groups of discrete columns that are joined by a dependency that the data show; by the order of the profile.

    Discrete: categories, booleans, and numbers of at most 50 values. Joined: one value of a column implies one of another
    (see the constants above), or all do and the repeated ones are enough to tell. Private and ignored columns are left out.
    """
    names = [column.name for column in profile.columns if column.name in frame and not column.private and not column.ignored]
    rows = frame
    if len(frame) > MOST_ROWS:
        rows = frame.iloc[canonical_order(frame, profile)[:MOST_ROWS]]
    columns = {name: found for name in names if (found := _discrete(rows[name], profile, name)) is not None}
    evidence = {
        pair: why
        for pair in permutations(columns, 2)
        if (why := _implication(pair[0], columns[pair[0]], pair[1], columns[pair[1]])) is not None
    }
    groups = [group for group in connected(list(columns), list(evidence)) if len(group) > 1]
    return [FoundTie(group, tuple(why for pair, why in evidence.items() if pair[0] in group)) for group in groups]


@dataclass(frozen=True)
class _Discrete:
    codes: NDArray[np.int64]  # (n,), missing values have one of their own
    counts: NDArray[np.int64]
    texts: Sequence[str]


def _discrete(values: pd.Series[Any], profile: Profile, name: str) -> _Discrete | None:
    if profile[name].kind not in ("category", "boolean", "integer", "number"):
        return None
    codes, distinct = pd.factorize(values, use_na_sentinel=False, sort=False)
    if len(distinct) < 2 or (profile[name].numeric and len(distinct) > MANY_VALUES):
        return None
    texts = ["missing" if cell is None else str(cell) for cell in frame_cells(pd.Series(distinct))]
    return _Discrete(codes.astype(np.int64), np.bincount(codes), texts)


def _implication(first: str, a: _Discrete, second: str, b: _Discrete) -> str | None:
    """Why `second` hangs on `first`, by the value with the most rows; None where it does not."""
    n = len(a.codes)
    table = np.bincount(a.codes * len(b.counts) + b.codes, minlength=len(a.counts) * len(b.counts))
    table = table.reshape(len(a.counts), len(b.counts))
    implied, agreeing = table.argmax(axis=1), table.max(axis=1)
    share = b.counts[implied] / n
    told = (
        (a.counts >= max(LEAST_SUPPORT, LEAST_SHARE * n))
        & (agreeing >= CONFIDENCE * a.counts)
        & (share <= MOST_COMMON)
        & (agreeing * np.log(share) <= np.log(CHANCE))
    )
    if told.any():
        value = min(np.flatnonzero(told).tolist(), key=lambda value: (-agreeing[value], a.texts[value]))
        return f"{first} is {a.texts[value]} -> {second} is {b.texts[int(implied[value])]} ({agreeing[value]} rows)"
    # Many rare values, none of which has the support: together they tell as much.
    repeated = a.counts - 1
    enough = repeated.sum() >= max(LEAST_SUPPORT, LEAST_SHARE * n) and repeated @ np.log(share) <= np.log(CHANCE)
    if enough and b.counts.max() <= MOST_COMMON * n and bool((agreeing == a.counts).all()):
        return f"{first} determines {second} ({n} rows)"
    return None
