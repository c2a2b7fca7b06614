"""Sounds in a report: what is played of a clip, and its spectrogram."""

from __future__ import annotations

from base64 import b64decode
from io import BytesIO
from typing import Any

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from speech_sounds import RATE

from aitest_lib.errors import InputError
from aitest_lib.reports.sounds import HEIGHT, WIDTH, page_rate, sound, spectrogram
from aitest_lib.types import Clip


def tone(hertz: float, seconds: float, rate: int = RATE) -> Clip:
    time = np.arange(round(seconds * rate)) / rate
    return Clip((0.5 * np.sin(2 * np.pi * hertz * time)).astype(np.float32), rate)


def decoded(src: str) -> tuple[Any, int]:
    samples, rate = soundfile.read(BytesIO(b64decode(src.partition(",")[2])), dtype="float32")
    return samples, rate


@pytest.mark.parametrize("rate", [8_000, 11_025, 11_111, 16_000, 22_050, 44_100, 48_000, 384_000])
def test_a_clip_of_any_rate_is_played_in_time_and_in_tune(rate: int) -> None:
    made = sound(tone(440, 1.5, rate), "seed", "a tone")
    samples, played = decoded(made.src)
    assert played == page_rate(rate)
    assert made.seconds == pytest.approx(1.5, abs=0.001)
    assert len(samples) / played == pytest.approx(1.5, abs=0.15)
    power = np.abs(np.fft.rfft(samples[:played]))  # bins of 1 Hz
    assert abs(int(power.argmax()) - 440) <= 2
    assert ("samples a second" in made.note) is (played != rate)


def test_a_long_clip_is_cut_with_a_word() -> None:
    made = sound(tone(200, 20, 8_000), "case", "a long tone", note="noise added")
    samples, rate = decoded(made.src)
    assert len(samples) / rate == pytest.approx(15, abs=0.15)
    assert made.seconds == 20
    assert made.note == "0 to 4 kHz, the first 15 s of 20.0 s, noise added"
    assert made.alt == "a long tone; spectrogram from 0 to 4 kHz over 15.0 s"


def test_sounds_are_small() -> None:
    noisy = np.random.default_rng(0).uniform(-1, 1, 4 * RATE).astype(np.float32)
    pair = [sound(tone(300, 4), "seed", ""), sound(Clip(noisy, RATE), "case", "")]
    assert sum(len(item.src) + len(item.spectrogram) for item in pair) < 60_000


@pytest.mark.parametrize("samples", [1, 2, 30, 399])
@pytest.mark.parametrize("rate", [100, 16_000, 384_001])
def test_the_shortest_clips_have_a_sound(samples: int, rate: int) -> None:
    made = sound(Clip(np.full(samples, 0.25, np.float32), rate), "seed", "a click")
    assert made.seconds == samples / rate
    assert Image.open(BytesIO(b64decode(made.spectrogram.partition(",")[2]))).size == (WIDTH, HEIGHT)


def test_a_clip_without_samples_is_refused() -> None:
    with pytest.raises(InputError, match="got a clip without samples, expected at least one"):
        sound(Clip(np.zeros(0, np.float32), RATE), "seed", "nothing")


def test_samples_that_may_not_be_written_are_read() -> None:
    clip = tone(300, 0.2, 44_100)
    clip.samples.setflags(write=False)
    assert sound(clip, "seed", "") == sound(tone(300, 0.2, 44_100), "seed", "")


@pytest.mark.parametrize(("hertz", "row"), [(0, 63), (2_000, 47), (4_000, 31), (8_000, 0)])
def test_a_tone_stands_at_its_frequency(hertz: float, row: int) -> None:
    time = np.arange(RATE) / RATE
    levels = spectrogram(Clip(np.cos(2 * np.pi * hertz * time).astype(np.float32), RATE))
    rows = np.flatnonzero((levels == 15).mean(1) > 0.9)
    assert len(rows)
    assert np.abs(rows - row).max() <= 1


def test_a_spectrogram_runs_over_time() -> None:
    samples = np.concatenate([np.zeros(RATE, np.float32), tone(1_000, 1).samples])
    columns = spectrogram(Clip(samples, RATE)).max(0)
    assert columns[: WIDTH // 2 - 3].max() == 0
    assert columns[WIDTH // 2 + 3 :].min() == 15


def test_silence_is_dark() -> None:
    assert not spectrogram(Clip(np.zeros(RATE, np.float32), RATE)).any()


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 3_000), st.integers(50, 50_000), st.integers(0, 99))
def test_spectrograms_are_whole_for_every_length_and_louder_is_no_different(samples: int, rate: int, seed: int) -> None:
    heard = np.random.default_rng(seed).uniform(-1, 1, samples).astype(np.float32)
    levels = spectrogram(Clip(heard, rate))
    assert levels.shape == (HEIGHT, WIDTH)
    assert levels.max() == 15
    np.testing.assert_array_equal(levels, spectrogram(Clip(heard / 4, rate)))
