"""Rows of raw bytes with small numbers beside them, in one Parquet object of row groups that are unpacked one by one."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from aitest_lib.artifacts.store import Store
from aitest_lib.errors import ArtifactMissing
from aitest_lib.types import ArtifactRef

GROUP_BYTES = 8 << 20  # of raw bytes in a row group, which is the least that `read_packed` unpacks

T = TypeVar("T")
Rows = Sequence[int] | NDArray[np.integer]


def group_rows(sizes: Iterable[int]) -> int:
    """How many rows a group has, from the bytes of each row."""
    return max(1, GROUP_BYTES // max(1, max(sizes, default=1)))


def put_packed(store: Store, schema: pa.Schema, groups: Iterable[pa.Table]) -> ArtifactRef:
    """Stores each table of `groups` as a row group; only one is in memory. Equal tables make equal bytes."""
    numbers = [field.name for field in schema if not pa.types.is_binary(field.type)]
    sink, rows = io.BytesIO(), 0
    with pq.ParquetWriter(sink, schema, compression="zstd", use_dictionary=numbers, write_statistics=numbers) as writer:
        for table in groups:
            writer.write_table(table)
            rows += table.num_rows
    return store.put(sink.getvalue(), "parquet", rows)


def read_packed(
    store: Store, ref: ArtifactRef, schema: pa.Schema, rows: Rows | None, unpack: Callable[[dict[str, Any], str], T], kind: str
) -> list[T]:
    """All stored rows, or those at `rows` in their order, each turned by `unpack(row, url)` into what owns its memory.

    `kind`: what the rows are, for the message (`images`). `ArtifactMissing` for an object that does not hold these.
    """
    url = store.url_of(ref.uri)
    data = store.get(ref)
    wanted = np.arange(ref.rows) if rows is None else np.asarray(rows, np.int64)
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        if not file.schema_arrow.equals(schema) or file.metadata.num_rows != ref.rows:
            raise ArtifactMissing(url, f"it does not hold {ref.rows} {kind}")
        if len(wanted) and not 0 <= wanted.min() <= wanted.max() < ref.rows:
            raise ArtifactMissing(url, f"it holds {ref.rows} {kind}, row {wanted.max()} was asked for")
        return _read(file, wanted, lambda row: unpack(row, url))
    except (pa.ArrowException, OSError) as error:
        raise ArtifactMissing(url, f"it is not a readable Parquet file ({error})") from error


def _read(file: pq.ParquetFile, wanted: NDArray[np.int64], unpack: Callable[[dict[str, Any]], T]) -> list[T]:
    """The rows at `wanted`, of which only the row groups that hold them are unpacked."""
    sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    ends = np.cumsum(sizes)
    found: dict[int, T] = {}
    for group in np.unique(np.searchsorted(ends, wanted, side="right")).tolist():
        start = int(ends[group]) - sizes[group]
        places = np.flatnonzero((wanted >= start) & (wanted < ends[group]))
        rows = file.read_row_group(group).take(pa.array(wanted[places] - start)).to_pylist()
        found.update(zip(places.tolist(), map(unpack, rows), strict=True))
    return [found[place] for place in range(len(wanted))]
