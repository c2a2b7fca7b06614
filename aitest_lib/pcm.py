"""Audio as 16-bit PCM: what every clip is when it is stored, sent and compared."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aitest_lib.canonical import array_digest, digest
from aitest_lib.types import Clip

FULL_SCALE = 32_768
LEAST = 1.0 / FULL_SCALE  # one step between two values


def to_pcm16(samples: NDArray[np.floating]) -> NDArray[np.int16]:
    """Samples in [-1, 1] (n,) as int16, rounded to the nearest step; what lies outside becomes the nearest end.

    Raises `ValueError` for samples that are not finite, which would turn into full scale in silence.
    """
    scaled = samples * samples.dtype.type(FULL_SCALE)
    np.rint(scaled, out=scaled)
    low, high = (scaled.min(), scaled.max()) if len(scaled) else (0, 0)  # NaN where one of them is
    if not np.isfinite(high - low):
        raise ValueError("got samples that are not finite, expected numbers from -1 to 1")
    if low < -FULL_SCALE or high > FULL_SCALE - 1:
        np.clip(scaled, -FULL_SCALE, FULL_SCALE - 1, out=scaled)
    return scaled.astype(np.int16)


def of_pcm16(values: NDArray[np.int16], sample_rate: int) -> Clip:
    """The clip of int16 values (n,): `value / 32768` as float32, which `to_pcm16` turns back exactly."""
    return Clip(np.multiply(values, np.float32(LEAST), dtype=np.float32), sample_rate)


def clip_digest(clip: Clip) -> str:
    """Digest of what is heard: the clip as PCM16, and its sample rate (BLAKE2b-128, 32 hex digits)."""
    return digest([array_digest(to_pcm16(clip.samples)), clip.sample_rate])
