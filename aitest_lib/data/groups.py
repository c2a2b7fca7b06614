"""The groups that rows belong to: by the values of a protected column, or of two crossed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain, count, pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from aitest_lib.data.schema import Column, distinct_texts
from aitest_lib.errors import InputError

MOST_GROUPS = 50
FEW_NUMBERS = 10  # so many distinct numbers are groups by themselves
CROSS = " × "
MISSING = "missing"


@dataclass(frozen=True, kw_only=True)
class Groups:
    """Which group each row is in.

    `codes` (n,): places in `names`, which are distinct; every name has a row. `parts`: by name its value in each column (one;
    two where columns are crossed). `cut`: how numbers or dates were made groups, None where the values are the groups.
    """

    codes: NDArray[np.int64]
    names: list[str]
    parts: list[tuple[str, ...]]
    cut: str | None = None


def group_codes(values: pa.ChunkedArray, column: Column, edges: Sequence[float] | None = None) -> Groups:
    """One group a value, sorted by text; a missing value is the last group, "missing", of its own ("no value" where a value is
    called so).

    Numbers, sorted as numbers, are cut at `edges` (ascending) where given: each range has its lower edge and not its upper one,
    so that [40, 65] gives "< 40", "40 .. 64" of whole numbers or "40 .. < 65" of others, and ">= 65". Without edges at
    most 10 distinct numbers are groups by themselves, more are cut at the quartiles of the data, and so are dates; such a
    range has its upper edge ("39 .. 52" is 39 < x <= 52), as the slices of a report have. Raises `InputError` for edges that do
    not ascend or belong to no numbers, and for more than 50 groups.
    """
    if edges is not None:
        _check_edges(column, edges)
    if column.numeric:
        codes, names, cut = _of_numbers(values, column, edges)
    elif column.kind == "datetime":
        codes, names, cut = _of_dates(values, column)
    else:
        codes, names = _of_values(values)
        cut = None
    return _present(codes, names, [(name,) for name in names], cut, column.name)


def crossed(first: Groups, second: Groups, name: str) -> Groups:
    """The groups of two columns together, "Female × Black", of the combinations that occur; a name that two would share is
    that of the first, and of the second with " (2)".

    `name`: what the crossing is called ("sex × race") where it has more than 50 groups, which is an `InputError`.
    """
    codes = first.codes * len(second.names) + second.codes
    parts = [one + other for one in first.parts for other in second.parts]
    names = [one + CROSS + other for one in first.names for other in second.names]
    cuts = [groups.cut for groups in (first, second) if groups.cut]
    return _present(codes, names, parts, "; ".join(cuts) or None, name)


def free_name(name: str, taken: Collection[str]) -> str:
    """The name, with " (2)" or the next number after it where it is taken.

    >>> free_name("a", ["b"]), free_name("a", ["a", "a (2)"])
    ('a', 'a (3)')
    """
    return next(one for one in chain([name], (f"{name} ({place})" for place in count(2))) if one not in taken)


def _check_edges(column: Column, edges: Sequence[float]) -> None:
    if not column.numeric:
        raise InputError(f"got edges for {column.name}, a column of kind {column.kind}, expected numbers; leave the edges out")
    ascending = all(low < high for low, high in pairwise(edges))
    if not (len(edges) and ascending and np.isfinite(edges).all()):
        raise InputError(f"got edges {list(edges)} for {column.name}, expected at least one, in ascending order; sort them")


def _of_numbers(
    values: pa.ChunkedArray, column: Column, edges: Sequence[float] | None
) -> tuple[NDArray[np.int64], list[str], str | None]:
    numbers = values.cast(pa.float64(), safe=False).to_numpy()
    missing = np.isnan(numbers)
    if edges is None and pa.types.is_integer(values.type):
        # Beyond 2^53 different integers are one float.
        exact = pc.fill_null(values, 0).to_numpy()
        distinct = np.unique(exact[~missing])
        if len(distinct) <= FEW_NUMBERS:
            names = [str(value) for value in distinct.tolist()]
            return _with_missing(np.searchsorted(distinct, exact), missing, names), [*names, MISSING], None
    if edges is not None:
        names = _left_closed(list(edges), column.kind == "integer")
        codes = np.searchsorted(edges, numbers, side="right")
        return _with_missing(codes, missing, names), [*names, MISSING], None
    distinct = np.unique(numbers[~missing])
    if len(distinct) <= FEW_NUMBERS:
        codes = np.searchsorted(distinct, numbers)
        names = list(distinct_texts(tuple(distinct.tolist()))) if len(distinct) else []
        return _with_missing(codes, missing, names), [*names, MISSING], None
    quartiles = np.unique(np.quantile(numbers[~missing], [0.25, 0.5, 0.75]))
    names = _right_closed(distinct_texts(tuple(quartiles.tolist())))
    codes = np.searchsorted(quartiles, numbers, side="left")
    return _with_missing(codes, missing, names), [*names, MISSING], f"{column.name} is a number: its groups are its quartiles"


def _of_dates(values: pa.ChunkedArray, column: Column) -> tuple[NDArray[np.int64], list[str], str | None]:
    moments = values.cast(pa.timestamp("us"), safe=False).to_numpy().astype("datetime64[us]")
    missing = np.isnat(moments)
    times = moments.astype(np.int64)
    present = times[~missing]
    quartiles = np.unique(np.quantile(present, [0.25, 0.5, 0.75], method="lower")) if len(present) else present
    edges = quartiles.astype("datetime64[us]")
    days = [str(edge) for edge in edges.astype("datetime64[D]")]
    texts = days if len(set(days)) == len(days) else [str(edge) for edge in edges]
    names = _right_closed(texts) if texts else []
    codes = np.searchsorted(quartiles, times, side="left")
    return _with_missing(codes, missing, names), [*names, MISSING], f"{column.name} is a date: its groups are its quartiles"


def _of_values(values: pa.ChunkedArray) -> tuple[NDArray[np.int64], list[str]]:
    if pa.types.is_null(values.type):
        values = values.cast(pa.string())
    elif pa.types.is_floating(values.type):
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
    encoded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
    encoded = encoded.unify_dictionaries().combine_chunks()
    texts = [_text(value) for value in encoded.dictionary.to_pylist()]
    names = sorted({text for text in texts if text is not None})
    place = {name: code for code, name in enumerate(names)}
    # A null can stand in the indices or in the dictionary itself.
    of_index = np.array([place.get(text, len(names)) if text is not None else len(names) for text in texts] + [len(names)])
    indices = pc.fill_null(encoded.indices.cast(pa.int64()), len(texts)).to_numpy()
    return of_index[indices], [*names, MISSING if MISSING not in names else free_name("no value", names)]


def _text(value: object) -> str | None:
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def _left_closed(edges: list[float], whole: bool) -> list[str]:
    texts = distinct_texts(tuple(edges))
    whole = whole and all(float(edge).is_integer() for edge in edges)
    names = [f"< {texts[0]}"]
    for (low, high), end in zip(pairwise(texts), edges[1:], strict=True):
        last = f"{end - 1:.0f}" if whole else f"< {high}"
        names.append(low if last == low else f"{low} .. {last}")
    return [*names, f">= {texts[-1]}"]


def _right_closed(texts: list[str]) -> list[str]:
    return [f"<= {texts[0]}", *(f"{low} .. {high}" for low, high in pairwise(texts)), f"> {texts[-1]}"]


def _with_missing(codes: NDArray[np.int64], missing: NDArray[np.bool_], names: list[str]) -> NDArray[np.int64]:
    return np.where(missing, len(names), codes)


def _present(codes: NDArray[np.int64], names: list[str], parts: list[tuple[str, ...]], cut: str | None, column: str) -> Groups:
    """Without the groups that no row is in."""
    kept = np.flatnonzero(np.bincount(codes, minlength=len(names)))
    if len(kept) > MOST_GROUPS:
        raise InputError(
            f"got {len(kept)} groups in {column}, expected at most {MOST_GROUPS}; merge values in the data, or leave it out"
        )
    places = np.full(len(names), -1)
    places[kept] = np.arange(len(kept))
    own = [names[i] for i in kept]
    distinct: list[str] = []
    for name in own:
        distinct.append(name if name not in distinct else free_name(name, {*own, *distinct}))
    return Groups(codes=places[codes], names=distinct, parts=[parts[i] for i in kept], cut=cut)
