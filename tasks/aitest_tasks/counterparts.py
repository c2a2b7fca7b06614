"""What is put into rows by properties that compare a row with itself: other protected values, or one column moved."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aitest_lib.artifacts.codecs import get_table
from aitest_lib.config.fairness import Expectation, expectations
from aitest_lib.data.counterparts import Combinations, combined_values
from aitest_lib.data.schema import Column
from aitest_lib.data.table import to_frame
from aitest_lib.errors import InputError, unknown
from aitest_lib.properties.catalog import spec
from aitest_lib.transforms.values import MovedColumn, ProtectedValues, PutValues
from aitest_tasks.protected import group_medians
from aitest_tasks.runs import Run

PAIR_ROWS = 2_000  # real rows that get other protected values: 9 % are known to 1 point, 1 % to half a point
MOVED_ROWS = 500  # rows whose columns are moved
STEPS = 12  # values that a column is set to by the shares of rows, and as many by its distinct values


def rows_looked_at(run: Run, index: int) -> int:
    """How many seeds, the first in rank order, get counterparts: a random sample of the data."""
    config = run.suite.suite.properties[index]
    most = config.rows or (PAIR_ROWS if spec(config.property).by_protected else MOVED_ROWS)
    return min(most, int(run.prepared["seeds"]))


def put_values(run: Run, index: int) -> list[PutValues]:
    """The components of a property that compares rows with themselves."""
    config = run.suite.suite.properties[index]
    if spec(config.property).by_protected:
        columns = changed_columns(run)
        if not columns:
            return []
        values = combinations(run).values
        return [ProtectedValues(values=row) for row in rows_as_dicts(values)]
    return [
        MovedColumn(column=name, to=value)
        for name, expected in expectations(config.directions).items()
        for value in steps(run, name, expected)
    ]


def changed_columns(run: Run) -> list[str]:
    """The protected columns that the model is sent."""
    return [name for name in run.suite.suite.data.protected if name in run.record["columns"]]


def combinations(run: Run) -> Combinations:
    """The combinations of protected values that are tried: of numbers the median of each of their groups, and the row's own."""
    columns = changed_columns(run)
    numbers = {name: group_medians(run, name) for name in columns if run.profile[name].numeric}
    return combined_values(run.profile, columns, numbers)


def rows_as_dicts(values: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of plain values as dictionaries, without what is None."""
    rows = [dict(zip(values.columns, row, strict=True)) for row in values.itertuples(index=False)]
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


def steps(run: Run, name: str, expected: Expectation) -> list[Any]:
    """The values that a column is set to, from the least to the most: those of the seeds that split the rows, and the distinct
    values, into equal parts."""
    column = run.profile[name]
    if expected.order is not None:
        return _ordered(column, expected)
    if column.kind == "boolean":
        return [False, True]
    if not column.numeric:
        raise InputError(
            f"directions.{name}: got a column of kind {column.kind}, expected numbers or true/false; of categories give the "
            f"order: {{{expected.expected}: {expected.on or 'score'}, order: [least, …, most]}}"
        )
    cells = seed_frame(run, [name])[name].to_numpy(float, na_value=np.nan)
    cells = cells[~np.isnan(cells)]
    if len(np.unique(cells)) < 2:
        raise InputError(f"directions.{name}: got one value only in the data, expected at least two to move between")
    shares = np.linspace(0, 1, STEPS)
    found = np.unique([np.quantile(part, shares, method="nearest") for part in (cells, np.unique(cells))])
    return [int(value) for value in found] if column.kind == "integer" else [float(value) for value in found]


def _ordered(column: Column, expected: Expectation) -> list[Any]:
    known = column.allowed or column.values
    for value in expected.order or []:
        if value not in known:
            raise InputError(f"directions.{column.name}.order: {unknown('value', str(value), [str(one) for one in known])}")
    return list(expected.order or [])


def seed_frame(run: Run, columns: list[str], rows: int | None = None) -> pd.DataFrame:
    """Public columns of the seeds in rank order, the first `rows` of them, as a model would get them."""
    nullable = [column.name for column in run.profile.columns if column.missing]
    frames, left = [], int(run.prepared["seeds"]) if rows is None else rows
    for ref in run.seeds:
        if left > 0:
            frames.append(to_frame(get_table(run.store, ref, columns).slice(0, left), nullable))
            left -= ref.rows
    return pd.concat(frames, ignore_index=True)


def shard_rows(run: Run, rows: int) -> list[NDArray[np.int64]]:
    """Of each shard of seeds the rows that are among the first `rows` seeds."""
    starts = np.cumsum([0, *(ref.rows for ref in run.seeds)])[:-1]
    return [np.arange(max(min(ref.rows, rows - start), 0)) for ref, start in zip(run.seeds, starts.tolist(), strict=True)]
