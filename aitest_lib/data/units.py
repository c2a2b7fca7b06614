"""What is swapped as a whole when rows are synthesized: single columns, and groups of columns that move together.

A row is written as one code a unit: its place in the unit's table of observed combinations. Swapping, checking against the
schema and looking for combinations thus happen on small integers, and values are put in once, at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from aitest_lib.data.rules import Rule, parse_rule
from aitest_lib.data.schema import Profile, invalid_reasons, is_valid
from aitest_lib.data.table import row_digests
from aitest_lib.errors import InputError
from aitest_lib.rng import rng_for


@dataclass(frozen=True)
class Unit:
    """Columns that move together, or one alone.

    `table`: the distinct combinations, one a row; `codes` (n,): the combination of every row; `allowed` (combinations,):
    does it satisfy the schema and the rules about these columns alone; `held` (combinations,): equal numbers where the
    columns of the unit that may not change are equal, so that one combination may only stand for another with its number.
    """

    table: pd.DataFrame
    codes: NDArray[np.int64]
    allowed: NDArray[np.bool_]
    held: NDArray[np.int64]

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self.table.columns)


@dataclass(frozen=True)
class Pool:
    """The rows that others are made of, in an order that hangs on their content alone.

    `frame` (n rows); `origin` (n,): position of each in the frame that was given; `units`: what may change; `rules`: those
    that span several units; `bases`: positions in `frame` of the rows that satisfy schema and rules, shuffled.
    """

    frame: pd.DataFrame
    origin: NDArray[np.int64]
    units: tuple[Unit, ...]
    rules: tuple[Rule, ...]
    bases: NDArray[np.int64]
    profile: Profile
    random_seed: int

    def codes(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The codes (rows, units) of rows of the pool."""
        return np.stack([unit.codes[rows] for unit in self.units], axis=1)

    def rows(self, codes: NDArray[np.int64], base: NDArray[np.int64], columns: Iterable[str] | None = None) -> pd.DataFrame:
        """Rows with these codes (m, units); what belongs to no unit is taken from the rows `base` (m,) of the pool."""
        wanted = list(self.frame.columns if columns is None else columns)
        parts, left = [], set(wanted)
        for place, unit in enumerate(self.units):
            names = [name for name in unit.columns if name in left]
            if names:
                parts.append(taken(unit.table[names], codes[:, place]))
                left -= set(names)
        if left:
            parts.append(taken(self.frame[[name for name in wanted if name in left]], base))
        return pd.concat(parts, axis=1)[wanted]

    def holds(self, codes: NDArray[np.int64], base: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of such rows satisfy the rules that span units (m,)."""
        good = np.ones(len(base), bool)
        if self.rules:
            frame = self.rows(codes, base, sorted({name for rule in self.rules for name in rule.columns}))
            for rule in self.rules:
                good &= rule.holds(frame)
        return good


def build_pool(
    frame: pd.DataFrame, profile: Profile, tied: Iterable[Sequence[str]], rules: Sequence[str], random_seed: int
) -> Pool:
    """The rows of `frame` (as `to_frame` makes them) with what may be swapped in them.

    `tied`: groups of columns that move together, beside those of the profile; groups that share a column are one. `rules`
    come on top of the profile's. Columns that the profile does not know (the label) stay with their row, as immutable,
    private and ignored ones do, and as those do that are tied to a column that `frame` lacks; a rule about such a column is not
    checked. Raises `InputError` where no row satisfies schema and rules.
    """
    profile = replace(profile, rules=tuple(dict.fromkeys([*profile.rules, *rules])))
    order = canonical_order(frame, profile)
    rows = taken(frame, order)
    grouped = [*(group.columns for group in profile.tied), *tied]
    units = tuple(
        _unit(rows[list(names)], profile)
        for names in connected(list(profile.by_name), grouped)
        if set(names) <= set(rows.columns) and not all(profile[name].fixed for name in names)
    )
    if not units:
        raise InputError("data.synthesize: got no column that may change, expected at least one; free one in data.schema")
    parsed = [parse_rule(text, list(profile.by_name)) for text in profile.rules]

    def within_a_unit(rule: Rule) -> bool:
        return any(rule.columns <= set(unit.columns) for unit in units)

    return Pool(
        frame=rows,
        origin=order,
        units=units,
        rules=tuple(rule for rule in parsed if rule.columns <= set(rows.columns) and not within_a_unit(rule)),
        bases=rng_for(random_seed, "pool@1", "bases").permutation(valid_rows(rows, profile)),
        profile=profile,
        random_seed=random_seed,
    )


def valid_rows(frame: pd.DataFrame, profile: Profile) -> NDArray[np.int64]:
    """Positions of the rows that satisfy schema and rules; an `InputError` where there are none."""
    reasons = invalid_reasons(frame, profile)
    valid = np.flatnonzero([reason is None for reason in reasons])
    if not len(valid):
        often = Counter(reasons).most_common(1)
        why = f"of {len(frame)} rows none does, mostly because of: {often[0][0]}" if often else "there are no rows"
        raise InputError(
            f"data.synthesize: expected rows that satisfy schema and rules, but {why}; "
            "correct the data, the schema, the rules or what is asked for"
        )
    return valid


def canonical_order(frame: pd.DataFrame, profile: Profile) -> NDArray[np.int64]:
    """Positions (n,) of the rows, sorted by the digest of their content; private columns only order rows that equal else."""
    private = [name for name in profile.private if name in frame]
    keys = [_ranks(frame[private])] if private else []
    return np.lexsort((*keys, _ranks(frame.drop(columns=private)))).astype(np.int64)


def connected(names: Sequence[str], groups: Iterable[Sequence[str]]) -> list[tuple[str, ...]]:
    """The names, those joined by groups put together; in the order of their first.

    >>> connected(["a", "b", "c", "d"], [["d", "b"], ["d", "elsewhere"]])
    [('a',), ('b', 'd'), ('c',)]
    """
    label = {name: place for place, name in enumerate(names)}
    for group in groups:
        joined = {label[name] for name in group if name in label}
        label = {name: min(joined) if place in joined else place for name, place in label.items()}
    found: dict[int, list[str]] = {}
    for name, place in label.items():
        found.setdefault(place, []).append(name)
    return [tuple(found[place]) for place in sorted(found)]


def codes_of(frame: pd.DataFrame) -> NDArray[np.int64]:
    """A number (n,) for every row, equal for equal rows, from 0 on without a gap; missing values equal each other."""
    codes = np.zeros(len(frame), np.int64)
    for name in frame.columns:
        own, values = pd.factorize(frame[name], use_na_sentinel=True)
        codes = codes * (len(values) + 1) + own + 1
        codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
    return codes


def _unit(frame: pd.DataFrame, profile: Profile) -> Unit:
    codes = codes_of(frame)
    table = taken(frame, np.unique(codes, return_index=True)[1].astype(np.int64))
    held = [name for name in frame.columns if profile[name].fixed]
    return Unit(
        table=table,
        codes=codes,
        allowed=is_valid(table, profile),
        held=codes_of(table[held]),
    )


def _ranks(frame: pd.DataFrame) -> NDArray[np.int64]:
    digests = row_digests(pa.Table.from_pandas(frame, preserve_index=False))
    return np.unique(digests, return_inverse=True)[1].astype(np.int64)


def taken(frame: pd.DataFrame, rows: NDArray[Any]) -> pd.DataFrame:
    """The rows at these positions, numbered anew."""
    return frame.take(rows).set_axis(pd.RangeIndex(len(rows)), axis=0)
