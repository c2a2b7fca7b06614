"""Clips made of numbers: voiced sound in bursts, like speech with pauses; and noise to put behind it."""

from __future__ import annotations

import numpy as np

from aitest_lib.data.recordings import Recordings
from aitest_lib.pcm import of_pcm16, to_pcm16
from aitest_lib.types import Clip


def voice(seconds: float = 1.0, rate: int = 16_000, level: float = 0.1, offset: float = 0.0, pause: float = 0.0) -> Clip:
    """Harmonics of 120 Hz, four bursts a second, with `pause` seconds of silence on both sides."""
    times = np.arange(max(1, round(seconds * rate))) / rate
    tone = sum(np.sin(2 * np.pi * 120 * number * times) / number for number in range(1, 20) if 120 * number < rate / 2)
    spoken = level * tone * np.sin(4 * np.pi * times) ** 2
    silence = np.zeros(round(pause * rate))
    return of_pcm16(to_pcm16(np.concatenate([silence, spoken, silence]) + offset), rate)


def grain(count: int, rate: int = 16_000, seed: int = 0, level: float = 0.1) -> Clip:
    """Normal noise of any length."""
    samples = np.random.default_rng(seed).standard_normal(count) * level
    return of_pcm16(to_pcm16(samples), rate)


def recordings(*seconds: float, rate: int = 16_000) -> Recordings:
    """Recordings of noise that are so long."""
    made = [grain(max(2, round(length * rate)), rate, seed=place).samples for place, length in enumerate(seconds)]
    return Recordings(tuple(f"noise {place}" for place in range(len(made))), tuple(made), rate)
