"""What synthesized noises are made of: noise of a spectrum, slow curves, scattered sounds, rooms, and talkers without words."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Rng = np.random.Generator

AUDIBLE_HZ = 20.0
SYLLABLE_S = 0.36
# First three formants in Hz of American English vowels, men's (Peterson, Barney 1952).
VOWELS = np.array(
    [
        (270, 2290, 3010),
        (390, 1990, 2550),
        (530, 1840, 2480),
        (660, 1720, 2410),
        (730, 1090, 2440),
        (570, 840, 2410),
        (440, 1020, 2240),
        (300, 870, 2240),
        (640, 1190, 2390),
    ],
    float,
)
BANDWIDTHS = np.array([80.0, 110.0, 170.0])  # of the formants, in Hz
HIGHEST_VOICED_HZ = 4_000.0


def shaped(rng: Rng, count: int, rate: int, gain: Callable[[NDArray[Any]], NDArray[Any]]) -> Floats:
    """Normal noise (count,) of RMS 1 whose amplitude at each frequency in Hz follows `gain`."""
    spectrum = np.fft.rfft(rng.standard_normal(count, dtype=np.float32))
    spectrum *= gain(np.fft.rfftfreq(count, 1 / rate)).astype(np.float32)
    spectrum[0] = 0
    return levelled(np.fft.irfft(spectrum, count))


def coloured(rng: Rng, count: int, rate: int, exponent: float) -> Floats:
    """Normal noise whose power falls as 1 / f^exponent (0 white, 1 pink, 2 brown), flat below 20 Hz."""
    return shaped(rng, count, rate, lambda hertz: np.maximum(hertz, AUDIBLE_HZ) ** (-exponent / 2))


def band(hertz: NDArray[Any], low: float, high: float) -> NDArray[np.float64]:
    """The gain of a Butterworth band pass of fourth order at each side."""
    safe = np.maximum(hertz, 1e-3)
    return np.asarray(1 / np.sqrt((1 + (low / safe) ** 8) * (1 + (safe / high) ** 8)))


def levelled(samples: NDArray[np.floating]) -> Floats:
    """Samples of mean 0 and RMS 1."""
    values: Floats = samples.astype(np.float32)
    values -= values.mean()
    values /= np.sqrt(np.square(values).mean())
    return values


def together(*parts: tuple[float, Floats]) -> Floats:
    """Sounds (count,) at once, each with its level beside it."""
    made = np.zeros_like(parts[0][1])
    for level, part in parts:
        made += part * np.float32(level)
    return made


def wander(rng: Rng, count: int, rate: int, hertz: float) -> Floats:
    """A slow curve (count,): `hertz` standard normal points a second, joined by half waves."""
    points = rng.standard_normal(int(count * hertz / rate) + 2)
    places = np.arange(count) * (hertz / rate)
    before = places.astype(np.intp)
    share = (1 - np.cos(np.pi * (places - before))) / 2
    curve = points[before] * (1 - share) + points[before + 1] * share
    made: Floats = curve.astype(np.float32)
    return made


def chances(rng: Rng, count: int, rate: int, per_second: float) -> NDArray[np.intp]:
    """Places at which something happens so often on average, each independent of the others (a Poisson process)."""
    return rng.integers(0, count, rng.poisson(per_second * count / rate)).astype(np.intp)


def scattered(count: int, sounds: Floats, events: Iterable[tuple[int, int, float]]) -> Floats:
    """Short sounds (kinds, length) at `events` (place, kind, level), cut at the end: (count,)."""
    made = np.zeros(count, np.float32)
    for place, kind, level in events:
        part = made[place : place + sounds.shape[1]]
        part += sounds[kind, : len(part)] * np.float32(level)
    return made


def at_random(rng: Rng, count: int, sounds: Floats, places: NDArray[np.intp], spread: float) -> Floats:
    """Sounds (kinds, length), any of them at each place, with log-normal levels."""
    kinds = rng.integers(0, len(sounds), len(places))
    levels = np.exp(spread * rng.standard_normal(len(places)))
    return scattered(count, sounds, zip(places.tolist(), kinds.tolist(), levels.tolist(), strict=True))


def decaying(
    rng: Rng, kinds: int, rate: int, seconds: float, hertz: tuple[float, float], decay_s: tuple[float, float]
) -> Floats:
    """Short tones (kinds, length) with frequencies and times of decay from these ranges; none above what the rate can hold."""
    times = np.arange(round(seconds * rate)) / rate
    tones = np.minimum(rng.uniform(*hertz, (kinds, 1)), 0.45 * rate)
    fades = np.exp(-times / rng.uniform(*decay_s, (kinds, 1)))
    return (np.sin(2 * np.pi * tones * times) * fades).astype(np.float32)


def in_room(rng: Rng, samples: Floats, rate: int, rt60_s: float) -> Floats:
    """The sound as the walls throw it back: convolved, round and round, with noise that decays by 60 dB in `rt60_s`."""
    times = np.arange(min(round(rt60_s * rate), len(samples))) / rate
    echoes = np.zeros(len(samples), np.float32)
    echoes[: len(times)] = rng.standard_normal(len(times)) * 10 ** (-3 * times / rt60_s)
    return levelled(np.fft.irfft(np.fft.rfft(samples) * np.fft.rfft(echoes), len(samples)))


def talking(rng: Rng, count: int, rate: int, talkers: int, voices: int = 8, syllables: int = 10) -> Floats:
    """People who talk without words (count,): syllables of random vowels, three to six a second, with pauses."""
    pitches = np.where(np.arange(voices) % 2, rng.uniform(165, 240, voices), rng.uniform(85, 140, voices))
    sounds = voiced(rng, rate, np.repeat(pitches, syllables))
    events: list[tuple[int, int, float]] = []
    for talker in range(talkers):
        gaps = 0.13 + rng.gamma(3.0, 0.03, int(count / rate * 6))
        pauses = rng.random(len(gaps)) < 0.12
        gaps[pauses] += rng.uniform(0.3, 1.0, int(pauses.sum()))
        places = ((np.cumsum(gaps) - rng.random()) * rate).astype(np.intp)
        places = places[(places >= 0) & (places < count)]
        loudness = 10 ** (rng.uniform(-8, 0) / 20) * 10 ** (rng.uniform(-6, 0, len(places)) / 20)
        kinds = talker % voices * syllables + rng.integers(0, syllables, len(places))
        events += zip(places.tolist(), kinds.tolist(), loudness.tolist(), strict=True)
    return levelled(scattered(count, sounds, events))


def voiced(rng: Rng, rate: int, pitches: NDArray[np.float64]) -> Floats:
    """A syllable (syllables, length) of each pitch in Hz: a hiss, then harmonics that glide from one vowel to another."""
    kinds = len(pitches)
    times = np.arange(round(SYLLABLE_S * rate)) / rate
    glide = rng.uniform(0.85, 1.15, (kinds, 1)) ** (times / SYLLABLE_S)
    phase = (2 * np.pi / rate * np.cumsum(pitches[:, None] * rng.uniform(0.9, 1.1, (kinds, 1)) * glide, axis=1)).astype(
        np.float32
    )
    vowels = VOWELS[rng.integers(0, len(VOWELS), (2, kinds))] * np.where(pitches > 150, 1.17, 1.0)[:, None]
    moved = (times / SYLLABLE_S).astype(np.float32)
    # The sines of all harmonics by recurrence: sin (k + 1) x = 2 cos x sin k x - sin (k - 1) x.
    twice, below, here = 2 * np.cos(phase), np.zeros_like(phase), np.sin(phase)
    made = np.zeros_like(phase)
    highest = min(HIGHEST_VOICED_HZ, 0.4 * rate)
    for harmonic in range(1, int(highest / pitches.min()) + 1):
        first, last = (_resonance(harmonic * pitches, formants) * (harmonic * pitches < highest) for formants in vowels)
        made += here * (first[:, None] * (1 - moved) + last[:, None] * moved).astype(np.float32)
        below, here = here, twice * here - below
    made /= np.sqrt(np.square(made).mean(axis=1, keepdims=True))
    lengths = rng.uniform(0.14, 0.34, (kinds, 1))
    swell = np.clip(times / 0.03, 0, 1) * np.clip((lengths - times) / 0.08, 0, 1)
    hiss = shaped(rng, made.size, rate, lambda hertz: band(hertz, 2_000, 6_500)).reshape(made.shape)
    hissing = rng.uniform(0.0, 0.5, (kinds, 1)) * np.clip(times / 0.01, 0, 1) * np.clip((0.08 - times) / 0.03, 0, 1)
    return (made * swell + hiss * hissing).astype(np.float32)


def _resonance(hertz: NDArray[np.float64], formants: NDArray[np.float64]) -> NDArray[np.float64]:
    """How loud harmonics (n,) are with formants (n, 3): three resonances after a source that falls by 6 dB an octave."""
    ratio = hertz[:, None] / formants
    losses = np.sqrt((1 - ratio**2) ** 2 + (ratio * BANDWIDTHS / formants) ** 2)
    return np.asarray(1 / (hertz * losses.prod(axis=1)))
