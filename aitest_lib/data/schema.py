"""What the columns of a table are: inferred from the data, overridable in the suite, the same for every row order.

The profile is JSON data; its digest is part of the key of every generated case.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import Field, model_validator

from aitest_lib.config.loading import StrictModel
from aitest_lib.data.rules import parse_rule
from aitest_lib.data.table import TableSource, frame_cells, json_cells
from aitest_lib.errors import InputError, unknown

Kind = Literal["integer", "number", "boolean", "category", "text", "datetime"]
# A text column with more distinct values than this, and more than a fifth of its rows distinct, is no category.
MANY_VALUES = 50
MANY_SHARE = 0.2
MAX_CATEGORIES = 1_000
MAX_COMBINATIONS = 5_000  # of a tied group; the most frequent ones are kept
SIGNIFICANT = 12  # digits kept of a mean or deviation: the same number whatever the order of the rows


class ColumnOverride(StrictModel):
    """What a suite may say of one column (`data.schema.<column>`)."""

    type: Kind | None = None
    min: float | None = None
    max: float | None = None
    categories: list[str | bool | int | float] | None = None
    missing: bool | None = Field(default=None, description="may the value be missing; inferred from the data")
    immutable: bool = Field(default=False, description="never changed by a transform")
    tied: str | list[str] | None = Field(default=None, description="column or columns that move together with this one")
    one_hot: str | None = Field(default=None, description="name of the one-hot group that this 0/1 column belongs to")
    private: bool = Field(default=False, description="sent to the model, appears nowhere else")
    ignore: bool = Field(default=False, description="no feature: never changed, no slice, sent only if the card lists it")

    @model_validator(mode="after")
    def _ordered(self) -> ColumnOverride:
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"got min {self.min:g} above max {self.max:g}, expected min <= max; swap them")
        return self


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column. `values` and `counts`: the observed values, sorted, of categories and booleans."""

    name: str
    kind: Kind
    min: float | None = None
    max: float | None = None
    sd: float = 0.0
    quartiles: tuple[float, ...] = ()
    values: tuple[Any, ...] = ()
    counts: tuple[int, ...] = ()
    allowed: tuple[Any, ...] | None = None  # None: any text
    missing: bool = False
    immutable: bool = False
    private: bool = False
    ignored: bool = False

    @property
    def numeric(self) -> bool:
        """Is it a number that can be moved a little."""
        return self.kind in ("integer", "number")

    @property
    def fixed(self) -> bool:
        """May no transform change it."""
        return self.immutable or self.private or self.ignored


@dataclass(frozen=True, kw_only=True)
class Tied:
    """Columns that move together, with the observed combinations (sorted) and how often each occurs."""

    columns: tuple[str, ...]
    values: tuple[tuple[Any, ...], ...]
    counts: tuple[int, ...]
    one_hot: bool = False


@dataclass(frozen=True, kw_only=True)
class Profile:
    """The columns of a table, its tied groups and rules."""

    columns: tuple[Column, ...]
    tied: tuple[Tied, ...] = ()
    rules: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Column:
        return self.by_name[name]

    @cached_property
    def by_name(self) -> dict[str, Column]:
        """Columns by name."""
        return {column.name: column for column in self.columns}

    @property
    def private(self) -> list[str]:
        """Names of the private columns."""
        return [column.name for column in self.columns if column.private]

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return asdict(self)

    @classmethod
    def of(cls, data: dict[str, Any]) -> Profile:
        """Inverse of `to_dict` (also after a JSON round trip)."""
        return cls(
            columns=tuple(Column(**_tuples(column)) for column in data["columns"]),
            tied=tuple(
                Tied(
                    columns=tuple(group["columns"]),
                    values=tuple(tuple(row) for row in group["values"]),
                    counts=tuple(group["counts"]),
                    one_hot=group["one_hot"],
                )
                for group in data["tied"]
            ),
            rules=tuple(data["rules"]),
        )


def _tuples(data: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in data.items()}


def build_profile(
    test: TableSource, train: TableSource | None, overrides: dict[str, ColumnOverride], rules: list[str], skip: set[str]
) -> Profile:
    """Infers the schema of every column of `test` but those in `skip` (the label).

    Spread and frequencies come from `train` where it has the column (else from `test`); ranges, categories and
    missing values from both, since a seed of the test data must satisfy the schema that its cases are held to.
    """
    names = [name for name in test.schema.names if name not in skip]
    for name, override in overrides.items():
        if name not in test.schema.names:
            raise InputError(f"data.schema: {unknown('column', name, test.schema.names)}")
        if name in skip and override.private:
            raise InputError(f"data.schema.{name}.private: the label stands in every report; remove private or the label")
    columns = []
    for name in names:
        reference = train if train is not None and name in train.schema.names else test
        values = _column(reference, name)
        others = _column(test, name) if reference is not test else values
        columns.append(_infer(name, values, others, overrides.get(name, ColumnOverride())))
    by_name = {column.name: column for column in columns}
    for rule in rules:
        parse_rule(rule, names)
    groups = _tied_groups(overrides, by_name)
    source = train if train is not None and all(name in train.schema.names for group, _ in groups for name in group) else test
    return Profile(
        columns=tuple(columns),
        tied=tuple(_count_group(source, group, one_hot, by_name) for group, one_hot in groups),
        rules=tuple(rules),
    )


def invalid_reasons(frame: pd.DataFrame, profile: Profile) -> NDArray[np.object_]:
    """For each row why it breaks the schema (range, category, missing value, one-hot group, rule), or None."""
    reasons = np.full(len(frame), None, dtype=object)

    def mark(bad: NDArray[np.bool_], text: str) -> None:
        reasons[bad & (reasons == None)] = text  # noqa: E711  (elementwise)

    for column in profile.columns:
        if column.name not in frame:
            continue
        values = frame[column.name]
        missing = values.isna().to_numpy()
        if not column.missing and missing.any():
            mark(missing, f"{column.name} may not be missing")
        if column.numeric:
            number = pd.to_numeric(values, errors="coerce").to_numpy(float, na_value=np.nan)
            if column.min is not None:
                mark(number < column.min, f"{column.name} is below {column.min:g}")
            if column.max is not None:
                mark(number > column.max, f"{column.name} is above {column.max:g}")
        elif column.allowed is not None:
            known = pd.Series(frame_cells(values), dtype=object).isin(column.allowed).to_numpy()
            mark(~missing & ~known, f"{column.name} is no known category")
    for group in profile.tied:
        if group.one_hot and all(name in frame for name in group.columns):
            total = frame[list(group.columns)].astype(float).sum(axis=1).to_numpy()
            mark(total != 1, f"one-hot group {', '.join(group.columns)} does not add up to 1")
    for text in profile.rules:
        rule = parse_rule(text, list(profile.by_name))
        if rule.columns <= set(frame.columns):
            mark(~rule.holds(frame), f"rule {text}")
    return reasons


def is_valid(frame: pd.DataFrame, profile: Profile) -> NDArray[np.bool_]:
    """Which rows satisfy the schema (n,)."""
    return np.array([reason is None for reason in invalid_reasons(frame, profile)], bool)


def slice_labels(values: pa.ChunkedArray, column: Column) -> list[str]:
    """The slice each value falls in: the category, or the quartile range for numbers and dates."""
    if column.numeric and len(column.quartiles) == 3:
        low, middle, high = distinct_texts(column.quartiles)
        names = [f"<= {low}", f"{low} .. {middle}", f"{middle} .. {high}", f"> {high}"]
        number = values.cast(pa.float64(), safe=False).to_numpy()
        place = np.searchsorted(np.array(column.quartiles), number, side="left")
        return ["missing" if np.isnan(x) else names[i] for x, i in zip(number, place, strict=True)]
    texts = {True: "true", False: "false", None: "missing"} if column.kind == "boolean" else {None: "missing"}
    return [texts[value] if value in texts else str(value) for value in values.to_pylist()]


def distinct_texts(edges: tuple[float, ...]) -> list[str]:
    """Distinct numbers with 6 digits, or as many as it takes to tell them apart."""
    texts = ([f"{edge:.{digits}g}" for edge in edges] for digits in range(6, 18))
    return next(text for text in texts if len(set(text)) == len(edges))


def sliceable(column: Column) -> bool:
    """Can the column be cut into a few slices that mean something."""
    if column.private or column.ignored:
        return False
    if column.numeric:
        return len(column.quartiles) == 3
    return column.kind in ("category", "boolean") and 1 < len(column.values) <= MANY_VALUES


def _column(source: TableSource, name: str) -> pa.ChunkedArray:
    return pa.chunked_array([chunk for batch in source.batches([name]) for chunk in batch.column(name).chunks])


def _infer(name: str, values: pa.ChunkedArray, others: pa.ChunkedArray, override: ColumnOverride) -> Column:
    kind = override.type or _kind(values)
    if override.type is None and kind == "integer" and _kind(others) == "number":
        kind = "number"
    both = [values] if others is values else [values, others]
    missing = any(part.null_count for part in both) if override.missing is None else override.missing
    common: dict[str, Any] = {
        "name": name,
        "kind": kind,
        "missing": missing,
        "immutable": override.immutable,
        "private": override.private,
        "ignored": override.ignore,
    }
    if override.private:
        return Column(**common)  # nothing of its content may leave: no range, no category
    if kind in ("integer", "number"):
        for part in both:
            if not _is_number(part.type):
                raise InputError(
                    f"data.schema.{name}.type: got {part.type} in the data, expected numbers for type {kind}; "
                    "clean the column (also that of the training data) or change its type"
                )
        number = np.sort(values.drop_null().cast(pa.float64(), safe=False).to_numpy())
        ends = [np.sort(part.drop_null().cast(pa.float64(), safe=False).to_numpy()) for part in both]
        ends = [part for part in ends if len(part)]
        quartiles = tuple(dict.fromkeys(float(q) for q in np.quantile(number, [0.25, 0.5, 0.75]))) if len(number) else ()
        return Column(
            **common,
            min=override.min if override.min is not None else min((float(part[0]) for part in ends), default=None),
            max=override.max if override.max is not None else max((float(part[-1]) for part in ends), default=None),
            sd=_spread(number),
            quartiles=quartiles,
        )
    if kind == "datetime":
        return Column(**common)
    counted = Counter(json_cells(values.drop_null()))
    allowed = set(counted).union(*(json_cells(part.drop_null().unique()) for part in both))
    if override.categories is not None:
        allowed = set(override.categories)
        counted = Counter({value: count for value, count in counted.items() if value in allowed})
    if kind == "text" and override.categories is None:
        return Column(**common)
    ordered = sorted(counted, key=str)
    return Column(
        **common,
        values=tuple(ordered),
        counts=tuple(counted[value] for value in ordered),
        allowed=tuple(sorted(allowed, key=str)),
    )


def _kind(values: pa.ChunkedArray) -> Kind:
    kind = values.type
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_integer(kind):
        return "integer"
    if pa.types.is_floating(kind):
        present = values.drop_null()
        whole = len(present) > 0 and pc.all(pc.equal(present, pc.floor(present))).as_py()
        return "integer" if whole else "number"
    if pa.types.is_timestamp(kind):
        return "datetime"
    distinct = pc.count_distinct(values, mode="only_valid").as_py()
    many = distinct > MANY_VALUES and (distinct > MANY_SHARE * max(len(values), 1) or distinct > MAX_CATEGORIES)
    return "text" if many else "category"


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _spread(number: NDArray[np.float64]) -> float:
    """Standard deviation of sorted numbers, which makes it the same sum for every row order."""
    if not len(number) or number[0] == number[-1]:
        return 0.0  # rounding would leave a constant column a deviation of about 1e-17
    scale = max(abs(number[0]), abs(number[-1]))  # squares of the largest doubles are no doubles
    return float(f"{np.std(number / scale) * scale:.{SIGNIFICANT}g}")


def _tied_groups(overrides: dict[str, ColumnOverride], columns: dict[str, Column]) -> list[tuple[tuple[str, ...], bool]]:
    """Connected groups of tied columns, and the one-hot groups; sorted."""
    parent = {name: name for name in columns}

    def root(name: str) -> str:
        while parent[name] != name:
            name = parent[name]
        return name

    one_hot: dict[str, list[str]] = {}
    for name, override in overrides.items():
        if name not in columns:
            continue
        for other in [override.tied] if isinstance(override.tied, str) else override.tied or []:
            if other not in columns:
                raise InputError(f"data.schema.{name}.tied: {unknown('column', other, columns)}")
            parent[root(name)] = root(other)
        if override.one_hot is not None:
            if columns[name].kind not in ("integer", "number", "boolean"):
                raise InputError(
                    f"data.schema.{name}.one_hot: got a column of kind {columns[name].kind}, expected 0 and 1 or true and false"
                )
            one_hot.setdefault(override.one_hot, []).append(name)
    groups: dict[str, list[str]] = {}
    for name in columns:
        groups.setdefault(root(name), []).append(name)
    for group, members in one_hot.items():
        if len(members) < 2:
            raise InputError(f"data.schema.{members[0]}.one_hot: group {group!r} has one column, expected at least two")
    tied = sorted((tuple(sorted(members)), False) for members in groups.values() if len(members) > 1)
    return tied + sorted((tuple(sorted(members)), True) for members in one_hot.values())


def _count_group(source: TableSource, names: tuple[str, ...], one_hot: bool, columns: dict[str, Column]) -> Tied:
    if any(columns[name].private for name in names):
        return Tied(columns=names, values=(), counts=(), one_hot=one_hot)  # never changed, so nothing is kept of it
    counted: Counter[tuple[Any, ...]] = Counter()
    for batch in source.batches(list(names)):
        counted.update(zip(*(json_cells(batch.column(name)) for name in names), strict=True))
    common = sorted(counted, key=lambda row: (-counted[row], str(row)))[:MAX_COMBINATIONS]
    ordered = sorted(common, key=str)
    return Tied(columns=names, values=tuple(ordered), counts=tuple(counted[row] for row in ordered), one_hot=one_hot)
