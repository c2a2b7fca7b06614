"""Clips for a model on this machine: a call carries clips of one sample rate, and not too many of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeGuard

import numpy as np

from aitest_lib.models.processes.python_child import Clips
from aitest_lib.types import Clip

CALL_SAMPLES = 2_000_000  # of one call: two minutes at 16 kHz


def are_clips(batch: Any) -> TypeGuard[Sequence[Clip]]:
    """Is a batch one of clips."""
    return isinstance(batch, (list, tuple)) and bool(batch) and isinstance(batch[0], Clip)


def by_rate(clips: Sequence[Clip], most: int = CALL_SAMPLES) -> list[list[int]]:
    """The places of the clips of each call: of one sample rate and, if there are several, up to `most` samples together.

    Within a rate they keep their order; no clip is resampled or padded.
    """
    groups: list[list[int]] = []
    last: dict[int, tuple[list[int], int]] = {}  # sample rate -> the group that is being filled, and its samples
    for place, clip in enumerate(clips):
        group, size = last.get(clip.sample_rate, ([], 0))
        if not group or size + len(clip.samples) > most:
            group, size = [], 0
            groups.append(group)
        group.append(place)
        last[clip.sample_rate] = group, size + len(clip.samples)
    return groups


def clips_for_python(clips: Sequence[Clip]) -> Clips:
    """What a Python model gets of clips of one sample rate: float32 arrays of its own."""
    return Clips([np.array(clip.samples, dtype=np.float32) for clip in clips], clips[0].sample_rate)


def whole_seconds(clips: Clips) -> int:
    """How long the clips are together, each rounded up."""
    return sum(max(1, math.ceil(len(samples) / clips.sample_rate)) for samples in clips)
