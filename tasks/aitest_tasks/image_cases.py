"""Cases of images: a transform applied to a shard of seeds, images of one shape at a time, a few megabytes at once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aitest_lib.artifacts.codecs import get_table, put_table
from aitest_lib.artifacts.images import get_images, put_images
from aitest_lib.artifacts.store import Store
from aitest_lib.canonical import array_digest
from aitest_lib.models.shapes import by_shape
from aitest_lib.rng import rng_for
from aitest_lib.transforms.image.base import ImageTransform, Pixels, chunks
from aitest_lib.types import ArtifactRef
from aitest_tasks.case_tables import case_table, pieces
from aitest_tasks.contents import content_of, with_content
from aitest_tasks.seed_tables import SEED_ID

BATCH_BYTES = 4 << 20  # of pixels that a transform gets at once


def write_image_cases(store: Store, job: dict[str, Any]) -> dict[str, Any]:
    """The cases of a shard of images: references of their table (see `case_table`) and of their pixels."""
    ref = ArtifactRef.of(job["shard"])
    whole = get_table(store, ref)
    tables, images = [], []
    for component, rows in pieces(job, whole.num_rows):
        if not isinstance(component, ImageTransform):
            raise TypeError(f"{job['component']} is no transform of images")
        seeds = whole.take(pa.array(rows))
        table, made = _cases(component, seeds, get_images(store, content_of(whole), rows), job["random_seed"])
        tables.append(table)
        images += made
    content = put_images(store, images)
    return {"cases": put_table(store, with_content(pa.concat_tables(tables), content)).to_dict(), "content": content.to_dict()}


def image_digests(images: list[NDArray[np.uint8]]) -> NDArray[np.void]:
    """The digest of each image (height, width, channels) over its type, shape and bytes, as void16 (n,)."""
    return np.frombuffer(b"".join(bytes.fromhex(array_digest(one)) for one in images), dtype="V16")


def _cases(
    component: ImageTransform, seeds: pa.Table, images: list[NDArray[np.uint8]], random_seed: int
) -> tuple[pa.Table, list[NDArray[np.uint8]]]:
    params: list[dict[str, Any]] = [{}] * len(images)
    not_applicable: list[str | None] = [None] * len(images)
    made = list(images)
    distance = np.zeros(len(images))
    seed_ids = seeds.column(SEED_ID).to_pylist()
    for places in _batches(images):
        batch = np.stack([images[place] for place in places])
        drawn = component.draw(
            [seed_ids[place] for place in places], batch.shape[1:], partial(rng_for, random_seed, component.key)
        )
        changed = component.apply(batch, drawn.params)
        far = _distances(batch, changed)
        for at, place in enumerate(places):
            params[place], not_applicable[place] = drawn.params[at], drawn.not_applicable[at]
            if drawn.not_applicable[at] is None:
                made[place], distance[place] = changed[at], far[at]
    table = case_table(component, seeds, params, not_applicable, image_digests(made), [None] * len(images), distance, "image")
    return pa.table(table), made


def _batches(images: list[NDArray[np.uint8]]) -> Iterator[list[int]]:
    """The places of images of one shape, a few megabytes of pixels at a time."""
    for places in by_shape(images):
        size = max(1, BATCH_BYTES // images[places[0]].size)
        yield from (places[start : start + size] for start in range(0, len(places), size))


def _distances(seeds: Pixels, cases: Pixels) -> NDArray[np.float64]:
    """How far each case is from its seed: root mean square of the differences, pixels counted from 0 to 1."""
    found = np.zeros(len(seeds))
    for part in chunks(seeds):
        difference = (cases[part].astype(np.float32) - seeds[part].astype(np.float32)).reshape(len(seeds[part]), -1) / 255
        found[part] = np.sqrt(np.mean(np.square(difference), axis=1, dtype=np.float64))
    return found
