"""Images to and from one Parquet object: the raw pixels of each, with its shape."""

from __future__ import annotations

import io
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from aitest_lib.artifacts.store import Store
from aitest_lib.errors import ArtifactMissing
from aitest_lib.types import ArtifactRef

Pixels = NDArray[np.uint8]

SIZES = ("height", "width", "channels")
SCHEMA = pa.schema([("pixels", pa.binary()), *((name, pa.int32()) for name in SIZES)])
GROUP_BYTES = 8 << 20  # of pixels in a row group, which is the least that `get_images` unpacks
CHANNELS = (1, 3, 4)


def put_images(store: Store, images: Sequence[Pixels]) -> ArtifactRef:
    """Stores images, uint8 (height, width, channels) each, of any shapes. Equal images make equal bytes.

    Raises `ValueError` for anything else than an image.
    """
    for image in images:
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] not in CHANNELS or image.size == 0:
            raise ValueError(f"got {image.dtype} of shape {image.shape}, expected uint8 height × width × 1, 3 or 4 channels")
    largest = max((image.size for image in images), default=1)
    size = max(1, GROUP_BYTES // largest)
    sink = io.BytesIO()
    options = {"compression": "zstd", "use_dictionary": list(SIZES), "write_statistics": list(SIZES)}
    with pq.ParquetWriter(sink, SCHEMA, **options) as writer:
        for start in range(0, len(images), size):
            writer.write_table(_table(images[start : start + size]))  # one row group; only its copies are in memory
    return store.put(sink.getvalue(), "parquet", len(images))


def get_images(store: Store, ref: ArtifactRef, rows: Sequence[int] | NDArray[np.integer] | None = None) -> list[Pixels]:
    """The stored images, or those at `rows` in their order. `ArtifactMissing` for what holds no images, or not these."""
    url = store.url_of(ref.uri)
    data = store.get(ref)
    wanted = np.arange(ref.rows) if rows is None else np.asarray(rows, np.int64)
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        if not file.schema_arrow.equals(SCHEMA) or file.metadata.num_rows != ref.rows:
            raise ArtifactMissing(url, f"it does not hold {ref.rows} images")
        if len(wanted) and not 0 <= wanted.min() <= wanted.max() < ref.rows:
            raise ArtifactMissing(url, f"it holds {ref.rows} images, row {wanted.max()} was asked for")
        return _read(file, wanted, url)
    except (pa.ArrowException, OSError) as error:
        raise ArtifactMissing(url, f"it is not a readable Parquet file ({error})") from error


def _read(file: pq.ParquetFile, wanted: NDArray[np.int64], url: str) -> list[Pixels]:
    """The images at `wanted`, of which only the row groups that hold them are unpacked."""
    sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    ends = np.cumsum(sizes)
    found: dict[int, Pixels] = {}
    for group in np.unique(np.searchsorted(ends, wanted, side="right")).tolist():
        start = int(ends[group]) - sizes[group]
        places = np.flatnonzero((wanted >= start) & (wanted < ends[group]))
        rows = file.read_row_group(group).take(pa.array(wanted[places] - start)).to_pylist()
        found.update(zip(places.tolist(), (_image(row, url).copy() for row in rows), strict=True))
    return [found[place] for place in range(len(wanted))]


def _table(images: Sequence[Pixels]) -> pa.Table:
    columns = [pa.array([image.tobytes() for image in images], pa.binary())]
    columns += [pa.array([image.shape[axis] for image in images], pa.int32()) for axis in range(3)]
    return pa.table(columns, schema=SCHEMA)


def _image(row: dict[str, Any], url: str) -> Pixels:
    shape = tuple(row[name] for name in SIZES)
    data = row["pixels"]
    fits = isinstance(data, bytes) and all(isinstance(size, int) and size > 0 for size in shape) and shape[2] in CHANNELS
    if not fits or prod(shape) != len(data):
        raise ArtifactMissing(url, f"it holds pixels that are no image of the shape {shape}")
    return np.frombuffer(data, np.uint8).reshape(shape)
