"""What noise does to a real recogniser: PocketSphinx with a command grammar, on clips of three voices."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache, partial
from itertools import pairwise
from pathlib import Path

import jiwer
import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray
from speech_projects import CARD, FLITE, clips

from aitest_lib.data.recordings import NoiseSource, Recordings, read_recordings
from aitest_lib.models.pocketsphinx import PocketSphinx
from aitest_lib.pcm import of_pcm16, to_pcm16
from aitest_lib.rng import rng_for
from aitest_lib.transforms.audio.base import AudioTransform
from aitest_lib.transforms.audio.interference import Interference
from aitest_lib.transforms.audio.noises import synthesize
from aitest_lib.transforms.audio.white_noise import WhiteNoise

SHARED = Path(os.environ.get("AITEST_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data"))
DECIBELS = (40, 20, 10, 5, 0)
NOISE = 0.05  # by which a curve may fall where it should rise


@pytest.fixture(scope="module")
def recogniser() -> PocketSphinx:
    return PocketSphinx(CARD["python"]["params"]["grammar"])


@cache
def heard_by(speaker: str) -> tuple[list[str], list[NDArray[np.float32]]]:
    rows = clips([speaker], texts=8)
    read = [of_pcm16(to_pcm16(soundfile.read(row["path"], dtype="float32")[0]), 16_000).samples for row in rows]
    return [row["text"] for row in rows], read


def word_errors(
    recogniser: PocketSphinx, transform: AudioTransform | None, speakers: Sequence[str], noise: Recordings | None = None
) -> float:
    said, sent = list[str](), list[NDArray[np.float32]]()
    for speaker in speakers:
        texts, samples = heard_by(speaker)
        for text, one in zip(texts, samples, strict=True):
            said.append(text)
            clip = of_pcm16(to_pcm16(one), 16_000)
            if transform is not None:
                params = transform.draw([text], [clip], partial(rng_for, 1, transform.key), noise).params[0]
                changed = transform.apply(clip, params, noise)
                assert abs(changed.measured["snr_db"] - float(transform.strength_value or 0)) <= 0.1
                clip = changed.clip
            sent.append(clip.samples)
    return float(jiwer.wer(said, recogniser.predict(sent, 16_000)))


def test_white_noise_takes_the_words_away_step_by_step(recogniser):
    assert word_errors(recogniser, None, FLITE) <= 0.02
    curve = [word_errors(recogniser, WhiteNoise(snr_db=level), FLITE) for level in DECIBELS]
    assert curve[0] <= 0.02 and all(after >= before - NOISE for before, after in pairwise(curve))
    assert word_errors(recogniser, WhiteNoise(snr_db=5), FLITE[:1]) > 0.5


def test_at_equal_level_talk_and_rain_hurt_and_wind_hardly_does(recogniser):
    found = {
        name: word_errors(recogniser, Interference(noise=name, snr_db=0), FLITE, synthesize(name, 16_000))
        for name in ("restaurant", "rain", "festival", "water_drip", "wind")
    }
    assert min(found["restaurant"], found["rain"], found["festival"]) > 0.5
    assert max(found["wind"], found["water_drip"]) < 0.15


@pytest.mark.shared
@pytest.mark.skipif(not (SHARED / "noise").exists(), reason=f"{SHARED / 'noise'} is not there")
def test_recordings_hurt_as_the_synthesized_noises_do(recogniser):
    found = {}
    for name in ("wind", "rain", "coffee-shop"):
        noise = read_recordings(NoiseSource(name=name, folder=str(SHARED / "noise")), 16_000)
        transform = Interference(noise=name, recordings=str(SHARED / "noise"), snr_db=0)
        found[name] = word_errors(recogniser, transform, FLITE, noise)
    assert found["wind"] < 0.15 < found["coffee-shop"] and found["rain"] > 0.5
