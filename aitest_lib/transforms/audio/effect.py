"""What the transforms share that change a clip without adding a sound: a strength, and at most one seed of what is random."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from aitest_lib.data.recordings import Recordings
from aitest_lib.transforms.audio.base import AudioTransform, Changed
from aitest_lib.transforms.audio.levels import Floats, is_silent
from aitest_lib.transforms.audio.mixing import sent
from aitest_lib.transforms.audio.white_noise import NOISE_SEEDS
from aitest_lib.types import Clip

EDGE_S = 0.05  # of silence, at least, behind what is resampled: its end would ring on into its beginning


@dataclass(frozen=True, kw_only=True)
class Effect(AudioTransform):
    """A change of the clip itself. At the identity of its strength the clip stays as it is."""

    random: ClassVar[bool] = False

    def misfit(self, clip: Clip, noise: Recordings | None) -> str | None:
        return "the clip is silent" if is_silent(clip) else None

    def draw_one(self, clip: Clip, rng: np.random.Generator, noise: Recordings | None) -> dict[str, Any]:
        strength = {} if self.strength is None else {self.strength: self.strength_value}
        return {**strength, "noise_seed": int(rng.integers(NOISE_SEEDS))} if self.random else strength

    def apply(self, clip: Clip, params: dict[str, Any], noise: Recordings | None = None) -> Changed:
        if self.strength is not None and params[self.strength] == self.identity:
            return sent(clip.samples, clip.sample_rate)
        return self.changed(clip, params)

    @abstractmethod
    def changed(self, clip: Clip, params: dict[str, Any]) -> Changed:
        """The clip, changed by other than the identity."""


def resampled(samples: Floats, sample_rate: int, count: int) -> Floats:
    """Samples (n,) as `count` that take the same time, without aliases, by way of their spectrum (scipy.signal.resample)."""
    from scipy.signal import resample

    # Silence behind them, in a whole number of the shortest stretches that hold a whole number of both.
    shared = math.gcd(len(samples), count)
    stretch = len(samples) // shared
    stretches = -(-(len(samples) + round(EDGE_S * sample_rate)) // stretch)
    padded = np.zeros(stretches * stretch, np.float32)
    padded[: len(samples)] = samples
    made: Floats = resample(padded, stretches * (count // shared))[:count]
    return made.astype(np.float32, copy=False)
