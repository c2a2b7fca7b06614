"""Tables: CSV, Parquet, JSONL or a DataFrame, read in batches of Arrow, with types made plain.

Every column ends as one of int64, double, bool, string or timestamp[us]; the logical kind (integer, category, …) is
the schema's business. Rows are known by position: a DataFrame's index, unique or not, plays no part.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from aitest_lib.canonical import DIGEST_BYTES, canonical_json, es_number
from aitest_lib.data.parsing import read_csv, read_json
from aitest_lib.errors import InputError, UnavailableError

FORMATS = {".csv": "csv", ".parquet": "parquet", ".pq": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl"}
BATCH_ROWS = 65_536
EXACT_FLOAT = 2**53

PANDAS_INDEX = re.compile(r"__index_level_\d+__")  # how pandas writes a nameless index into Parquet
R = TypeVar("R")

_memory: dict[str, pa.Table] = {}
_memory_lock = threading.Lock()


@dataclass(frozen=True)
class TableSource:
    """Where a table comes from: a path or fsspec URL, or `memory:<digest>` for a DataFrame given in Python."""

    url: str

    @property
    def in_memory(self) -> bool:
        """Does the table live in this process only."""
        return self.url.startswith("memory:") and not self.url.startswith("memory://")

    @cached_property
    def format(self) -> str:
        """csv, parquet, jsonl or memory; told by the file's ending."""
        if self.in_memory:
            return "memory"
        suffix = Path(self.url).suffix.lower()
        if suffix not in FORMATS:
            raise InputError(f"data {self.url}: got the ending {suffix or '(none)'!r}, expected one of {', '.join(FORMATS)}")
        return FORMATS[suffix]

    def digest(self) -> str:
        """BLAKE2b-128 of the file's bytes (of the Arrow data for a DataFrame)."""
        if self.in_memory:
            return self.url.removeprefix("memory:")
        hasher = blake2b(digest_size=DIGEST_BYTES)
        with self._open() as file:
            while chunk := file.read(1 << 20):
                hasher.update(chunk)
        return hasher.hexdigest()

    @cached_property
    def schema(self) -> pa.Schema:
        """Column names and plain types."""
        if self.format == "parquet":
            with self._open() as file:
                raw = _reading(self.url, lambda: pq.ParquetFile(file).schema_arrow)
            fields = [field for field in raw if not PANDAS_INDEX.fullmatch(field.name)]
            names = [field.name for field in fields]
            types = [plain_type(field.type, field.name, self.url) for field in fields]
        else:
            table = self._table
            names, types = table.column_names, list(table.schema.types)
        double = sorted({name for name in names if names.count(name) > 1})
        if double:
            raise InputError(f"data {self.url}: column {', '.join(map(repr, double))} occurs twice; rename one of them")
        return pa.schema(list(zip(names, types, strict=True)))

    @cached_property
    def rows(self) -> int:
        """Number of rows; an empty table is an error."""
        if self.format == "parquet":
            with self._open() as file:
                count = int(_reading(self.url, lambda: pq.ParquetFile(file).metadata.num_rows))
        else:
            count = self._table.num_rows
        if count == 0:
            raise InputError(f"data {self.url}: got no rows, expected at least one")
        return count

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The rows in order, in pieces of at most 65,536, with plain types."""
        names = list(self.schema.names if columns is None else columns)
        target = pa.schema([self.schema.field(name) for name in names])
        if self.format == "parquet":
            with self._open() as file:
                for batch in _record_batches(file, names, self.url):
                    yield plain_table(pa.Table.from_batches([batch]).select(names), self.url).cast(target)
            return
        table = self._table.select(names)
        for start in range(0, table.num_rows, BATCH_ROWS):
            yield table.slice(start, BATCH_ROWS)

    def take(self, positions: NDArray[np.int64], columns: Sequence[str]) -> pa.Table:
        """The rows at `positions` (any order), read in one pass without holding the others."""
        order = np.argsort(positions, kind="stable")
        wanted = positions[order]
        pieces, start = [], 0
        for batch in self.batches(columns):
            low, high = np.searchsorted(wanted, [start, start + batch.num_rows])
            if high > low:
                pieces.append(batch.take(pa.array(wanted[low:high] - start)))
            start += batch.num_rows
        found = pa.concat_tables(pieces) if pieces else next(self.batches(columns)).slice(0, 0)
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return found.take(pa.array(back)).combine_chunks()

    def _open(self) -> Any:
        try:
            return fsspec.open(self.url, "rb").open()
        except FileNotFoundError as error:
            raise InputError(f"data {self.url}: there is no such file; in a suite, paths are relative to it") from error
        except (PermissionError, IsADirectoryError) as error:
            raise InputError(f"data {self.url}: {error.strerror or error}; expected a readable table file") from error
        except (ImportError, ValueError) as error:  # a protocol that fsspec does not know, or lacks the package for
            raise InputError(f"data {self.url}: {error}; expected a path or an fsspec URL (s3:// needs aitest[s3])") from error
        except Exception as error:  # the clients of object stores have errors of their own
            raise UnavailableError(f"data {self.url} cannot be read: {error}; check the address and its credentials") from error

    @cached_property
    def _table(self) -> pa.Table:
        if self.in_memory:
            with _memory_lock:
                if self.url not in _memory:
                    raise InputError("the data of this run lived in the memory of another process; run it again from there")
                return _memory[self.url]
        with self._open() as file:
            if file.read(1) == b"":
                raise InputError(f"data {self.url}: got an empty file, expected rows")
            file.seek(0)
            table = _reading(self.url, lambda: read_csv(file) if self.format == "csv" else read_json(file))
        return _reading(self.url, lambda: plain_table(table, self.url))  # the names, too, may be no UTF-8


def memory_source(frame: pd.DataFrame) -> TableSource:
    """A DataFrame as a source. It stays in this process and is known by the digest of its content."""
    if not isinstance(frame, pd.DataFrame):
        raise InputError(f"data: got a {type(frame).__name__}, expected a pandas DataFrame or a path")
    named = frame.set_axis([str(name) for name in frame.columns], axis=1)
    double = sorted({name for name in named.columns if list(named.columns).count(name) > 1})
    if double:
        raise InputError(f"data: column {', '.join(map(repr, double))} occurs twice; rename one of them")
    for name in named.columns:
        try:
            pa.Table.from_pandas(named[[name]], preserve_index=False)
        except (pa.ArrowException, TypeError, OverflowError) as error:  # their texts hold the value: not shown
            raise InputError(
                f"data: column {name!r} mixes types or holds something else than numbers of up to 64 bits, text, booleans "
                "and dates; make it one of these"
            ) from error
    return memory_table(plain_table(pa.Table.from_pandas(named, preserve_index=False), "the DataFrame"))


def memory_table(table: pa.Table) -> TableSource:
    """An Arrow table of plain types as a source. It stays in this process and is known by the digest of its content."""
    hasher = blake2b(digest_size=DIGEST_BYTES)
    # With the types: a text "2020-01-01" and a date share their row digests, but not their schema.
    hasher.update(canonical_json([[field.name, str(field.type)] for field in table.schema]).encode())
    for row_digest in row_digests(table):
        hasher.update(row_digest.tobytes())
    url = f"memory:{hasher.hexdigest()}"
    with _memory_lock:
        _memory[url] = table
    return TableSource(url)


def plain_type(kind: pa.DataType, name: str, where: str) -> pa.DataType:
    """The plain type that a column of an Arrow type is read as; nested and binary ones are an `InputError`."""
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type, name, where)
    if pa.types.is_boolean(kind):
        return pa.bool_()
    if pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0):
        return pa.int64()  # also for whole decimals, which is how many databases give ids
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return pa.float64()
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind) or pa.types.is_null(kind):
        return pa.string()
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return pa.timestamp("us")
    hint = "drop or convert it"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        hint = "if it is text, save it as UTF-8; else drop it"
    raise InputError(f"data {where}: column {name!r} has type {kind}, expected numbers, text, booleans or dates; {hint}")


def plain_table(table: pa.Table, where: str) -> pa.Table:
    """The table with every column in its plain type; NaN becomes missing."""
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        target = plain_type(column.type, name, where)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_timestamp(column.type) and column.type.tz:
            column = column.cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us"), safe=False)
        try:
            column = column.cast(target, safe=not pa.types.is_timestamp(target))
        except pa.ArrowInvalid as error:
            raise InputError(
                f"data {where}: column {name!r} has type {column.type} with values beyond {target}; store it as text"
            ) from error
        if pa.types.is_string(target):
            try:
                column.validate(full=True)
            except pa.ArrowInvalid as error:
                raise InputError(
                    f"data {where}: column {name!r} holds text that is not UTF-8; save the file as UTF-8"
                ) from error
        if pa.types.is_floating(target):
            if pc.any(pc.is_inf(column)).as_py():
                raise InputError(f"data {where}: column {name!r} holds an infinity, expected finite numbers or missing values")
            column = pc.if_else(pc.is_nan(column), pa.scalar(None, target), column)
        columns.append(column)
    return pa.table(columns, names=table.column_names)


def row_digests(table: pa.Table) -> NDArray[np.void]:
    """BLAKE2b-128 of every row as canonical JSON (an object by column), as void16 (n,). Equal values, equal digests."""
    names = sorted(table.column_names, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
    if not names:
        return np.frombuffer(blake2b(b"{}", digest_size=DIGEST_BYTES).digest() * table.num_rows, dtype="V16")
    columns = [_fragments(table.column(name), f"{canonical_json(name)}:") for name in names]
    out = bytearray()
    for cells in zip(*columns, strict=True):
        text = "{" + ",".join(cells) + "}"
        out += blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()
    return np.frombuffer(bytes(out), dtype="V16")


def joined_digests(first: NDArray[np.void], second: NDArray[np.void]) -> NDArray[np.void]:
    """One digest for each pair of digests."""
    out = bytearray()
    for left, right in zip(first, second, strict=True):
        out += blake2b(left.tobytes() + right.tobytes(), digest_size=DIGEST_BYTES).digest()
    return np.frombuffer(bytes(out), dtype="V16")


def hex_digests(digests: NDArray[np.void]) -> list[str]:
    """Digests as hex text."""
    text = digests.tobytes().hex()
    width = 2 * DIGEST_BYTES
    return [text[start : start + width] for start in range(0, len(text), width)]


def to_frame(table: pa.Table, nullable: Collection[str] = ()) -> pd.DataFrame:
    """A table as a model expects it: writable NumPy columns.

    Integers are int64, but float64 with NaN where the column is `nullable` (as pandas reads them); booleans bool, but
    object where nullable. The type thus hangs on the column, never on which rows happen to share a batch. Integers too
    large for a float (above 2^53) keep their digits as pandas Int64.
    """
    columns: dict[str, Any] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        may_miss = name in nullable or column.null_count > 0
        if pa.types.is_integer(column.type) and may_miss:
            largest = pc.max(pc.abs(column)).as_py() or 0
            if largest > EXACT_FLOAT:
                columns[name] = column.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
                continue
            column = column.cast(pa.float64())
        if pa.types.is_string(column.type) or (pa.types.is_boolean(column.type) and may_miss):
            columns[name] = pd.Series(np.array(column.to_pylist(), dtype=object), dtype=object)
        else:
            columns[name] = pd.Series(np.array(column.to_pandas().to_numpy(), copy=True))
    return pd.DataFrame(columns, columns=table.column_names, index=pd.RangeIndex(table.num_rows))


def to_table(frame: pd.DataFrame, schema: pa.Schema) -> pa.Table:
    """Inverse of `to_frame`: the columns of `schema`, in its types."""
    arrays = [pa.Array.from_pandas(frame[field.name], type=field.type, safe=False) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def iso(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Timestamps as ISO 8601 text: a date alone where every time is midnight."""
    text = pc.strftime(column, format="%Y-%m-%dT%H:%M:%S")
    return pc.replace_substring_regex(text, r"T00:00:00\.0+$", "")


def json_cells(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The cells as JSON scalars: None where missing, dates as ISO 8601 text."""
    return list((iso(column) if pa.types.is_timestamp(column.type) else column).to_pylist())


def frame_cells(values: pd.Series[Any]) -> list[Any]:
    """The cells of a frame's column, as `json_cells` gives those of its table."""
    return json_cells(pa.Array.from_pandas(values))


def _fragments(column: pa.ChunkedArray, prefix: str) -> list[str]:
    """`"name":value` for every cell; each distinct value is written once."""
    if pa.types.is_timestamp(column.type):
        column = iso(column)
    encoded = column.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    values = encoded.dictionary.to_pylist()
    if pa.types.is_floating(column.type):
        texts = [prefix + es_number(value) for value in values]
    else:
        texts = [prefix + canonical_json(value) for value in values]
    missing = prefix + "null"
    lookup = np.array([*texts, missing], dtype=object)
    codes = encoded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
    return list(lookup[codes])


def _record_batches(file: Any, names: list[str], url: str) -> Iterator[pa.RecordBatch]:
    """The batches of a Parquet file; a damaged page deep inside it is an `InputError`, too."""
    batches = _reading(url, lambda: pq.ParquetFile(file).iter_batches(BATCH_ROWS, columns=names))
    while (batch := _reading(url, lambda: next(batches, None))) is not None:
        yield batch


def _reading(url: str, action: Callable[[], R]) -> R:
    try:
        return action()
    except (pa.ArrowException, UnicodeDecodeError) as error:
        # Without what follows "got 3 columns": it is the row.
        first = re.sub(
            r"(columns, got \d+).*", r"\1", "not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error).splitlines()[0]
        )
        raise InputError(f"data {url} cannot be read: {first}; check that it is the format its ending says") from error
    except OSError as error:
        if error.errno is not None:
            raise UnavailableError(f"data {url} cannot be read: {error}; check the address and its credentials") from error
        raise InputError(
            f"data {url} cannot be read: it is damaged ({str(error).splitlines()[0]}); write the file again"
        ) from error  # Arrow's own
