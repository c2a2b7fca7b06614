"""Seeds that are images: looked at once, chosen by their digests, stored in rank order with their pixels beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aitest_lib.artifacts.codecs import put_table
from aitest_lib.artifacts.images import put_images
from aitest_lib.artifacts.store import Store
from aitest_lib.config.inputs import Image
from aitest_lib.config.suite import DataConfig
from aitest_lib.data.images import ImageSource
from aitest_lib.data.sampling import StratifiedSampler
from aitest_lib.data.schema import ColumnOverride, build_profile
from aitest_lib.data.table import memory_table, row_digests
from aitest_lib.errors import InputError
from aitest_lib.types import Scalar
from aitest_tasks.image_cases import with_pixels
from aitest_tasks.seed_tables import DIGEST, LABEL, RANK, SEED_ID, seen_labels

SHARD_IMAGES, SHARD_BYTES = 1_024, 32 << 20
SHOWN_UNREADABLE = 20
FILE, SIZE = "file", "size"


def write_image_seeds(
    store: Store,
    source: ImageSource,
    data: DataConfig,
    sampler: StratifiedSampler,
    random_seed: int,
    image: Image | None,
    classes: Sequence[Scalar] | None,
) -> dict[str, Any]:
    """Images in rank order, in shards of 32 MB at most; what could not be read is listed."""
    index = source.index(image)
    table = _metadata(source, index.positions, index.shapes, data, classes)
    names = [name for name in table.column_names if name != data.label]
    described = memory_table(table)
    overrides = {FILE: ColumnOverride(type="text"), **data.columns}  # a name is no slice, however few there are
    known = {name: one for name, one in overrides.items() if name in table.column_names}
    profile = build_profile(described, None, known, [], {data.label} if data.label else set())
    public = [name for name in names if name not in profile.private]
    labels = seen_labels(described, data.label, classifier=True)
    ties = codes = None
    if data.label:
        ties = row_digests(table.select([data.label]))  # equal images that differ in their labels, whatever their order
        codes = np.asarray(table.column(data.label).combine_chunks().dictionary_encode().indices.to_numpy(), np.int64)
    chosen = sampler.choose_digests(index.digests, ties, codes, random_seed)
    table = table.take(pa.array(chosen.positions))
    shards, pixels = [], []
    images = source.images(index.positions[chosen.positions], image)
    for start, end in _parts(index.shapes[chosen.positions]):
        part = table.slice(start, end - start)
        extra = {
            SEED_ID: pa.array(chosen.seed_ids[start:end]),
            RANK: pa.array(np.arange(start, end, dtype=np.int32)),
            DIGEST: pa.array([item.tobytes() for item in index.digests[chosen.positions[start:end]]], pa.binary(16)),
        }
        if data.label:
            extra[LABEL] = part.column(data.label)
        stored = put_images(store, [next(images) for _ in range(start, end)])
        pixels.append(stored.to_dict())
        shown = pa.table({**extra, **{name: part.column(name) for name in public}})
        shards.append(put_table(store, with_pixels(shown, stored)).to_dict())
    unreadable = [{"place": one.place, "reason": one.reason} for one in index.unreadable]
    return {
        "profile": store.put_json(profile.to_dict()).to_dict(),
        "shards": shards,
        "pixels": pixels,
        "positions": put_table(store, pa.table({"row": index.positions[chosen.positions]})).to_dict(),
        "rows": len(index.positions),
        "seeds": len(chosen.seed_ids),
        "labels": labels,
        "unreadable": {
            "count": len(unreadable),
            "first": unreadable[:SHOWN_UNREADABLE],
            "all": store.put_json(unreadable).to_dict(),
        },
        "converted": dict(index.converted),
    }


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


def _parts(shapes: NDArray[np.int32]) -> Iterator[tuple[int, int]]:
    """First and last place of each shard."""
    start, held = 0, 0
    for place, size in enumerate(np.prod(shapes, axis=1, dtype=np.int64).tolist()):
        if place > start and (held + size > SHARD_BYTES or place - start == SHARD_IMAGES):
            yield start, place
            start, held = place, 0
        held += size
    if len(shapes):
        yield start, len(shapes)
