"""Tables to and from Parquet (zstd): whole for a shard, streamed for what may be large."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from aitest_lib.artifacts.store import Store
from aitest_lib.errors import ArtifactMissing, StoreError
from aitest_lib.types import ArtifactRef


def put_table(store: Store, table: pa.Table) -> ArtifactRef:
    """Stores an Arrow table as one Parquet object."""
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd")
    return store.put(sink.getvalue(), "parquet", table.num_rows)


def get_table(store: Store, ref: ArtifactRef, columns: list[str] | None = None) -> pa.Table:
    """A stored table, or those of its columns that `columns` names."""
    return decode_table(store.get(ref), store.url_of(ref.uri), columns)


def decode_table(data: bytes, uri: str, columns: list[str] | None = None) -> pa.Table:
    """Parquet bytes as a table; anything else is `ArtifactMissing`."""
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        return file.read([name for name in file.schema_arrow.names if columns is None or name in columns])
    except (pa.ArrowInvalid, OSError) as error:
        raise ArtifactMissing(uri, f"it is not a readable Parquet file ({error})") from error


class TableWriter:
    """Writes one large Parquet artifact piece by piece, so that memory does not grow with its rows.

    Use as a context manager; `ref` is there after a clean exit.
    """

    def __init__(self, store: Store, schema: pa.Schema, metadata: dict[str, str] | None = None) -> None:
        self._store = store
        self._schema = schema.with_metadata({**(schema.metadata or {}), **(metadata or {})})
        self._rows = 0
        self.ref: ArtifactRef | None = None

    def __enter__(self) -> Self:
        self._file: Path = self._store.scratch()
        self._writer: Any = pq.ParquetWriter(self._file, self._schema, compression="zstd")
        return self

    def write(self, table: pa.Table) -> None:
        """Appends one row group."""
        with self._writing():
            self._writer.write_table(table.cast(self._schema))
        self._rows += table.num_rows

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None:
            with suppress(OSError):  # the footer of a file that is thrown away
                self._writer.close()
            self._file.unlink(missing_ok=True)
            return
        try:
            with self._writing():
                self._writer.close()
        except StoreError:
            self._file.unlink(missing_ok=True)
            raise
        self.ref = self._store.put_file(self._file, "parquet", self._rows)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreError(f"cannot write {self._file}: {error}; check the disk of the store {self._store.url}") from error
