"""Speech that is faster or slower, higher or lower."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from aitest_lib.parameters import parameter
from aitest_lib.registry import register
from aitest_lib.transforms.audio.base import Changed
from aitest_lib.transforms.audio.effect import Effect, resampled
from aitest_lib.transforms.audio.levels import Floats
from aitest_lib.transforms.audio.mixing import fitted
from aitest_lib.types import Clip

SEMITONES = 12  # an octave
FRAME_S, REACH_S = 0.03, 0.008  # of a frame, and how far around its place a better one is looked for


@register
@dataclass(frozen=True, kw_only=True)
class Speed(Effect):
    """A tape that runs at `factor` times its speed: the clip is so much shorter, and its pitch so much higher."""

    name: ClassVar[str] = "speed"
    strength: ClassVar[str | None] = "factor"
    identity: ClassVar[float | None] = 1.0
    strongest: ClassVar[float | None] = 2.0
    factor: float = parameter(1.25, help="how many times as fast; below 1 slower", unit="times", ge=0.5, le=2)

    def changed(self, clip: Clip, params: dict[str, Any]) -> Changed:
        count = max(1, round(len(clip.samples) / params["factor"]))
        return fitted(resampled(clip.samples, clip.sample_rate, count), clip.sample_rate)


@register
@dataclass(frozen=True, kw_only=True)
class Pitch(Effect):
    """The same words as fast, but higher or lower: stretched (WSOLA), then resampled to the length that it had."""

    name: ClassVar[str] = "pitch"
    strength: ClassVar[str | None] = "semitones"
    identity: ClassVar[float | None] = 0.0
    strongest: ClassVar[float | None] = 12.0
    semitones: float = parameter(4.0, help="how much higher; below 0 lower", unit="semitones", ge=-12, le=12)

    def changed(self, clip: Clip, params: dict[str, Any]) -> Changed:
        longer = stretched(clip.samples, clip.sample_rate, 2 ** (params["semitones"] / SEMITONES))
        return fitted(resampled(longer, clip.sample_rate, len(clip.samples)), clip.sample_rate)


def stretched(samples: Floats, sample_rate: int, times: float) -> Floats:
    """Samples (n,) that take `times` as long at the same pitch: WSOLA (Verhelst, Roelands 1993).

    Frames of 30 ms overlap by half. Each is taken near the place that the tempo asks for, where it is most like what would
    have followed the frame before it. A phase vocoder loses up to three quarters of the level of speech, this nothing.
    """
    hop, reach = max(1, round(FRAME_S * sample_rate / 2)), max(1, round(REACH_S * sample_rate))
    size, count = 2 * hop, max(1, round(len(samples) * times))
    frames = -(-count // hop) + 1
    # The first frame begins before the clip; the last ones may reach behind it.
    before, behind = hop + reach, 2 * size + reach
    padded = np.concatenate([np.zeros(before, np.float32), samples, np.zeros(behind, np.float32)])
    window = np.sin(np.pi * (np.arange(size) + 0.5) / size).astype(np.float32) ** 2
    made = np.zeros((frames + 1) * hop, np.float32)
    place = reach
    for frame in range(frames):
        if frame:
            wished = padded[place + hop : place + hop + size]
            target = min(reach + round(frame * hop / times), len(padded) - size - reach - hop)
            near = padded[target - reach : target + reach + size]
            place = target - reach + int(np.correlate(near, wished, "valid").argmax())
        made[frame * hop : frame * hop + size] += padded[place : place + size] * window
    return made[hop : hop + count]
