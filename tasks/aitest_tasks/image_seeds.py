"""Seeds that are images: looked at once, labels as the model answers them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aitest_lib.artifacts.images import put_images
from aitest_lib.artifacts.store import Store
from aitest_lib.config.inputs import Image
from aitest_lib.config.suite import DataConfig
from aitest_lib.data.images import ImageSource
from aitest_lib.data.sampling import StratifiedSampler
from aitest_lib.data.table import memory_table
from aitest_lib.errors import InputError
from aitest_lib.types import Scalar
from aitest_tasks.file_seeds import Found, write_file_seeds
from aitest_tasks.seed_tables import seen_labels

SIZE = "size"


def write_image_seeds(
    store: Store,
    source: ImageSource,
    data: DataConfig,
    sampler: StratifiedSampler,
    random_seed: int,
    image: Image | None,
    classes: Sequence[Scalar] | None,
) -> dict[str, Any]:
    """Images in rank order (see `write_file_seeds`)."""
    index = source.index(image)
    table = _metadata(source, index.positions, index.shapes, data, classes)
    codes = None
    if data.label:
        codes = np.asarray(table.column(data.label).combine_chunks().dictionary_encode().indices.to_numpy(), np.int64)
    found = Found(
        table=table,
        positions=index.positions,
        digests=index.digests,
        sizes=np.prod(index.shapes, axis=1, dtype=np.int64),
        read=lambda positions: source.images(positions, image),
        put=lambda images: put_images(store, images),
        labels=seen_labels(memory_table(table), data.label, classifier=True),
        strata=codes,
        unreadable=index.unreadable,
        converted=index.converted,
    )
    return write_file_seeds(store, found, data, sampler, random_seed)


def image_label(source: ImageSource, data: DataConfig) -> str | None:
    """The column of the labels: the suite's, else `label` where the images have one."""
    if data.label is not None:
        return data.label
    return "label" if "label" in source.schema.names else None


def _metadata(
    source: ImageSource,
    positions: NDArray[np.int64],
    shapes: NDArray[np.int32],
    data: DataConfig,
    classes: Sequence[Scalar] | None,
) -> pa.Table:
    """What stands beside the readable images; with their sizes, where these differ."""
    table = source.table.take(positions, source.schema.names)
    if data.label is not None:
        place = table.column_names.index(data.label)
        table = table.set_column(place, data.label, _named(table.column(data.label), classes))
    sizes = [f"{height}×{width}" for height, width, _ in shapes.tolist()]
    if len(set(sizes)) > 1 and SIZE not in table.column_names:
        table = table.append_column(SIZE, pa.array(sizes))
    return table


def _named(labels: pa.ChunkedArray, classes: Sequence[Scalar] | None) -> pa.ChunkedArray:
    """Labels as the model answers them: whole numbers are places among its classes where those are words."""
    words = classes is not None and all(isinstance(one, str) for one in classes)
    if not words or classes is None or not pa.types.is_integer(labels.type):
        return labels
    places = labels.to_pylist()
    if None in places:
        return labels  # told with all other labels
    if not all(0 <= place < len(classes) for place in places):
        raise InputError(f"got labels from {min(places)} to {max(places)}, but the card has {len(classes)} classes")
    return pa.chunked_array([pa.array([classes[place] for place in places], pa.string())])
