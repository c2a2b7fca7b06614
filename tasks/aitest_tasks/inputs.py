"""Stored inputs as the model gets them: private columns joined in from the source, types that do not hang on the batch."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from aitest_lib.artifacts.codecs import get_table
from aitest_lib.artifacts.images import get_images
from aitest_lib.data.table import TableSource, joined_digests, row_digests, to_frame
from aitest_lib.models.base import Model
from aitest_lib.models.shapes import predict_images
from aitest_lib.types import ArtifactRef, Predictions
from aitest_tasks.image_cases import pixels_of
from aitest_tasks.runs import Run, open_run
from aitest_tasks.seed_tables import DIGEST, RANK

Inputs = pd.DataFrame | list[NDArray[np.uint8]]  # images: height, width, channels, of any shapes


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


def model_inputs(run: Run, ref: ArtifactRef, rows: NDArray[np.int64]) -> Inputs:
    """Rows of a stored shard as the model's inputs: a frame, or images."""
    if run.modality == "image":
        return get_images(run.store, pixels_of(get_table(run.store, ref, [RANK])), rows)
    return model_frame(run, ref, rows)


def joined(parts: list[Inputs]) -> Inputs:
    """Inputs of several shards as one batch."""
    frames = [part for part in parts if isinstance(part, pd.DataFrame)]
    return pd.concat(frames) if frames else [image for part in parts if isinstance(part, list) for image in part]


def predict(model: Model, inputs: Inputs) -> Predictions:
    """The model's answers; images are sent by their shapes."""
    return model.predict(inputs) if isinstance(inputs, pd.DataFrame) else predict_images(model, inputs)


def of_one_shape(inputs: Inputs) -> tuple[pd.DataFrame | NDArray[np.uint8], NDArray[np.intp]]:
    """The inputs that can be sent in one call with the first one, and their places: all rows, images of its shape."""
    if isinstance(inputs, pd.DataFrame):
        return inputs, np.arange(len(inputs))
    places = np.flatnonzero([image.shape == inputs[0].shape for image in inputs])
    return np.stack([inputs[place] for place in places]), places


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
    source = run.test if isinstance(run.test, TableSource) else run.test.table
    table = source.take(positions(run), private_columns(run))
    return table, row_digests(table)
