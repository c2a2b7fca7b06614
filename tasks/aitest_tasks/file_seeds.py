"""Seeds that are files of their own (images, clips): chosen by their digests, stored in rank order with what is in them
beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aitest_lib.artifacts.codecs import put_table
from aitest_lib.artifacts.store import Store
from aitest_lib.config.suite import DataConfig
from aitest_lib.data.sampling import StratifiedSampler
from aitest_lib.data.schema import ColumnOverride, build_profile
from aitest_lib.data.table import memory_table, row_digests
from aitest_lib.types import ArtifactRef
from aitest_tasks.contents import with_content
from aitest_tasks.seed_tables import DIGEST, LABEL, RANK, SEED_ID

SHARD_FILES, SHARD_BYTES = 1_024, 32 << 20
SHOWN_UNREADABLE = 20
FILE = "file"


@dataclass(frozen=True, kw_only=True)
class Found:
    """What one pass over the files found, in the order of the source: arrays and the table are (n,), of the usable ones.

    `sizes`: bytes of each in memory; `read`: the contents at positions of the source, one by one; `put`: stores contents;
    `labels`: those seen; `strata`: codes of the labels to sample by, or None; `more`: further columns of the seeds.
    """

    table: pa.Table
    positions: NDArray[np.int64]
    digests: NDArray[np.void]
    sizes: NDArray[np.int64]
    read: Callable[[NDArray[np.int64]], Iterator[Any]]
    put: Callable[[list[Any]], ArtifactRef]
    labels: list[Any]
    strata: NDArray[np.int64] | None
    unreadable: Sequence[Any]
    converted: dict[str, int]
    more: dict[str, NDArray[Any]] = field(default_factory=dict)


def write_file_seeds(
    store: Store, found: Found, data: DataConfig, sampler: StratifiedSampler, random_seed: int
) -> dict[str, Any]:
    """Files in rank order, in shards of 32 MB at most; what could not be read is listed."""
    table = found.table
    described = memory_table(table)
    overrides = {FILE: ColumnOverride(type="text"), **data.columns}  # a name is no slice, however few there are
    known = {name: one for name, one in overrides.items() if name in table.column_names}
    profile = build_profile(described, None, known, [], {data.label} if data.label else set())
    public = [name for name in table.column_names if name != data.label and name not in profile.private]
    # Equal files that differ in their labels, whatever their order.
    ties = row_digests(table.select([data.label])) if data.label else None
    chosen = sampler.choose_digests(found.digests, ties, found.strata, random_seed)
    table = table.take(pa.array(chosen.positions))
    shards, contents = [], []
    files = found.read(found.positions[chosen.positions])
    for start, end in _parts(found.sizes[chosen.positions]):
        part = table.slice(start, end - start)
        extra = {
            SEED_ID: pa.array(chosen.seed_ids[start:end]),
            RANK: pa.array(np.arange(start, end, dtype=np.int32)),
            DIGEST: pa.array([item.tobytes() for item in found.digests[chosen.positions[start:end]]], pa.binary(16)),
        }
        extra |= {name: pa.array(values[chosen.positions[start:end]]) for name, values in found.more.items()}
        if data.label:
            extra[LABEL] = part.column(data.label)
        stored = found.put([next(files) for _ in range(start, end)])
        contents.append(stored.to_dict())
        shown = pa.table({**extra, **{name: part.column(name) for name in public}})
        shards.append(put_table(store, with_content(shown, stored)).to_dict())
    unreadable = [{"place": one.place, "reason": one.reason} for one in found.unreadable]
    return {
        "profile": store.put_json(profile.to_dict()).to_dict(),
        "shards": shards,
        "contents": contents,
        "positions": put_table(store, pa.table({"row": found.positions[chosen.positions]})).to_dict(),
        "rows": len(found.positions),
        "seeds": len(chosen.seed_ids),
        "labels": found.labels,
        "unreadable": {
            "count": len(unreadable),
            "first": unreadable[:SHOWN_UNREADABLE],
            "all": store.put_json(unreadable).to_dict(),
        },
        "converted": dict(found.converted),
    }


def _parts(sizes: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """First and last place of each shard."""
    start, held = 0, 0
    for place, size in enumerate(sizes.tolist()):
        if place > start and (held + size > SHARD_BYTES or place - start == SHARD_FILES):
            yield start, place
            start, held = place, 0
        held += size
    if len(sizes):
        yield start, len(sizes)
