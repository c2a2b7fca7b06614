"""Rows as they might become: numbers in other ranges, categories in other shares, numbers with another mean and deviation.

What a column is not asked to be keeps its ties to the others: shares are met by weighting whole rows, and a number that gets
another distribution keeps its ranks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aitest_lib.component import Component
from aitest_lib.config.synthesize import Distribution, Normal, Range
from aitest_lib.data.schema import Column, Profile, is_valid
from aitest_lib.data.units import canonical_order, connected, taken, valid_rows
from aitest_lib.errors import InputError
from aitest_lib.rng import rng_for

TRIES = 20  # of a row whose new value breaks a rule
MOST_DECIMALS = 6
RAKING_ROUNDS = 1_000
RAKING_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Drifted:
    """As many rows as were given or fewer, and the position of the one that each comes from, in the frame given (m,)."""

    frame: pd.DataFrame
    origin: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Drift(Component):
    """The ranges and distributions that a suite asks for, by column; see `config.synthesize` and `check_synthesize`."""

    name: ClassVar[str] = "drift"
    ranges: Mapping[str, Range]
    distributions: Mapping[str, Distribution]

    def parameters(self) -> dict[str, Any]:
        """The parameters as JSON data."""
        asked = {name: item.model_dump() if isinstance(item, Normal) else item for name, item in self.distributions.items()}
        return {"ranges": {name: item.model_dump() for name, item in self.ranges.items()}, "distributions": asked}

    def apply(
        self, frame: pd.DataFrame, profile: Profile, tied: Iterable[Sequence[str]], rules: Sequence[str], random_seed: int
    ) -> Drifted:
        """Rows that satisfy what is asked for, made of those of `frame` that satisfy schema and rules.

        Shares are met by drawing rows with weights (raking: Deming & Stephan 1940), to within a row for one column; a value
        that no row has is put into random rows. Numbers outside their range are drawn anew, with the columns tied to them,
        from the rows inside, or uniformly where there are none. A number with a mean and sd is mapped by its rank to a normal
        distribution cut off at its range; equal numbers get neighbouring ranks by chance.
        """
        profile = replace(profile, rules=tuple(dict.fromkeys([*profile.rules, *rules])))
        order = canonical_order(frame, profile)
        rows = taken(frame, order)
        groups = connected(list(profile.by_name), [*(group.columns for group in profile.tied), *tied])
        group_of = {name: group for group in groups for name in group}
        shares = {
            name: _by_value(profile[name], item) for name, item in self.distributions.items() if not isinstance(item, Normal)
        }
        normals = {name: item for name, item in self.distributions.items() if isinstance(item, Normal)}
        bounds = {name: limits(profile[name], item) for name, item in self.ranges.items()}
        start = valid_rows(rows, profile)
        kept = start[_drawn(rows.iloc[start], shares, rng_for(random_seed, self.key, "shares"))]
        rows, origin = taken(rows, kept), order[kept]
        for name, wanted in shares.items():
            _put_in(rows, profile, group_of[name], name, wanted, rng_for(random_seed, self.key, f"shares {name}"))
        for group in groups:
            inside = {name: bounds[name] for name in group if name in bounds and name not in normals}
            if inside:
                _redraw(rows, profile, group, inside, rng_for(random_seed, self.key, f"ranges {group[0]}"))
        for name, normal in normals.items():
            if len(group_of[name]) > 1:
                raise InputError(
                    f"data.synthesize.distributions.{name}: it moves together with {_others(group_of[name], name)}, "
                    "so that its numbers cannot be moved alone; give it a range, or shares for one of the others"
                )
            ends = limits(profile[name], self.ranges.get(name, Range.model_construct()))
            rows[name] = _mapped(rows[name], profile[name], normal, ends, rng_for(random_seed, self.key, f"normal {name}"))
        return Drifted(rows, origin)


def limits(column: Column, asked: Range) -> tuple[float, float]:
    """The smallest and the largest value asked for; the schema's where an end is left open."""
    low = asked.min if asked.min is not None else column.min
    high = asked.max if asked.max is not None else column.max
    return -math.inf if low is None else low, math.inf if high is None else high


def value_texts(column: Column) -> dict[str, Any]:
    """The values of a category or boolean column by the text that stands for each in a suite."""
    return {str(value).lower() if isinstance(value, bool) else str(value): value for value in column.allowed or ()}


def _by_value(column: Column, shares: Mapping[str, float]) -> dict[Any, float]:
    texts = value_texts(column)
    return {texts[text]: share for text, share in shares.items() if share > 0}


def _drawn(rows: pd.DataFrame, shares: Mapping[str, Mapping[Any, float]], rng: np.random.Generator) -> NDArray[np.int64]:
    """Positions (n,) of rows, each as often as the shares of the values that occur want it: systematic sampling."""
    n = len(rows)
    if not shares:
        return np.arange(n)
    memberships, targets = [], []
    for name, wanted in shares.items():
        observed = [value for value in wanted if (rows[name] == value).any()]
        if not observed:
            raise InputError(f"data.synthesize.distributions.{name}: no row has any of these values; name one that occurs")
        member = np.stack([(rows[name] == value).to_numpy(bool, na_value=False) for value in observed])
        target = np.array([wanted[value] for value in observed])
        memberships.append(member)
        targets.append(target / target.sum())
    weights = _raked(memberships, targets, n)
    if weights is None:
        raise InputError(
            f"data.synthesize.distributions: the rows have no weights that give {', '.join(shares)} these shares together; "
            "ask for fewer of them, or for shares nearer to the data's"
        )
    cells = np.lexsort((rng.permutation(n), *(member.argmax(axis=0) for member in memberships)))
    edges = np.cumsum(weights[cells])
    places = np.searchsorted(edges, (np.arange(n) + rng.random()) / n * edges[-1], side="right")
    return np.asarray(cells[np.minimum(places, n - 1)])


def _raked(
    memberships: Sequence[NDArray[np.bool_]], targets: Sequence[NDArray[np.float64]], n: int
) -> NDArray[np.float64] | None:
    """Weights (n,) under which every value has its share, by iterative proportional fitting; None where there are none.

    `memberships`: by column which rows (values, n) have which value; `targets`: by column the shares (values,).
    """
    weights = np.full(n, 1 / n)
    for _ in range(RAKING_ROUNDS):
        for member, target in zip(memberships, targets, strict=True):
            shares = member @ weights
            if (shares == 0).any():
                return None
            weights = (target / shares) @ member * weights
        errors = [np.abs(member @ weights - target).max() for member, target in zip(memberships, targets, strict=True)]
        if max(errors) < RAKING_TOLERANCE:
            return weights
    return None


def _put_in(
    rows: pd.DataFrame,
    profile: Profile,
    group: tuple[str, ...],
    name: str,
    wanted: Mapping[Any, float],
    rng: np.random.Generator,
) -> None:
    """Gives values that no row has to as many rows as their share wants."""
    free = rng.permutation(len(rows))
    for value in [value for value in wanted if not (rows[name] == value).any()]:
        where = f"data.synthesize.distributions.{name}"
        if len(group) > 1:
            raise InputError(
                f"{where}: no row has {value!r}, and it moves together with {_others(group, name)}, of which nothing is known "
                "for it; leave the value out, or add rows that have it"
            )
        trial = rows.iloc[free].assign(**{name: pd.Series(value, index=free, dtype=rows[name].dtype)})
        fitting = free[is_valid(trial, profile)]
        count = round(wanted[value] * len(rows))
        if len(fitting) < count:
            raise InputError(
                f"{where}: got {len(fitting)} of {len(rows)} rows that can have {value!r} without breaking a rule, "
                f"expected {count}; ask for fewer"
            )
        rows.loc[fitting[:count], name] = value
        free = free[~np.isin(free, fitting[:count])]


def _redraw(
    rows: pd.DataFrame,
    profile: Profile,
    group: tuple[str, ...],
    bounds: Mapping[str, tuple[float, float]],
    rng: np.random.Generator,
) -> None:
    """Gives rows with a number outside its bounds the columns `group` of rows inside."""
    outside, inside = np.zeros(len(rows), bool), np.ones(len(rows), bool)
    for name, (low, high) in bounds.items():
        number = rows[name].to_numpy(float, na_value=np.nan)
        outside |= (number < low) | (number > high)
        inside &= (number >= low) & (number <= high)
    donors, names = np.flatnonzero(inside), list(group)
    told = f"data.synthesize.ranges.{next(iter(bounds))}"
    if held := [name for name in names if profile.by_name[name].fixed]:
        raise InputError(f"{told}: it moves together with {', '.join(held)}, which may not change; leave the range out")
    if not len(donors) and len(names) > 1:
        raise InputError(
            f"{told}: no row lies inside, and it moves together with {_others(group, next(iter(bounds)))}, of which nothing is "
            "known there; widen the range, or add rows that lie inside"
        )
    open_rows = np.flatnonzero(outside)
    for _ in range(TRIES):
        if not len(open_rows):
            break
        if len(donors):
            drawn = taken(rows[names], donors[rng.integers(len(donors), size=len(open_rows))])
        else:
            drawn = _uniform(rows[names[0]], profile[names[0]], bounds[names[0]], len(open_rows), rng)
        for name in names:
            rows[name] = _replaced(rows[name], open_rows, drawn[name])
        open_rows = open_rows[~is_valid(rows.iloc[open_rows], profile)]


def _uniform(
    values: pd.Series[Any], column: Column, ends: tuple[float, float], size: int, rng: np.random.Generator
) -> pd.DataFrame:
    low, high = ends
    if column.kind == "integer":
        number = rng.integers(math.ceil(low), math.floor(high), size=size, endpoint=True).astype(float)
    else:
        number = _rounded(rng.uniform(low, high, size), values, ends)
    return pd.DataFrame({values.name: number})


def _mapped(
    values: pd.Series[Any], column: Column, normal: Normal, ends: tuple[float, float], rng: np.random.Generator
) -> pd.Series[Any]:
    """The values with a normal distribution cut off at `ends`, in the same order; missing ones stay missing."""
    from scipy.stats import truncnorm

    number = values.to_numpy(float, na_value=np.nan)
    present = np.flatnonzero(~np.isnan(number))
    order = present[np.lexsort((rng.permutation(len(present)), number[present]))]
    quantiles = (np.arange(len(order)) + 0.5) / max(len(order), 1)
    low, high = ((end - normal.mean) / normal.sd for end in ends)
    moved = truncnorm.ppf(quantiles, low, high, loc=normal.mean, scale=normal.sd)
    moved = np.clip(np.rint(moved), np.ceil(ends[0]), np.floor(ends[1])) if column.kind == "integer" else moved
    return _replaced(values, order, pd.Series(moved if column.kind == "integer" else _rounded(moved, values, ends)))


def _rounded(number: NDArray[np.float64], like: pd.Series[Any], ends: tuple[float, float]) -> NDArray[np.float64]:
    """Rounded to the decimals that the observed values have, if those are few."""
    seen = like.dropna().to_numpy(float)
    decimals = next((count for count in range(MOST_DECIMALS + 1) if (np.round(seen, count) == seen).all()), None)
    return number if decimals is None else np.clip(np.round(number, decimals), *ends)


def _replaced(values: pd.Series[Any], rows: NDArray[np.int64], new: pd.Series[Any]) -> pd.Series[Any]:
    """`values` with others in some rows, its type kept."""
    filled = values.array.copy()
    filled[rows] = new.astype(values.dtype).array
    return pd.Series(filled, index=values.index, dtype=values.dtype)


def _others(group: Sequence[str], name: str) -> str:
    return ", ".join(other for other in group if other != name)
