"""Stored inputs as the model gets them: private columns joined in from the source, types that do not hang on the batch."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from aitest_lib.artifacts.clips import get_clips
from aitest_lib.artifacts.codecs import get_table
from aitest_lib.artifacts.images import get_images
from aitest_lib.data.table import TableSource, joined_digests, row_digests, to_frame
from aitest_lib.errors import InputError
from aitest_lib.models.base import Model
from aitest_lib.models.shapes import predict_images
from aitest_lib.types import ArtifactRef, Clip, Predictions
from aitest_tasks.contents import content_of
from aitest_tasks.runs import Run, open_run
from aitest_tasks.seed_tables import DIGEST, ORIGIN, RANK

Inputs = pd.DataFrame | list[NDArray[np.uint8]] | list[Clip]  # images: height, width, channels, of any shapes


@dataclass(frozen=True)
class Origin:
    """Which file the rows of a table descend from, and the artifact that says where in it each rank is (`positions`)."""

    source: Literal["test", "train"]
    positions: str  # the reference as JSON

    def metadata(self) -> dict[bytes, bytes]:
        """As it stands in a table's metadata."""
        return {ORIGIN: json.dumps([self.source, self.positions]).encode()}


def origin_of(run: Run, table: pa.Table) -> Origin:
    """Where the rows of a stored table come from: its own word, else where the seeds do."""
    told = (table.schema.metadata or {}).get(ORIGIN)
    return Origin("test", json.dumps(run.prepared["positions"])) if told is None else Origin(*json.loads(told))


def input_digests(run: Run, table: pa.Table) -> NDArray[np.void]:
    """The digest of each input as the model gets it; private columns count, but only as part of a digest."""
    public = np.frombuffer(b"".join(table.column(DIGEST).to_pylist()), dtype="V16")
    if not private_columns(run):
        return public
    return joined_digests(public, _private(run.uri, origin_of(run, table))[1][table.column(RANK).to_numpy()])


def private_columns(run: Run) -> list[str]:
    """The private columns that are sent to the model."""
    private = set(run.profile.private)
    return [name for name in run.record["columns"] if name in private]


def model_inputs(run: Run, ref: ArtifactRef, rows: NDArray[np.int64]) -> Inputs:
    """Rows of a stored shard as the model's inputs: a frame, images, or clips."""
    if run.modality == "tabular":
        return model_frame(run, ref, rows)
    return contents(run, content_of(get_table(run.store, ref, [RANK])), rows)


def contents(run: Run, ref: ArtifactRef, rows: NDArray[np.int64]) -> list[NDArray[np.uint8]] | list[Clip]:
    """Images or clips of an artifact."""
    return get_clips(run.store, ref, rows) if run.modality == "speech" else get_images(run.store, ref, rows)


def joined(parts: list[Inputs]) -> Inputs:
    """Inputs of several shards as one batch."""
    frames = [part for part in parts if isinstance(part, pd.DataFrame)]
    if frames:
        return pd.concat(frames)
    whole: list[Any] = [one for part in parts if isinstance(part, list) for one in part]
    return whole


def nbytes(inputs: Inputs) -> int:
    """How much memory images or clips take; 0 for rows, which are small."""
    if isinstance(inputs, pd.DataFrame):
        return 0
    return sum(one.samples.nbytes if isinstance(one, Clip) else one.nbytes for one in inputs)


def predict(model: Model, inputs: Inputs) -> Predictions:
    """The model's answers; images are sent by their shapes."""
    images = [one for one in inputs if isinstance(one, np.ndarray)] if isinstance(inputs, list) else []
    return predict_images(model, images) if images else model.predict(inputs)


def of_one_shape(inputs: Inputs) -> tuple[pd.DataFrame | NDArray[np.uint8] | list[Clip], NDArray[np.intp]]:
    """The inputs that can be sent in one call with the first one, and their places: all rows, images of its shape, clips of its
    sample rate."""
    if isinstance(inputs, pd.DataFrame):
        return inputs, np.arange(len(inputs))
    if isinstance(inputs[0], Clip):
        clips = [one for one in inputs if isinstance(one, Clip)]
        places = np.flatnonzero([clip.sample_rate == clips[0].sample_rate for clip in clips])
        return [clips[place] for place in places], places
    images = [one for one in inputs if isinstance(one, np.ndarray)]
    places = np.flatnonzero([image.shape == images[0].shape for image in images])
    return np.stack([images[place] for place in places]), places


def model_frame(run: Run, ref: ArtifactRef, rows: NDArray[np.int64]) -> pd.DataFrame:
    """Rows of a stored shard as the model's input: its columns in its order; the index is the row's position in the file
    (computed answers are found by it)."""
    columns = list(run.record["columns"])
    private = private_columns(run)
    public = [name for name in columns if name not in private]
    whole = get_table(run.store, ref, [RANK, *public])
    origin, table = origin_of(run, whole), whole.take(pa.array(rows))
    ranks = table.column(RANK).to_numpy()
    parts: dict[str, Any] = {name: table.column(name) for name in public}
    if private:
        hidden = _private(run.uri, origin)[0].take(pa.array(ranks))
        parts |= {name: hidden.column(name) for name in private}
    nullable = [column.name for column in run.profile.columns if column.missing]
    frame = to_frame(pa.table({name: parts[name] for name in columns}), nullable)
    frame.index = pd.Index(_positions(run.uri, origin)[ranks])
    return frame


@lru_cache(maxsize=4)
def _positions(run_uri: str, origin: Origin) -> NDArray[np.int64]:
    """Position in the file of every rank."""
    table = get_table(open_run(run_uri).store, ArtifactRef.of(json.loads(origin.positions)))
    return np.asarray(table.column("row").to_numpy(), np.int64)


@lru_cache(maxsize=4)
def _private(run_uri: str, origin: Origin) -> tuple[pa.Table, NDArray[np.void]]:
    """The private columns of all ranks, and their digests. Read from the source, never stored."""
    run = open_run(run_uri)
    source = run.train if origin.source == "train" else run.test
    if source is None:
        raise InputError("the run has rows of training data, and its suite names none; run the suite again")
    table = source if isinstance(source, TableSource) else source.table
    found = table.take(_positions(run_uri, origin), private_columns(run))
    return found, row_digests(found)
