"""Synthesized noises: fixed recordings of 30 s, made of nothing but random numbers, so that they are there on every machine.

They have the spectrum, the rhythm and the peaks of what they are named after, and hold no words. A real recording is better
where there is one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from aitest_lib.data.recordings import Recordings
from aitest_lib.errors import InputError, unknown
from aitest_lib.pcm import LEAST
from aitest_lib.rng import rng_for
from aitest_lib.transforms.audio.noise_parts import (
    Floats,
    Rng,
    at_random,
    band,
    chances,
    coloured,
    decaying,
    in_room,
    levelled,
    scattered,
    shaped,
    talking,
    together,
    wander,
)

NOISES_VERSION = 1  # raised whenever a noise changes: what was made of it is kept
SECONDS = 30
RATES = (8_000, 48_000)  # the lowest and the highest sample rate in Hz
WHISTLES_HZ, WHISTLES_LEVEL = (350, 600, 950), 20.0
LEVEL, PEAK = 0.1, 0.99  # RMS of a recording, unless its peak would be higher than this


@dataclass(frozen=True)
class Noise:
    """A noise: `make(rng, count, rate)` gives float32 samples (count,) of any level."""

    description: str
    make: Callable[[Rng, int, int], Floats]


@lru_cache(maxsize=16)
def synthesize(name: str, sample_rate: int) -> Recordings:
    """The noise of a name as one recording of 30 s, always the same: mean 0, RMS 0.1 or less where its peak would pass 0.99.

    An unknown name and a sample rate below 8 or above 48 kHz are `InputError`s.
    """
    if name not in NOISES:
        raise InputError(unknown("noise", name, NOISES))
    if not RATES[0] <= sample_rate <= RATES[1]:
        raise InputError(
            f"got clips at {sample_rate:,} Hz, expected 8,000 to 48,000 for the synthesized noise {name}; "
            "resample the clips, or set recordings, a folder of your own"
        )
    samples = levelled(NOISES[name].make(rng_for(0, "noise", name), SECONDS * sample_rate, sample_rate))
    samples *= np.float32(min(LEVEL, PEAK / float(np.abs(samples).max())) / LEAST)
    samples = np.rint(samples) * np.float32(LEAST)  # on the grid of 16-bit samples, whose levels add up exactly
    samples.setflags(write=False)  # it is handed out again
    return Recordings((name,), (samples,), sample_rate)


def rain(rng: Rng, count: int, rate: int) -> Floats:
    """A hiss whose level wanders, and 400 drops a second."""
    hiss = shaped(rng, count, rate, lambda hertz: np.maximum(hertz, 20.0) ** -0.3 * band(hertz, 700, 7_000))
    hiss *= np.exp(0.12 * wander(rng, count, rate, 0.5))
    clicks = decaying(rng, 24, rate, 0.008, (1_500, 6_500), (0.0004, 0.0016))
    drops = at_random(rng, count, clicks, chances(rng, count, rate, 400), 0.8)
    return together((1.0, hiss), (0.6, levelled(drops)))


def wind(rng: Rng, count: int, rate: int) -> Floats:
    """Gusts of low noise, with three whistling bands that follow them."""
    gust = np.clip(1 + 0.35 * wander(rng, count, rate, 0.4) + 0.1 * wander(rng, count, rate, 2.0), 0.4, None)
    low = shaped(rng, count, rate, lambda hertz: band(hertz, 25, 500) / np.maximum(hertz, 20.0))
    bands = [(tone, shaped(rng, count, rate, partial(band, low=0.97 * tone, high=1.03 * tone))) for tone in WHISTLES_HZ]
    return together((1.0, low * gust**2), *((WHISTLES_LEVEL / tone, whistle * gust**4) for tone, whistle in bands))


def water_drip(rng: Rng, count: int, rate: int) -> Floats:
    """Two or three drops a second into still water, each a bubble of rising pitch (Minnaert) with two echoes."""
    times = np.arange(round(0.25 * rate)) / rate
    kinds = 32
    start = rng.uniform(600, 2_500, (kinds, 1))
    phase = 2 * np.pi * start * (times + rng.uniform(1, 4, (kinds, 1)) * times**2 / 2)
    bubbles = np.sin(phase) * np.exp(-times / rng.uniform(0.012, 0.04, (kinds, 1))) * np.clip(times / 0.001, 0, 1)
    dry = at_random(rng, count, bubbles.astype(np.float32), chances(rng, count, rate, 2.5), 0.4)
    wet = together((1.0, dry), (0.3, np.roll(dry, round(0.083 * rate))), (0.12, np.roll(dry, round(0.191 * rate))))
    return together((1.0, levelled(wet)), (0.02, coloured(rng, count, rate, 1.0)))


def babble(rng: Rng, count: int, rate: int) -> Floats:
    """Eight people who talk at once, without words."""
    return talking(rng, count, rate, 8)


def restaurant(rng: Rng, count: int, rate: int) -> Floats:
    """Ten talkers in a room, its hum, and cutlery."""
    people = talking(rng, count, rate, 10)
    partials = [decaying(rng, 12, rate, 0.25, (2_000, 7_000), (0.01, 0.06)) for _ in range(4)]
    cutlery = at_random(rng, count, together(*((1.0, part) for part in partials)), chances(rng, count, rate, 1.2), 0.6)
    room, hum = in_room(rng, people, rate, 0.6), coloured(rng, count, rate, 1.0)
    return together((1.0, people), (0.6, room), (0.3, hum), (0.25, levelled(cutlery)))


def festival(rng: Rng, count: int, rate: int) -> Floats:
    """A crowd in the open: 25 talkers, roar, a drum twice a second, clapping hands, cheers and whistles."""
    crowd = in_room(rng, talking(rng, count, rate, 25), rate, 0.8)
    roar = shaped(rng, count, rate, lambda hertz: band(hertz, 250, 2_500) / np.sqrt(np.maximum(hertz, 20.0)))
    roar *= np.exp(0.3 * wander(rng, count, rate, 0.3))
    times = np.arange(round(0.25 * rate)) / rate
    drum = np.sin(2 * np.pi * (50 * times - 3 * np.exp(-times / 0.03))) * np.exp(-times / 0.07)
    beats = scattered(count, drum[None].astype(np.float32), ((place, 0, 1.0) for place in range(0, count, rate // 2)))
    bursts = shaped(rng, 16 * round(0.03 * rate), rate, lambda hertz: band(hertz, 800, 3_500)).reshape(16, -1)
    bursts = bursts * np.exp(-np.arange(bursts.shape[1]) / (0.006 * rate)).astype(np.float32)
    claps = at_random(rng, count, bursts, chances(rng, count, rate, 14), 0.5)
    cheers = at_random(rng, count, _cheers(rng, rate), chances(rng, count, rate, 0.7), 0.4)
    events = ((0.6, levelled(beats)), (0.35, levelled(claps)), (0.3, levelled(cheers)))
    return together((1.0, crowd), (0.7, roar), *events)


def _cheers(rng: Rng, rate: int) -> Floats:
    """Six long calls and six whistles, rising and falling: (12, length)."""
    times = np.arange(round(1.0 * rate)) / rate
    tones = np.concatenate([rng.uniform(350, 700, 6), rng.uniform(1_800, 2_800, 6)])[:, None]
    pitch = tones * (1 + rng.uniform(0.1, 0.4, (12, 1)) * np.sin(np.pi * times))
    phase = 2 * np.pi * np.cumsum(pitch, axis=1) / rate
    overtones = np.where(np.arange(12) < 6, 0.5, 0.0)[:, None] * (np.sin(2 * phase) + 0.5 * np.sin(3 * phase))
    calls: Floats = ((np.sin(phase) + overtones) * np.sin(np.pi * times) ** 2).astype(np.float32)
    return calls


NOISES: dict[str, Noise] = {
    "white": Noise("white noise: all frequencies alike", partial(coloured, exponent=0.0)),
    "pink": Noise("pink noise: 3 dB less at each octave", partial(coloured, exponent=1.0)),
    "brown": Noise("brown noise: 6 dB less at each octave", partial(coloured, exponent=2.0)),
    "restaurant": Noise("talking people without words in a room, and cutlery", restaurant),
    "rain": Noise("steady rain with its drops", rain),
    "festival": Noise("a crowd in the open: voices, a drum, clapping, cheers", festival),
    "water_drip": Noise("drops into still water, with echoes", water_drip),
    "wind": Noise("gusts of wind, nearly all below 500 Hz", wind),
    "babble": Noise("eight people who talk at once, without words", babble),
}
