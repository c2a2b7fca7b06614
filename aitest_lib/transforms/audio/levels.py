"""How loud a clip is.

Levels are root mean squares without the mean: a constant is not heard. `clip`: over the whole clip, as in the papers;
`active`: over its frames with speech, so that silence around the words does not make noise weaker (the idea of ITU-T P.56).
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from aitest_lib.types import Clip

Floats = NDArray[np.float32]
Level = Literal["clip", "active"]

FRAME_S = 0.025  # of speech, over which it is taken as steady
ACTIVE_DB = -35.0  # below the loudest frame: no speech
BLOCK = 1 << 16  # samples that are added up at once


def rms(samples: Floats, less: Floats | None = None) -> float:
    """Root mean square of samples (n,), or of their difference from others, without its mean; 0 for one sample."""
    return moments(samples, less)[1]


def moments(samples: Floats, less: Floats | None = None) -> tuple[float, float]:
    """Mean and standard deviation of samples (n,), or of their difference from others.

    16-bit samples are whole numbers to a float64, which adds them and their squares up exactly: the same figures on every
    machine, and however far from 0 the samples lie.
    """
    total = power = 0.0
    for start in range(0, len(samples), BLOCK):
        heard = samples[start : start + BLOCK]
        # The difference of 16-bit samples is exact in float32, too, which is half as much to move.
        part = (heard if less is None else heard - less[start : start + BLOCK]).astype(np.float64)
        total += float(part.sum())
        power += float(np.dot(part, part))
    mean = total / len(samples)
    return mean, math.sqrt(max(power / len(samples) - mean**2, 0.0))


def active_rms(samples: Floats, sample_rate: int) -> float:
    """Root mean square over the frames with speech: those of 25 ms at most 35 dB below the loudest."""
    power, lengths, active = _frames(samples, sample_rate)
    return math.sqrt(float(power[active].sum()) / int(lengths[active].sum()))


def speech_share(samples: Floats, sample_rate: int) -> float:
    """The share of a clip (0 to 1) that is in its frames with speech."""
    _, lengths, active = _frames(samples, sample_rate)
    return int(lengths[active].sum()) / len(samples)


def level_of(clip: Clip, level: Level) -> float:
    """The level of a clip, 1.0 = full scale: over the whole of it, or over its frames with speech."""
    return rms(clip.samples) if level == "clip" else active_rms(clip.samples, clip.sample_rate)


def is_silent(clip: Clip) -> bool:
    """Is every sample of a clip the same."""
    return bool((clip.samples == clip.samples[0]).all())


def in_db(ratio: float) -> float:
    """A ratio of amplitudes (above 0) in decibels; of an amplitude where 1.0 is full scale: dBFS."""
    return 20 * math.log10(ratio)


def of_db(decibels: float) -> float:
    """The ratio of amplitudes of so many decibels."""
    return float(10 ** (decibels / 20))


def peak(samples: Floats) -> float:
    """The largest distance of samples from 0."""
    return max(float(samples.max()), -float(samples.min()))


def _frames(samples: Floats, sample_rate: int) -> tuple[NDArray[np.float64], NDArray[np.intp], NDArray[np.bool_]]:
    """Of each frame (the last one may be shorter): sum of squares, number of samples, whether there is speech in it."""
    size = max(1, round(FRAME_S * sample_rate))
    starts = np.arange(0, len(samples), size)
    power = np.add.reduceat(np.square(samples - samples.mean(), dtype=np.float64), starts)
    lengths = np.diff(starts, append=len(samples))
    mean = power / lengths
    return power, lengths, mean >= mean.max() * 10 ** (ACTIVE_DB / 10)
