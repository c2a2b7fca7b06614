"""Stored inputs as the model gets them: private columns joined in from the source, types that do not hang on the batch."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from aitest_lib.artifacts.codecs import get_table
from aitest_lib.data.table import joined_digests, row_digests, to_frame
from aitest_lib.types import ArtifactRef
from aitest_tasks.runs import Run, open_run
from aitest_tasks.sampling import DIGEST, RANK


def positions(run: Run) -> NDArray[np.int64]:
    """Position in the file of every seed, by rank."""
    return _positions(run.uri)


def input_digests(run: Run, table: pa.Table) -> NDArray[np.void]:
    """The digest of each input as the model gets it; private columns count, but only as part of a digest."""
    public = np.frombuffer(b"".join(table.column(DIGEST).to_pylist()), dtype="V16")
    if not private_columns(run):
        return public
    return joined_digests(public, _private(run.uri)[1][table.column(RANK).to_numpy()])


def private_columns(run: Run) -> list[str]:
    """The private columns that are sent to the model."""
    private = set(run.profile.private)
    return [name for name in run.record["columns"] if name in private]


def model_frame(run: Run, ref: ArtifactRef, rows: NDArray[np.int64]) -> pd.DataFrame:
    """Rows of a stored shard as the model's input: its columns in its order; the index is the row's position in the file
    (computed answers are found by it)."""
    columns = list(run.record["columns"])
    private = private_columns(run)
    public = [name for name in columns if name not in private]
    table = get_table(run.store, ref, [RANK, *public]).take(pa.array(rows))
    ranks = table.column(RANK).to_numpy()
    parts: dict[str, Any] = {name: table.column(name) for name in public}
    if private:
        hidden = _private(run.uri)[0].take(pa.array(ranks))
        parts |= {name: hidden.column(name) for name in private}
    nullable = [column.name for column in run.profile.columns if column.missing]
    frame = to_frame(pa.table({name: parts[name] for name in columns}), nullable)
    frame.index = pd.Index(positions(run)[ranks])
    return frame


@lru_cache(maxsize=4)
def _positions(run_uri: str) -> NDArray[np.int64]:
    run = open_run(run_uri)
    table = get_table(run.store, ArtifactRef.of(run.prepared["positions"]))
    return np.asarray(table.column("row").to_numpy(), np.int64)


@lru_cache(maxsize=4)
def _private(run_uri: str) -> tuple[pa.Table, NDArray[np.void]]:
    """The private columns of all seeds, by rank, and their digests. Read from the source, never stored."""
    run = open_run(run_uri)
    table = run.test.take(positions(run), private_columns(run))
    return table, row_digests(table)
