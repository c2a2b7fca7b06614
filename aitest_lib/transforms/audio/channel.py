"""What stands between a mouth and a recogniser: a telephone, a wrong level, an overdriven input, lost packets."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from aitest_lib.parameters import parameter
from aitest_lib.pcm import of_pcm16, to_pcm16
from aitest_lib.registry import register
from aitest_lib.transforms.audio.base import Changed
from aitest_lib.transforms.audio.effect import Effect, resampled
from aitest_lib.transforms.audio.levels import Floats, of_db, peak
from aitest_lib.transforms.audio.mixing import fitted, sent
from aitest_lib.transforms.audio.white_noise import white
from aitest_lib.types import Clip

TELEPHONE_HZ = 8_000
BAND_HZ = (200.0, 300.0, 3_400.0, 3_700.0)  # silent, whole, whole, silent
BIAS = 33  # of G.711, in steps of 14 bits
LARGEST_14_BIT = 8_158
PACKET_S = 0.02
BURSTINESS = 0.8  # correlation of what befalls a packet and the next one


@register
@dataclass(frozen=True, kw_only=True)
class TelephoneBand(Effect):
    """A telephone line: 300 to 3,400 Hz, 8,000 samples a second in 8-bit mu-law (ITU-T G.711), at the clip's own rate again."""

    name: ClassVar[str] = "telephone_band"

    def changed(self, clip: Clip, params: dict[str, Any]) -> Changed:
        narrow, rate = in_band(clip.samples, clip.sample_rate), clip.sample_rate
        if rate <= TELEPHONE_HZ:
            return sent(of_pcm16(mu_law(to_pcm16(narrow)), rate).samples, rate)
        # A whole number of the shortest times that hold a whole number of samples at both rates.
        shared = math.gcd(rate, TELEPHONE_HZ)
        stretches = -(-len(narrow) * shared // rate)
        padded = np.zeros(stretches * (rate // shared), np.float32)
        padded[: len(narrow)] = narrow
        few = resampled(padded, rate, stretches * (TELEPHONE_HZ // shared))
        line = of_pcm16(mu_law(to_pcm16(few)), TELEPHONE_HZ)
        return fitted(resampled(line.samples, TELEPHONE_HZ, len(padded))[: len(narrow)], rate)


@register
@dataclass(frozen=True, kw_only=True)
class Clipping(Effect):
    """An overdriven input: what is above `level_db` under the clip's own peak is cut. Nothing is made louder after that."""

    name: ClassVar[str] = "clipping"
    strength: ClassVar[str | None] = "level_db"
    identity: ClassVar[float | None] = 0.0
    strongest: ClassVar[float | None] = -40.0
    level_db: float = parameter(-12.0, help="where the clip is cut, against its peak", unit="dB", ge=-60, le=0)

    def changed(self, clip: Clip, params: dict[str, Any]) -> Changed:
        limit = np.float32(peak(clip.samples) * of_db(params["level_db"]))
        made = sent(np.clip(clip.samples, -limit, limit), clip.sample_rate)
        cut = float((np.abs(clip.samples) > limit).mean())
        return Changed(made.clip, {**made.measured, "cut": round(cut, 6)})


@register
@dataclass(frozen=True, kw_only=True)
class Gain(Effect):
    """A clip that is louder or quieter. What no longer fits is cut, on purpose: `clipped` says how much."""

    name: ClassVar[str] = "gain"
    strength: ClassVar[str | None] = "gain_db"
    identity: ClassVar[float | None] = 0.0
    strongest: ClassVar[float | None] = 30.0
    gain_db: float = parameter(-20.0, help="how much louder; below 0 quieter", unit="dB", ge=-60, le=60)

    def changed(self, clip: Clip, params: dict[str, Any]) -> Changed:
        made = sent(clip.samples * np.float32(of_db(params["gain_db"])), clip.sample_rate)
        return Changed(made.clip, {**made.measured, "gain_db": round(params["gain_db"], 3)})


@register
@dataclass(frozen=True, kw_only=True)
class PacketLoss(Effect):
    """Packets of 20 ms that never came, in bursts as on real lines, are silence. What is lost at a rate is lost at any higher
    one. A rate below half a packet changes nothing."""

    name: ClassVar[str] = "packet_loss"
    strength: ClassVar[str | None] = "rate"
    identity: ClassVar[float | None] = 0.0
    strongest: ClassVar[float | None] = 0.8
    random: ClassVar[bool] = True
    rate: float = parameter(0.1, help="share of packets that are lost", unit="1", ge=0, le=1)

    def changed(self, clip: Clip, params: dict[str, Any]) -> Changed:
        size = max(1, round(PACKET_S * clip.sample_rate))
        packets = -(-len(clip.samples) // size)
        lost = np.zeros(packets, bool)
        lost[weakest(params["noise_seed"], packets)[: round(params["rate"] * packets)]] = True
        made = sent(np.where(np.repeat(lost, size)[: len(clip.samples)], np.float32(0), clip.samples), clip.sample_rate)
        return Changed(made.clip, {**made.measured, "lost": round(float(lost.mean()), 6)})


def weakest(noise_seed: int, packets: int) -> NDArray[np.intp]:
    """Packets in the order in which they are lost: by a normal process of first order, whose lows come in bursts."""
    from scipy.signal import lfilter

    fortune = lfilter([(1 - BURSTINESS**2) ** 0.5], [1, -BURSTINESS], white(noise_seed, packets))
    return np.argsort(fortune, kind="stable")


def in_band(samples: Floats, sample_rate: int) -> Floats:
    """Samples (n,) between 300 and 3,400 Hz, with edges of half a wave outside."""
    hertz = np.fft.rfftfreq(len(samples), 1 / sample_rate)
    gain = np.interp(hertz, BAND_HZ, (0.0, 1.0, 1.0, 0.0))
    made = np.fft.irfft(np.fft.rfft(samples) * np.sin(gain * np.pi / 2).astype(np.float32) ** 2, len(samples))
    return made.astype(np.float32, copy=False)


def mu_law(values: NDArray[np.int16]) -> NDArray[np.int16]:
    """16-bit samples (n,) through 8-bit mu-law and back (ITU-T G.711): each becomes the middle of one of 255 steps."""
    size = np.minimum(np.abs(values.astype(np.int32)) >> 2, LARGEST_14_BIT) + BIAS
    step = 1 << (np.frexp(size.astype(np.float64))[1] - 5)
    middle = size // step * step + step // 2 - BIAS
    heard: NDArray[np.int16] = (np.sign(values) * (middle << 2)).astype(np.int16)
    return heard
