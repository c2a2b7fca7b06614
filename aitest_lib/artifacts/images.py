"""Images to and from one Parquet object: the raw pixels of each, with its shape."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aitest_lib.artifacts.packed import group_rows, put_packed, read_packed
from aitest_lib.artifacts.store import Store
from aitest_lib.errors import ArtifactMissing
from aitest_lib.types import ArtifactRef

Pixels = NDArray[np.uint8]

SIZES = ("height", "width", "channels")
SCHEMA = pa.schema([("pixels", pa.binary()), *((name, pa.int32()) for name in SIZES)])
CHANNELS = (1, 3, 4)


def put_images(store: Store, images: Sequence[Pixels]) -> ArtifactRef:
    """Stores images, uint8 (height, width, channels) each, of any shapes. Equal images make equal bytes.

    Raises `ValueError` for anything else than an image.
    """
    for image in images:
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] not in CHANNELS or image.size == 0:
            raise ValueError(f"got {image.dtype} of shape {image.shape}, expected uint8 height × width × 1, 3 or 4 channels")
    size = group_rows(image.size for image in images)
    return put_packed(store, SCHEMA, (_table(images[start : start + size]) for start in range(0, len(images), size)))


def get_images(store: Store, ref: ArtifactRef, rows: Sequence[int] | NDArray[np.integer] | None = None) -> list[Pixels]:
    """The stored images, or those at `rows` in their order. `ArtifactMissing` for what holds no images, or not these."""
    return read_packed(store, ref, SCHEMA, rows, _image, "images")


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
    return np.frombuffer(data, np.uint8).reshape(shape).copy()  # its own: the bytes are read only
