"""Which groups of an attribute are compared: the declared reference pooled, small ones left out by request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aitest_lib.data.groups import Groups, free_name
from aitest_lib.errors import InputError, unknown


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The groups that are compared, of the rows `kept` (n,). `reference`: the declared one, None where the data choose it;
    `excluded`: groups that are left out, with their rows."""

    groups: Groups
    kept: NDArray[np.bool_]
    reference: str | None
    excluded: dict[str, int]


def choose_groups(attribute: str, groups: Groups, reference: Sequence[str] | None, smallest_share: float | None) -> Chosen:
    """The groups with at least `smallest_share` of the rows; several names of a `reference` are one group, "A, B" ("A, B (2)"
    where another group has that name).

    Raises `InputError` for a reference that no row is in, for one that is too small, and for one of several groups that
    leaves no other. Of a crossing, where the reference is
    every combination of what its columns declare, those that do not occur are left out as long as one does.
    """
    wanted = list(dict.fromkeys(reference or ()))
    present = [name for name in wanted if name in groups.names]
    is_crossing = any(len(parts) > 1 for parts in groups.parts)
    if strange := [name for name in wanted if name not in present and not (present and is_crossing)]:
        raise InputError(f"{attribute}: {unknown('group', strange[0], groups.names)}; no row of the data is in it")
    if len(present) == len(groups.names) > 1:
        raise InputError(
            f"{attribute}: got all groups of {attribute} as privileged, expected at least one other; "
            "name those alone that the others are compared with"
        )
    pooled, declared = _pooled(groups, present) if present else (groups, None)
    rows = np.bincount(pooled.codes, minlength=len(pooled.names))
    small = rows < (smallest_share or 0.0) * len(pooled.codes)
    excluded = {name: int(n) for name, n, out in zip(pooled.names, rows, small, strict=True) if out}
    if declared in excluded:
        raise InputError(
            f"{attribute}: got the reference {declared} with {excluded[declared]:,} of {len(pooled.codes):,} rows, expected a "
            f"share of at least {smallest_share:g}; name another reference, or lower the share"
        )
    if small.all():
        raise InputError(
            f"{attribute}: got {len(rows)} groups, none with a share of at least {smallest_share or 0:g} of "
            f"{len(pooled.codes):,} rows, expected two such groups; lower the share"
        )
    kept = ~small[pooled.codes]
    return Chosen(groups=_only(pooled, ~small, kept), kept=kept, reference=declared, excluded=excluded)


def _pooled(groups: Groups, names: list[str]) -> tuple[Groups, str]:
    """The named groups as one, in the place of the first of them, and what it is called."""
    members = [groups.names.index(name) for name in names]
    first = min(members)
    name = free_name(", ".join(names), set(groups.names) - set(names))
    values = [dict.fromkeys(part) for part in zip(*(groups.parts[place] for place in members), strict=True)]
    taken = [set(part) - set(own) for part, own in zip(zip(*groups.parts, strict=True), values, strict=True)]
    renamed, parts = list(groups.names), list(groups.parts)
    renamed[first] = name
    parts[first] = tuple(free_name(", ".join(part), others) for part, others in zip(values, taken, strict=True))
    codes = np.where(np.isin(groups.codes, members), first, groups.codes)
    whole = Groups(codes=codes, names=renamed, parts=parts, cut=groups.cut)
    inside = np.array([place == first or place not in members for place in range(len(renamed))])
    return _only(whole, inside, np.ones(len(codes), bool)), name


def _only(groups: Groups, inside: NDArray[np.bool_], kept: NDArray[np.bool_]) -> Groups:
    places = np.cumsum(inside) - 1
    return Groups(
        codes=places[groups.codes[kept]].astype(np.int64),
        names=[name for name, one in zip(groups.names, inside, strict=True) if one],
        parts=[part for part, one in zip(groups.parts, inside, strict=True) if one],
        cut=groups.cut,
    )
