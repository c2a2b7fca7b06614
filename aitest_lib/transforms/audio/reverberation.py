"""Speech in a room."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from aitest_lib.parameters import parameter
from aitest_lib.registry import register
from aitest_lib.transforms.audio.base import Changed
from aitest_lib.transforms.audio.effect import Effect
from aitest_lib.transforms.audio.levels import Floats, in_db, rms
from aitest_lib.transforms.audio.mixing import fitted
from aitest_lib.transforms.audio.white_noise import white
from aitest_lib.types import Clip

EVEN_S = 0.5  # reverberation time at which the room is as loud as the voice


@register
@dataclass(frozen=True, kw_only=True)
class Reverberation(Effect):
    """The voice, and what comes back from the walls: noise that decays by 60 dB in `rt60_s` (Polack 1988), louder in
    proportion to it, as in Sabine's rooms. Length and level stay as they are."""

    name: ClassVar[str] = "reverberation"
    strength: ClassVar[str | None] = "rt60_s"
    identity: ClassVar[float | None] = 0.0
    strongest: ClassVar[float | None] = 3.0
    random: ClassVar[bool] = True
    rt60_s: float = parameter(0.6, help="time in which the sound in the room decays by 60 dB", unit="s", ge=0, le=10)

    def changed(self, clip: Clip, params: dict[str, Any]) -> Changed:
        from scipy.signal import oaconvolve

        echoes = late_echoes(params["noise_seed"], params["rt60_s"], clip.sample_rate)
        if not len(echoes):
            return fitted(clip.samples, clip.sample_rate)
        wet = clip.samples + oaconvolve(clip.samples, echoes)[: len(clip.samples)]
        made = fitted(wet * np.float32(rms(clip.samples) / rms(wet)), clip.sample_rate)
        return Changed(made.clip, {**made.measured, "drr_db": round(in_db(EVEN_S / params["rt60_s"]) / 2, 3)})


def late_echoes(noise_seed: int, rt60_s: float, sample_rate: int) -> Floats:
    """The response of a room after the direct sound: decaying noise until -60 dB, its energy `rt60_s` / 0.5 s."""
    count = round(rt60_s * sample_rate)
    decay = 10 ** (-3 * np.arange(count, dtype=np.float32) / np.float32(max(count, 1)))
    echoes = white(noise_seed, count) * decay
    energy = float(np.square(echoes).sum())
    return echoes * np.float32((rt60_s / EVEN_S / energy) ** 0.5) if energy else echoes[:0]
