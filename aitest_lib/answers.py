"""Kept answers of one model: immutable segments on disk, one sorted book in memory.

    answers/<model digest>/<epoch>/<time and chance>.parquet      columns: digest, repeat, label, scores, run

A segment is written once and never changed, so that two runs need no lock: a query may be asked twice, nothing is torn.
Only usable answers are kept: an error is asked again. A segment that is not as `write_segment` writes them, or is another
model's or epoch's by its metadata, is removed when it is read, and what stood in it is asked again.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
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
MODEL = b"aitest.model"  # "<model digest>/<epoch>" in a segment's metadata
ROOT = "answers/"
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
    return f"{ROOT}{model_digest}/{epoch}"


def write_segment(
    store: Store, where: str, digests: NDArray[np.void], answers: Predictions, run_id: str, repeat: int = 0
) -> str | None:
    """Appends the usable answers of one batch; nothing is written where there are none. Returns where they stand."""
    good = np.array([error is None for error in answers.errors], dtype=bool)
    if not good.any():
        return None
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
        schema=SEGMENT.with_metadata({MODEL: where.removeprefix(ROOT)}),
    )
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    path = f"{where}/{time.time_ns():020d}-{os.urandom(4).hex()}.parquet"
    store.write(path, sink.getvalue().to_pybytes())
    return path


def read_book(store: Store, folders: Iterable[str], repeat: int = 0, classes: int | None = None) -> AnswerBook:
    """All answers of the given folders. Where an input was answered twice, the earlier answer counts.

    `classes`: how many scores an answer has, if any; where it is None, as many as in most segments.
    """
    segments = []
    parsed: dict[str, Scalar] = {}
    for where in folders:
        paths = [path for path in store.files(where) if path.endswith(".parquet")]
        for path, data in store.read_many(paths):
            try:
                segment = None if data is None else _segment(path, decode_table(data, store.url_of(path)), where, parsed)
            except (ArtifactMissing, pa.ArrowException, ValueError, RecursionError):
                store.remove(path)
                continue
            if segment is not None and segment.repeat == repeat:
                segments.append(segment)
    segments = _of_one_width(store, segments, classes)
    if not segments:
        return AnswerBook(np.empty(0, "V16"), np.empty(0, np.int32), (), None, {})
    known: dict[str, int] = {}
    codes = []
    for segment in segments:
        remap = np.array([known.setdefault(text, len(known)) for text in segment.texts], np.int32)
        codes.append(remap[segment.codes])
    # The first of equal digests is kept, and segments are read in the order of their writing.
    unique, first = distinct(np.concatenate([segment.digests for segment in segments]))
    runs = _counted(segments, len(unique))
    scores = _scores(pa.chunked_array([chunk for segment in segments for chunk in segment.scores.chunks]))
    return AnswerBook(
        unique,
        np.concatenate(codes)[first],
        tuple(parsed[text] for text in known),
        None if scores is None else scores[first],
        dict(runs),
    )


def _counted(segments: list[_Segment], unique: int) -> Counter[str]:
    """How many inputs each run has asked; what stands in two of its segments, as a merge that was killed leaves it, once."""
    runs: Counter[str] = Counter()
    for segment in segments:
        runs[segment.run] += len(segment.digests)
    if runs.total() == unique:
        return runs
    return Counter({run: len(distinct(np.concatenate([one.digests for one in segments if one.run == run]))[0]) for run in runs})


@dataclass(frozen=True, eq=False)
class _Segment:
    """A checked segment: `codes` index `texts`, its distinct labels as JSON; `width` scores an answer, 0 where none has any."""

    path: str
    repeat: int
    run: str
    digests: NDArray[np.void]
    codes: NDArray[np.int32]
    texts: list[str]
    scores: pa.ChunkedArray
    width: int


def _segment(path: str, table: pa.Table, where: str, parsed: dict[str, Scalar]) -> _Segment:
    """Adds the distinct labels to `parsed`. A `ValueError` where the table is not what `write_segment` writes into `where`."""
    named = (table.schema.metadata or {}).get(MODEL)
    if named is not None and named != where.removeprefix(ROOT).encode():
        raise ValueError("got another model's or epoch's answers")
    table = table.cast(SEGMENT)
    repeats, runs = (pc.unique(table.column(name)).to_pylist() for name in ("repeat", "run"))
    if len(repeats) != 1 or len(runs) != 1 or repeats[0] is None or repeats[0] < 0 or runs[0] is None:
        raise ValueError("got answers that are not of one batch of one run")
    if table.column("digest").null_count or table.column("label").null_count:
        raise ValueError("got an answer without an input or a label")
    labels = table.column("label").combine_chunks().dictionary_encode()
    labels = labels.combine_chunks() if isinstance(labels, pa.ChunkedArray) else labels
    texts = labels.dictionary.to_pylist()
    parsed |= _scalars([text for text in texts if text not in parsed])
    width = _checked_width(table.column("scores"))
    digests = _void(table.column("digest"))
    return _Segment(path, repeats[0], runs[0], digests, labels.indices.to_numpy(), texts, table.column("scores"), width)


def _scalars(texts: list[str]) -> dict[str, Scalar]:
    """The labels of their canonical JSON; a `ValueError` for anything else."""
    values = json.loads(f"[{','.join(texts)}]")  # at once: a regressor's labels are as many as its answers
    if len(values) != len(texts) or not all(
        isinstance(value, str | int | float) and canonical_json(value) == text
        for value, text in zip(values, texts, strict=True)
    ):
        raise ValueError("got a label that is not canonical JSON of one scalar")
    return dict(zip(texts, values, strict=True))


def _checked_width(column: pa.ChunkedArray) -> int:
    """Scores of an answer, 0 where no answer has any; a `ValueError` unless all have the same number of scores in 0..1."""
    lists = column.drop_null()
    widths = pc.unique(pc.list_value_length(lists)).to_pylist()
    if not widths:
        return 0
    scores = pc.list_flatten(lists).to_numpy()  # NaN where null
    if len(widths) != 1 or not widths[0] or not ((scores >= 0) & (scores <= 1)).all():
        raise ValueError("got scores that are not of one width, in 0..1")
    return int(widths[0])


def _of_one_width(store: Store, segments: list[_Segment], classes: int | None) -> list[_Segment]:
    """The segments without scores or with `classes` of them (None: with as many as most have); the others are removed."""
    widths = Counter(segment.width for segment in segments if segment.width)
    width = classes if classes is not None or not widths else widths.most_common(1)[0][0]
    for segment in segments:
        if segment.width not in (0, width):
            store.remove(segment.path)
    return [segment for segment in segments if segment.width in (0, width)]


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
    """(m, classes) of lists of one width, with NaN rows where one answer came without scores; None where none has any."""
    lists = column.drop_null()
    if not len(lists):
        return None
    flat = pc.list_flatten(lists).to_numpy()
    result = np.full((len(column), len(flat) // len(lists)), np.nan)
    result[np.asarray(column.is_valid().to_numpy(), bool)] = flat.reshape(len(lists), -1)
    return result
