"""Text files of rows as Arrow tables: every type is inferred from all rows, and no number is rounded into another."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.json as pajson

# What counts as missing in a CSV. "None" and "?" are not in it: both occur as real categories.
CSV_NULLS = ["", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "#N/A", "<NA>"]
# One block: the type of a column is inferred from all its rows, not from the first megabyte.
BLOCK_BYTES = 2**31 - 1


def read_csv(file: Any) -> pa.Table:
    """A whole CSV file; clock times, and whole numbers beyond 64 bits, stay text."""
    table = _parse_csv(file, {})
    # Arrow takes 09:30 for a time, which no model is sent, and rounds whole numbers beyond 64 bits, which makes two ids one.
    doubtful = {
        field.name: pa.string()
        for field, column in zip(table.schema, table.columns, strict=True)
        if pa.types.is_time(field.type) or (pa.types.is_floating(field.type) and _beyond_int64(column))
    }
    if not doubtful:
        return table
    file.seek(0)
    texts = _parse_csv(file, doubtful)
    for place, field in enumerate(table.schema):
        text = texts.column(place)
        if field.name in doubtful and (pa.types.is_time(field.type) or _whole_numbers(text)):
            table = table.set_column(place, pa.field(field.name, pa.string()), text)
    return table


def read_json(file: Any) -> pa.Table:
    """A whole JSON Lines file."""
    return pajson.read_json(file, read_options=pajson.ReadOptions(block_size=BLOCK_BYTES))


def _beyond_int64(column: pa.ChunkedArray) -> bool:
    """Does a column of doubles reach what no int64 holds."""
    return bool(pc.any(pc.greater_equal(pc.abs(column), float(2**63))).as_py())


def _whole_numbers(column: pa.ChunkedArray) -> bool:
    return bool(pc.all(pc.match_substring_regex(column, r"^[+-]?[0-9]+$")).as_py())


def _parse_csv(file: Any, types: dict[str, pa.DataType]) -> pa.Table:
    return pacsv.read_csv(
        file,
        read_options=pacsv.ReadOptions(block_size=BLOCK_BYTES),
        convert_options=pacsv.ConvertOptions(null_values=CSV_NULLS, strings_can_be_null=True, column_types=types),
    )
