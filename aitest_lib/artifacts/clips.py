"""Clips to and from one Parquet object: the PCM16 samples of each, with its sample rate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aitest_lib.artifacts.packed import group_rows, put_packed, read_packed
from aitest_lib.artifacts.store import Store
from aitest_lib.errors import ArtifactMissing
from aitest_lib.pcm import of_pcm16, to_pcm16
from aitest_lib.types import ArtifactRef, Clip

SCHEMA = pa.schema([("samples", pa.binary()), ("sample_rate", pa.int32())])
WIDTH = 2  # bytes of a sample


def put_clips(store: Store, clips: Sequence[Clip]) -> ArtifactRef:
    """Stores clips, float32 (n,) each, of any lengths and rates, as little-endian int16. Equal clips make equal bytes.

    Raises `ValueError` for samples that are not finite, not mono, or none.
    """
    for clip in clips:
        if clip.samples.dtype != np.float32 or clip.samples.ndim != 1 or clip.samples.size == 0 or clip.sample_rate < 1:
            shape = f"{clip.samples.dtype} of shape {clip.samples.shape} at {clip.sample_rate} Hz"
            raise ValueError(f"got {shape}, expected float32 (samples,), at least one of them")
    size = group_rows(WIDTH * clip.samples.size for clip in clips)
    return put_packed(store, SCHEMA, (_table(clips[start : start + size]) for start in range(0, len(clips), size)))


def get_clips(store: Store, ref: ArtifactRef, rows: Sequence[int] | NDArray[np.integer] | None = None) -> list[Clip]:
    """The stored clips, or those at `rows` in their order. `ArtifactMissing` for what holds no clips, or not these."""
    return read_packed(store, ref, SCHEMA, rows, _clip, "clips")


def _table(clips: Sequence[Clip]) -> pa.Table:
    samples = [to_pcm16(clip.samples).astype("<i2", copy=False).tobytes() for clip in clips]
    rates = [clip.sample_rate for clip in clips]
    return pa.table([pa.array(samples, pa.binary()), pa.array(rates, pa.int32())], schema=SCHEMA)


def _clip(row: dict[str, Any], url: str) -> Clip:
    data, rate = row["samples"], row["sample_rate"]
    if not isinstance(data, bytes) or not data or len(data) % WIDTH or not isinstance(rate, int) or rate < 1:
        raise ArtifactMissing(url, "it holds samples that are no clip")
    return of_pcm16(np.frombuffer(data, "<i2").astype(np.int16, copy=False), rate)
