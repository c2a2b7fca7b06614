"""White noise at a signal-to-noise ratio (eq. 5 to 7 of the paper on testing speech to text).

The noise of a clip depends on its noise seed alone, so that a stronger noise is the same noise, scaled. It is as long as
the clip: a loop would be heard as a tone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import NDArray

from aitest_lib.data.recordings import Recordings
from aitest_lib.parameters import parameter
from aitest_lib.registry import register
from aitest_lib.transforms.audio.base import Changed
from aitest_lib.transforms.audio.levels import Floats, level_of, of_db
from aitest_lib.transforms.audio.mixing import AddedNoise, mixed
from aitest_lib.types import Clip

NOISE_SEEDS = 1 << 63  # noise seeds are drawn from 0 up to here
VALUES = 1 << 16
GRID = 1 << 13


@register
@dataclass(frozen=True, kw_only=True)
class WhiteNoise(AddedNoise):
    """x + n, with normal noise n of RMS(x) / 10^(snr_db / 20): the paper's eq. 5 to 7, levels without their means."""

    name: ClassVar[str] = "white_noise"
    strength: ClassVar[str | None] = "snr_db"
    identity: ClassVar[float | None] = 60.0
    strongest: ClassVar[float | None] = -10.0
    snr_db: float = parameter(20.0, help="level of the clip over that of the noise", unit="dB", ge=-30, le=80)

    def draw_one(self, clip: Clip, rng: np.random.Generator, noise: Recordings | None) -> dict[str, Any]:
        return {"snr_db": float(self.snr_db), "level": self.level, "noise_seed": int(rng.integers(NOISE_SEEDS))}

    def apply(self, clip: Clip, params: dict[str, Any], noise: Recordings | None = None) -> Changed:
        level = level_of(clip, params["level"])
        return mixed(clip, white(params["noise_seed"], len(clip.samples)), level, level / of_db(params["snr_db"]))


class _OneWord(ISeedSequence):
    """Seeds SFC64 as its author does: one number in all of its words (Doty-Humphrey, PractRand)."""

    def __init__(self, noise_seed: int) -> None:
        self.noise_seed = noise_seed

    def generate_state(self, n_words: int, dtype: Any = np.uint64) -> NDArray[Any]:
        return np.full(n_words, self.noise_seed, dtype)


def white(noise_seed: int, count: int) -> Floats:
    """Standard normal noise (count,): sixteen random bits choose one of 65,536 quantiles (at most 4.3 from 0).

    Five times as fast as a generator of normal numbers, and finer than 16-bit samples but for the loudest one in a thousand.
    """
    generator = np.random.SFC64(_OneWord(noise_seed))  # type: ignore[arg-type]  # any ISeedSequence, as its documentation says
    drawn = generator.random_raw(-(-count // 4))
    numbers: Floats = np.take(_quantiles(), drawn.astype("<u8", copy=False).view("<u2")[:count], mode="clip")
    return numbers


@cache
def _quantiles() -> Floats:
    from scipy.special import ndtri

    # Multiples of 1 / 8192, so that their squares add up exactly (`moments`).
    quantiles: Floats = (np.rint(ndtri((np.arange(VALUES) + 0.5) / VALUES) * GRID) / GRID).astype(np.float32)
    return quantiles
