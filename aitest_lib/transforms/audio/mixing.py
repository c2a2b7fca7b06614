"""Clip and noise together: the one place where they become 16-bit samples again, and what transforms that add noise share."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aitest_lib.data.recordings import Recordings
from aitest_lib.parameters import parameter
from aitest_lib.pcm import FULL_SCALE, LEAST, of_pcm16, to_pcm16
from aitest_lib.transforms.audio.base import AudioTransform, Changed
from aitest_lib.transforms.audio.levels import Floats, Level, in_db, is_silent, moments, peak, rms
from aitest_lib.types import Clip

LARGEST = 1.0 - LEAST
HEADROOM = 0.99  # the peak of what would not fit
LEAST_NOISE = 3 * LEAST  # RMS of noise to which rounding to 16 bits adds less than 0.05 dB
ROUNDING = LEAST**2 / 12  # power that rounding adds


@dataclass(frozen=True, kw_only=True)
class AddedNoise(AudioTransform):
    """A transform that adds noise at a stated level: by the level of the whole clip, or of its speech."""

    level: Level = parameter("clip", help="the clip's level is that of the whole clip, or of its active speech: clip or active")

    def misfit(self, clip: Clip, noise: Recordings | None) -> str | None:
        return "the clip is silent" if is_silent(clip) else None


def mixed(clip: Clip, noise: Floats, clip_level: float, noise_level: float, clip_gain: float = 1.0) -> Changed:
    """`clip_gain` times the clip of level `clip_level`, and noise (n,) of RMS `noise_level` over the whole clip, as PCM16.

    What exceeds full scale is scaled down as a whole to a peak of 0.99. Noise so weak that rounding would change it is
    amplified as a whole, as far as the peak allows, and made weaker by what rounding adds. Both are told as `gain_db`.
    `snr_db` is that of what is sent: the level of the clip within it over the RMS of all else; without any noise it is
    left out.
    """
    mean, found = moments(noise)
    heard = clip.samples if clip_gain == 1 else clip.samples * np.float32(clip_gain)
    if found == 0 or noise_level == 0:
        return fitted(heard, clip.sample_rate)
    total = _sum(heard, noise, noise_level / found, mean)
    gain, highest, weak = 1.0, peak(total), noise_level < LEAST_NOISE
    if highest > LARGEST:
        gain = HEADROOM / highest
    elif weak:
        gain = max(1.0, min(LEAST_NOISE / noise_level, HEADROOM / highest))
    if weak or gain != 1:
        heard = heard * np.float32(gain)
        left = math.sqrt(max((gain * noise_level) ** 2 - ROUNDING, 0.0))
        total = _sum(heard, noise, left / found, mean)
    changed = sent(total, clip.sample_rate)
    added = rms(changed.clip.samples, less=heard)
    level = gain * clip_gain * clip_level
    snr = {"snr_db": round(in_db(level / added), 3)} if added > 0 and level > 0 else {}
    return Changed(changed.clip, {**snr, **changed.measured, **_told(gain)})


def fitted(samples: NDArray[np.floating], sample_rate: int) -> Changed:
    """Samples as PCM16; what exceeds full scale is scaled down as a whole to a peak of 0.99, told as `gain_db`."""
    values = samples.astype(np.float32, copy=False)
    highest = peak(values)
    if highest <= 1:
        return sent(values, sample_rate)
    gain = HEADROOM / highest
    changed = sent(values * np.float32(gain), sample_rate)
    return Changed(changed.clip, {**changed.measured, **_told(gain)})


def sent(samples: Floats, sample_rate: int) -> Changed:
    """Samples as PCM16; what exceeds full scale is cut. `peak_dbfs` (left out where all is 0), and `clipped`: the share of
    samples at full scale."""
    values = to_pcm16(samples)
    low, high = int(values.min()), int(values.max())
    highest = max(high, -low)
    at_the_ends = 0
    if highest >= FULL_SCALE - 1:
        at_the_ends = int(np.count_nonzero((values == -FULL_SCALE) | (values == FULL_SCALE - 1)))
    level = {"peak_dbfs": round(in_db(highest / FULL_SCALE), 3)} if highest else {}
    return Changed(of_pcm16(values, sample_rate), {**level, "clipped": round(at_the_ends / len(values), 6)})


def _sum(heard: Floats, noise: Floats, noise_gain: float, mean: float) -> Floats:
    total: Floats = noise * np.float32(noise_gain)
    total += heard
    total -= np.float32(noise_gain * mean)
    return total


def _told(gain: float) -> dict[str, float]:
    return {} if gain == 1 else {"gain_db": round(in_db(gain), 3)}
