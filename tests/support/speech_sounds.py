"""Clips that sound like a voice saying a text, and what might be heard of it, for the tests of what people listen to."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from aitest_lib.pcm import of_pcm16, to_pcm16
from aitest_lib.reports.records import Sound, Word
from aitest_lib.reports.sounds import sound
from aitest_lib.rng import rng_for
from aitest_lib.types import Clip

RATE = 16_000  # samples per second
TEXTS = (
    "i am ready",
    "can i talk to someone",
    "keep holding",
    "i need a minute",
    "repeat please",
    "please transfer me to the billing department because my invoice is wrong",
    "our next meeting will be on monday at three in the afternoon",
)
OTHERS = ("call", "the", "summer", "hold", "minutes", "ready", "a")


def alignment(place: int, rng: np.random.Generator) -> list[Word]:
    """A text and what was heard of it: some words substituted, deleted and inserted, one at least."""
    words: list[Word] = []
    said = TEXTS[place % len(TEXTS)].split()
    for i, word in enumerate(said):
        kind = "delete" if i == 0 else str(rng.choice(["equal", "substitute", "delete", "insert"], p=[0.4, 0.3, 0.2, 0.1]))
        other = str(rng.choice(OTHERS))
        if kind == "insert":
            words.append(Word(said=None, heard=other, kind="insert"))
        if kind == "substitute":
            words.append(Word(said=word, heard=other, kind="substitute"))
        elif kind == "delete":
            words.append(Word(said=word, heard=None, kind="delete"))
        else:
            words.append(Word(said=word, heard=word, kind="equal"))
    return words


def spoken(place: int, sample_rate: int = RATE) -> Clip:
    """Something that sounds like a voice saying a text: a buzz through two formants, a syllable at a time."""
    rng = rng_for(9, "speech sample", str(place))
    parts = [np.zeros(sample_rate // 5)]
    pitch = rng.uniform(90, 220)
    for _ in TEXTS[place % len(TEXTS)].split():
        size = int(sample_rate * rng.uniform(0.18, 0.32))
        time = np.arange(size) / sample_rate
        phase = 2 * np.pi * np.cumsum(pitch * (1.1 - 0.2 * time / time[-1])) / sample_rate
        formants = rng.uniform([300, 900], [800, 2300])
        voice = sum(
            np.sin(harmonic * phase) * sum(np.exp(-(((harmonic * pitch - f) / 200) ** 2)) for f in formants)
            for harmonic in range(1, 24)
        )
        parts += [voice * np.sqrt(np.hanning(size)), np.zeros(sample_rate // 25)]
    samples = np.concatenate([*parts, np.zeros(sample_rate // 5)])
    return of_pcm16(to_pcm16(0.5 * samples / np.abs(samples).max()), sample_rate)


def pair_of(place: int, snr: float | None, words: list[Word], wer: float) -> list[Sound]:
    """A seed and its case: in white noise of this SNR, or, without one, in another voice."""
    seed = spoken(place)
    case = spoken(place + 100) if snr is None else Clip(_noisy(seed.samples, snr), RATE)
    equal = [Word(said=word, heard=word, kind="equal") for word in TEXTS[place % len(TEXTS)].split()]
    text = TEXTS[place % len(TEXTS)]
    return [
        sound(seed, "seed", f"“{text}”, untouched", equal, 0.0),
        sound(case, "case", f"“{text}”, transformed", words, wer),
    ]


def _noisy(samples: NDArray[np.float32], snr: float) -> NDArray[np.float32]:
    noise = _noise()[: len(samples)]
    level = float(np.sqrt(np.mean(samples**2) / 10 ** (snr / 10)))
    mixed = samples + level * noise
    return of_pcm16(to_pcm16(mixed * min(1.0, 0.99 / float(np.abs(mixed).max()))), RATE).samples


@lru_cache
def _noise() -> NDArray[np.float32]:
    return rng_for(1, "speech sample", "noise").standard_normal(20 * RATE, dtype=np.float32)
