"""Interference: a clip among other sounds (eq. 8 of the paper on testing speech to text), by ratio or by share.

The noise is a recording: a synthesized one, or one of the user's. A case takes a window of it, as long as the clip.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import numpy as np

from aitest_lib.data.recordings import NoiseSource, Recordings
from aitest_lib.errors import InputError, unknown
from aitest_lib.parameters import parameter
from aitest_lib.registry import register
from aitest_lib.transforms.audio.base import Changed
from aitest_lib.transforms.audio.levels import Floats, level_of, of_db, rms
from aitest_lib.transforms.audio.mixing import AddedNoise, mixed
from aitest_lib.transforms.audio.noises import NOISES
from aitest_lib.types import Clip

DEFAULT_NOISE = "restaurant"
DEFAULT_SNR_DB = 10.0
LEAST_SHARE = 0.1  # of the recording's level, in any window of it that is taken
TRIES = 50
CROSSFADE_S = 0.05

_levels: WeakKeyDictionary[Recordings, dict[int, float]] = WeakKeyDictionary()


@register
@dataclass(frozen=True, kw_only=True)
class Interference(AddedNoise):
    """theta x + (1 - theta) n, with noise n levelled to the clip x (the paper's eq. 8), so that the signal-to-noise ratio is
    20 log10(theta / (1 - theta)); or x + n at `snr_db`. The window of the noise sets its level."""

    name: ClassVar[str] = "interference"
    strength: ClassVar[str | None] = "snr_db"
    identity: ClassVar[float | None] = 60.0
    strongest: ClassVar[float | None] = -10.0
    swept: ClassVar[tuple[str, ...]] = ("noise", "snr_db", "theta")
    noise: str | None = parameter(
        None, help="a synthesized noise (restaurant unless given), or a label of the recordings (all of them unless given)"
    )
    recordings: str | None = parameter(None, help="a folder of recordings, labelled by their folders or by labels.csv")
    snr_db: float | None = parameter(
        None, help="level of the clip over that of the noise (10 unless given, or theta)", unit="dB", ge=-30, le=80
    )
    theta: float | None = parameter(
        None, help="share of the clip in the mix, the rest is noise of its level", unit="1", ge=0, le=1
    )

    def __post_init__(self) -> None:
        if self.snr_db is not None and self.theta is not None:
            raise InputError("got snr_db and theta, expected one of them; leave one out")
        if self.theta is not None:
            object.__setattr__(self, "strength", "theta")
        elif self.snr_db is None:
            object.__setattr__(self, "snr_db", DEFAULT_SNR_DB)
        if self.recordings is not None:
            return
        if self.noise is None:
            object.__setattr__(self, "noise", DEFAULT_NOISE)
        elif self.noise not in NOISES:
            hint = "or set recordings, a folder of your own"
            raise InputError(f"{unknown('noise', self.noise, NOISES)}; {hint}")

    @property
    def noise_source(self) -> NoiseSource:
        return NoiseSource(name=self.noise, folder=self.recordings)

    def draw_one(self, clip: Clip, rng: np.random.Generator, noise: Recordings | None) -> dict[str, Any]:
        """A recording, and where in it the window starts; the strength is asked for last and draws nothing."""
        given = _given(noise)
        place = int(rng.integers(len(given.names)))
        start = window_start(given.samples[place], level_in(given, place), len(clip.samples), given.sample_rate, rng)
        return {str(self.strength): self.strength_value, "level": self.level, "recording": given.names[place], "start": start}

    def apply(self, clip: Clip, params: dict[str, Any], noise: Recordings | None = None) -> Changed:
        given = _given(noise)
        if given.sample_rate != clip.sample_rate:
            raise ValueError(f"got noise at {given.sample_rate} Hz for a clip at {clip.sample_rate} Hz")
        recording = given.samples[given.names.index(params["recording"])]
        sound = window(recording, params["start"], len(clip.samples), clip.sample_rate)
        level = level_of(clip, params["level"])
        if "theta" in params:
            return mixed(clip, sound, level, (1 - params["theta"]) * level, clip_gain=params["theta"])
        return mixed(clip, sound, level, level / of_db(params["snr_db"]))


def window_start(samples: Floats, level: float, count: int, sample_rate: int, rng: np.random.Generator) -> int:
    """Where to take `count` samples of a recording of this level: anywhere that they are at least a tenth as loud.

    Where chance finds no such place, the window with the loudest sample in its middle.
    """
    places = len(samples) - count + 1 if count <= len(samples) else len(samples) - crossfade(samples, sample_rate)
    for _ in range(TRIES):
        start = int(rng.integers(places))
        if rms(window(samples, start, count, sample_rate)) >= LEAST_SHARE * level:
            return start
    return min(max(int(np.abs(samples).argmax()) - count // 2, 0), places - 1)


def window(samples: Floats, start: int, count: int, sample_rate: int) -> Floats:
    """`count` samples of a recording from `start` on; one that is too short goes round and round, its end crossfaded into its
    beginning within 50 ms, at equal power."""
    if count <= len(samples):
        return samples[start : start + count]
    faded = crossfade(samples, sample_rate)
    angles = (np.arange(faded) + 0.5) * (math.pi / 2 / max(faded, 1))
    seam = samples[:faded] * np.sin(angles) + samples[len(samples) - faded :] * np.cos(angles)
    round_ = np.concatenate([seam.astype(np.float32), samples[faded : len(samples) - faded]])
    return np.resize(np.roll(round_, -start), count)


def crossfade(samples: Floats, sample_rate: int) -> int:
    """How many samples of a recording that goes round are crossfaded: 50 ms, less than half of it."""
    return min(round(CROSSFADE_S * sample_rate), (len(samples) - 1) // 2)


def level_in(noise: Recordings, place: int) -> float:
    """The level of one of the recordings, worked out once."""
    known = _levels.setdefault(noise, {})
    if place not in known:
        known[place] = rms(noise.samples[place])
    return known[place]


def _given(noise: Recordings | None) -> Recordings:
    if noise is None:
        raise ValueError("got no recordings, expected those of `noise_source`")
    return noise
