"""Kept answers of one model: immutable segments on disk, one sorted book in memory.

    answers/<model digest>/<epoch>/<time and chance>.parquet      columns: digest, repeat, label, scores, run

A segment is written once and never changed, so that two runs need no lock: a query may be asked twice, nothing is torn.
Only usable answers are kept: an error is asked again.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from aitest_lib.artifacts.codecs import decode_table
from aitest_lib.artifacts.store import Store
from aitest_lib.canonical import canonical_json
from aitest_lib.errors import ArtifactMissing
from aitest_lib.types import Predictions, Scalar

SEGMENT = pa.schema(
    [
        ("digest", pa.binary(16)),
        ("repeat", pa.int16()),
        ("label", pa.string()),  # canonical JSON of one scalar
        ("scores", pa.list_(pa.float64())),
        ("run", pa.string()),
    ]
)
MISSING = -1


@dataclass(frozen=True)
class AnswerBook:
    """Answers sorted by input digest: `codes` index `values` (the distinct labels); `scores` is (m, classes) or None."""

    digests: NDArray[np.void]
    codes: NDArray[np.int32]
    values: tuple[Scalar, ...]
    scores: NDArray[np.float64] | None
    by_run: dict[str, int]

    def find(self, digests: NDArray[np.void]) -> NDArray[np.int64]:
        """Place of each digest in the book, -1 where it is not answered."""
        if not len(self.digests):
            return np.full(len(digests), MISSING, np.int64)
        place = np.minimum(np.searchsorted(self.digests, digests), len(self.digests) - 1)
        return np.where(self.digests[place] == digests, place, MISSING)

    def labels(self, places: NDArray[np.int64]) -> NDArray[np.object_]:
        """The labels at places, None where -1."""
        lookup = np.array([*self.values, None], dtype=object)
        codes = np.where(places >= 0, self.codes[places] if len(self.codes) else 0, len(self.values))
        return np.asarray(lookup[codes], dtype=object)


def distinct(digests: NDArray[np.void]) -> tuple[NDArray[np.void], NDArray[np.int64]]:
    """The distinct digests, sorted, and the place of the first of each. Like `np.unique`, in half the memory."""
    order = np.argsort(digests, kind="stable")
    ordered = digests[order]
    new = np.ones(len(ordered), bool)
    new[1:] = ordered[1:] != ordered[:-1]
    return (ordered, order) if new.all() else (ordered[new], order[new])


def folder(model_digest: str, epoch: str) -> str:
    """Where the answers of a model's epoch stand in the store."""
    return f"answers/{model_digest}/{epoch}"


def write_segment(
    store: Store, where: str, digests: NDArray[np.void], answers: Predictions, run_id: str, repeat: int = 0
) -> None:
    """Appends the usable answers of one batch; nothing is written where there are none."""
    good = np.array([error is None for error in answers.errors], dtype=bool)
    if not good.any():
        return
    scores = None if answers.scores is None else answers.scores[good]
    table = pa.table(
        {
            "digest": pa.array([item.tobytes() for item in digests[good]], pa.binary(16)),
            "repeat": pa.array(np.full(good.sum(), repeat), pa.int16()),
            "label": [canonical_json(label) for label in answers.labels[good]],
            "scores": pa.nulls(int(good.sum()), pa.list_(pa.float64()))
            if scores is None
            else pa.array([None if np.isnan(row).any() else row for row in scores], pa.list_(pa.float64())),
            "run": pa.array([run_id] * int(good.sum())),
        },
        schema=SEGMENT,
    )
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    store.write(f"{where}/{time.time_ns():020d}-{os.urandom(4).hex()}.parquet", sink.getvalue().to_pybytes())


def read_book(store: Store, folders: Iterable[str], repeat: int = 0) -> AnswerBook:
    """All answers of the given folders. Where an input was answered twice, the earlier answer counts."""
    digests, codes, score_rows = [], [], []
    runs: dict[str, int] = {}
    known: dict[str, int] = {}
    for where in folders:
        paths = [path for path in store.files(where) if path.endswith(".parquet")]
        for path, data in store.read_many(paths):
            table = None if data is None else _segment(store, path, data)
            if table is None:
                continue
            table = table.filter(pc.field("repeat") == repeat)
            if not table.num_rows:
                continue
            run = table.column("run")[0].as_py()
            runs[run] = runs.get(run, 0) + table.num_rows
            digests.append(_void(table.column("digest")))
            encoded = table.column("label").combine_chunks().dictionary_encode()
            encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
            remap = np.array([known.setdefault(text, len(known)) for text in encoded.dictionary.to_pylist()], np.int32)
            codes.append(remap[encoded.indices.to_numpy()])
            score_rows.append(table.column("scores"))
    if not digests:
        return AnswerBook(np.empty(0, "V16"), np.empty(0, np.int32), (), None, {})
    # The first of equal digests is kept, and segments are read in the order of their writing.
    every = np.concatenate(digests)
    digests.clear()
    unique, first = distinct(every)
    del every
    scores = _scores(pa.chunked_array([chunk for column in score_rows for chunk in column.chunks]))
    return AnswerBook(
        unique,
        np.concatenate(codes)[first],
        tuple(json.loads(text) for text in known),
        None if scores is None else scores[first],
        runs,
    )


def _segment(store: Store, path: str, data: bytes) -> pa.Table | None:
    """A segment; a damaged or foreign one is removed, and what stood in it is asked again."""
    try:
        table = decode_table(data, store.url_of(path))
        return table.cast(SEGMENT)
    except (ArtifactMissing, pa.ArrowInvalid, ValueError):
        store.remove(path)
        return None


def book_digest(book: AnswerBook, places: NDArray[np.int64]) -> str:
    """Digest of the answers at places: part of the key of a scoring, which must see a changed answer."""
    hasher = blake2b(digest_size=16)
    hasher.update(np.ascontiguousarray(places >= 0).tobytes())
    found = places[places >= 0]
    # Labels by the order in which they come here: what else the book holds changes nothing.
    used, first, codes = np.unique(book.codes[found], return_index=True, return_inverse=True)
    order = np.argsort(first)
    hasher.update(canonical_json([book.values[code] for code in used[order]]).encode())
    hasher.update(np.argsort(order)[codes].astype(np.int32).tobytes())
    if book.scores is not None:
        hasher.update(np.round(book.scores[found], 6).tobytes())
    return hasher.hexdigest()


def _void(column: pa.ChunkedArray) -> NDArray[np.void]:
    return np.frombuffer(b"".join(column.to_pylist()), dtype="V16")


def _scores(column: pa.ChunkedArray) -> NDArray[np.float64] | None:
    """(m, classes) with NaN rows where one answer came without scores; None where none has any."""
    widths = pc.unique(pc.list_value_length(column.drop_null())).to_pylist()
    if not widths:
        return None
    width = int(max(widths))
    result = np.full((len(column), width), np.nan)
    present = pc.and_(column.is_valid(), pc.equal(pc.fill_null(pc.list_value_length(column), 0), width))
    mask = np.asarray(present.to_numpy(zero_copy_only=False) if isinstance(present, pa.Array) else present.to_numpy(), bool)
    result[mask] = pc.list_flatten(column.filter(present)).to_numpy().reshape(-1, width)
    return result
