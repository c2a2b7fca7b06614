"""Transforms of speech beside the libraries that do the same: torchaudio, SciPy, and the mu-law of libsndfile."""

from __future__ import annotations

import io
from functools import partial

import numpy as np
import pytest
import soundfile
import torch
import torchaudio.functional
from audio_samples import grain, recordings, voice
from scipy.signal import fftconvolve, resample_poly

from aitest_lib.rng import rng_for
from aitest_lib.transforms.audio.channel import mu_law
from aitest_lib.transforms.audio.effect import resampled
from aitest_lib.transforms.audio.interference import Interference, window
from aitest_lib.transforms.audio.levels import rms
from aitest_lib.transforms.audio.reverberation import Reverberation, late_echoes
from aitest_lib.transforms.audio.tempo import Speed
from aitest_lib.transforms.audio.white_noise import WhiteNoise, white

RATE = 16_000
STEP = 1 / 32_768


def by_torchaudio(samples: np.ndarray, noise: np.ndarray, snr_db: float) -> np.ndarray:
    """Both without their means, which torchaudio takes for signal."""
    clip, other = (torch.from_numpy(one - one.mean()) for one in (samples, noise))
    return torchaudio.functional.add_noise(clip, other, torch.tensor(snr_db)).numpy() + samples.mean()


@pytest.mark.parametrize("snr_db", [20.0, 5.0, 0.0])
def test_white_noise_is_added_as_torchaudio_does(snr_db):
    clip, transform = voice(2.0, level=0.05), WhiteNoise(snr_db=snr_db)
    params = transform.draw(["a"], [clip], partial(rng_for, 7, transform.key)).params[0]
    theirs = by_torchaudio(clip.samples, white(params["noise_seed"], len(clip.samples)), snr_db)
    ours = transform.apply(clip, params)
    assert np.abs(theirs).max() < 1
    assert np.abs(ours.clip.samples - theirs).max() <= 0.6 * STEP
    assert ours.measured["snr_db"] == pytest.approx(snr_db, abs=0.02)


def test_a_recording_is_added_as_torchaudio_does():
    clip, noise = voice(2.0, level=0.05), recordings(5.0)
    transform = Interference(recordings="noises", snr_db=10)
    params = transform.draw(["a"], [clip], partial(rng_for, 7, transform.key), noise).params[0]
    part = window(noise.samples[0], params["start"], len(clip.samples), RATE)
    ours = transform.apply(clip, params, noise).clip.samples
    assert np.abs(ours - by_torchaudio(clip.samples, part, 10.0)).max() <= 0.6 * STEP


def test_where_torchaudio_takes_an_offset_for_signal_the_ratio_is_kept_all_the_same():
    clip = voice(2.0, level=0.05, offset=0.5)
    noise = white(1, len(clip.samples))
    theirs = torchaudio.functional.add_noise(*map(torch.from_numpy, (clip.samples, noise)), torch.tensor(10.0)).numpy()
    assert 20 * np.log10(rms(clip.samples) / rms(theirs, less=clip.samples)) < -5
    assert WhiteNoise(snr_db=10).apply(clip, {"snr_db": 10.0, "level": "clip", "noise_seed": 1}).measured[
        "snr_db"
    ] == pytest.approx(10, abs=0.02)


@pytest.mark.parametrize(("rate", "other"), [(16_000, 8_000), (44_100, 16_000), (8_000, 16_000)])
def test_resampling_agrees_with_torchaudio_and_scipy(rate, other):
    """On sound well below both Nyquist frequencies, where filters do not matter, away from the ends."""
    low = np.convolve(grain(rate, rate).samples, np.hanning(64) / 32, "same").astype(np.float32)
    ours = resampled(low, rate, other)
    theirs = torchaudio.functional.resample(torch.from_numpy(low), rate, other, lowpass_filter_width=64).numpy()
    shared = int(np.gcd(rate, other))
    inner = slice(other // 10, -other // 10)
    for reference in (theirs, resample_poly(low, other // shared, rate // shared, window=("kaiser", 8.0))):
        assert rms(ours[inner], less=reference[: len(ours)].astype(np.float32)[inner]) < 0.02 * rms(ours)


@pytest.mark.parametrize("factor", [0.8, 1.25, 2.0])
def test_speed_agrees_with_torchaudio(factor):
    clip = voice(2.0)
    theirs, _ = torchaudio.functional.speed(torch.from_numpy(clip.samples), RATE, factor)
    ours = Speed(factor=factor).apply(clip, {"factor": factor}).clip.samples
    count = min(len(ours), len(theirs))
    assert abs(len(ours) - len(theirs)) <= 1
    inner = slice(count // 10, count * 9 // 10)
    assert rms(ours[inner], less=theirs.numpy()[inner]) < 0.05 * rms(ours)


def test_reverberation_is_a_convolution():
    clip = voice(1.0)
    ours = Reverberation(rt60_s=0.4).apply(clip, {"rt60_s": 0.4, "noise_seed": 9}).clip.samples
    response = np.concatenate([[1.0], np.zeros(round(0.4 * RATE) - 1)]) + late_echoes(9, 0.4, RATE)
    theirs = fftconvolve(clip.samples, response)[: len(clip.samples)]
    assert np.corrcoef(ours, theirs)[0, 1] > 0.99999


def test_mu_law_is_that_of_libsndfile_for_every_value():
    values = np.arange(-32_768, 32_768).astype(np.int16)
    file = io.BytesIO()
    soundfile.write(file, values, 8_000, format="WAV", subtype="ULAW")
    file.seek(0)
    assert (mu_law(values) == soundfile.read(file, dtype="int16")[0]).all()
