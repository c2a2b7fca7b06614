"""Synthesized noises: the same on every machine, full length, with the spectrum and the peaks of what they are named after."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import welch

from aitest_lib.errors import InputError
from aitest_lib.pcm import of_pcm16, to_pcm16
from aitest_lib.transforms.audio.interference import Interference
from aitest_lib.transforms.audio.noises import NOISES, synthesize

RATE = 16_000
every_noise = pytest.mark.parametrize("name", NOISES)


def samples(name: str, rate: int = RATE) -> np.ndarray:
    return synthesize(name, rate).samples[0]


def spectrum(name: str) -> tuple[np.ndarray, np.ndarray]:
    return welch(samples(name), RATE, nperseg=8_192)


def middle_hertz(name: str) -> float:
    """The frequency below which half of the power is."""
    hertz, power = spectrum(name)
    return float(hertz[np.searchsorted(np.cumsum(power), power.sum() / 2)])


def crest_db(name: str) -> float:
    return float(20 * np.log10(np.abs(samples(name)).max() / samples(name).std()))


def range_db(name: str) -> float:
    """Between the loudest and the quietest twentieth of frames of 25 ms."""
    frames = samples(name).reshape(-1, 400).std(axis=1)
    return float(20 * np.log10(np.percentile(frames, 95) / np.percentile(frames, 5)))


@every_noise
@pytest.mark.parametrize("rate", [8_000, 11_025, 16_000, 48_000])
def test_a_noise_is_half_a_minute_at_any_rate(name, rate):
    made = synthesize(name, rate)
    assert (made.names, made.sample_rate) == ((name,), rate)
    values = made.samples[0]
    assert (values.dtype, values.shape) == (np.float32, (30 * rate,))
    assert (of_pcm16(to_pcm16(values), rate).samples == values).all()
    assert abs(values.mean()) < 1e-3
    assert 0.02 < values.std() < 0.101
    assert np.abs(values).max() <= 0.991


@every_noise
def test_a_noise_is_the_same_whenever_it_is_made(name):
    again = synthesize.__wrapped__(name, 8_000).samples[0]
    assert (again == samples(name, 8_000)).all()


@every_noise
def test_a_noise_does_not_come_back_within_its_length(name):
    """Not looped: the first five seconds are found nowhere else (the drum of the festival aside)."""
    values = samples(name)
    head = values[: 5 * RATE] - values[: 5 * RATE].mean()
    size = 1 << 20
    found = np.fft.irfft(np.fft.rfft(values, size) * np.conj(np.fft.rfft(head, size)), size)[RATE // 4 : 25 * RATE]
    assert np.abs(found).max() < 0.75 * np.square(head).sum()


@pytest.mark.parametrize(("name", "slope"), [("white", 0.0), ("pink", -3.01), ("brown", -6.02)])
def test_colours_fall_by_so_many_decibels_an_octave(name, slope):
    hertz, power = spectrum(name)
    there = (hertz > 100) & (hertz < 6_000)
    assert np.polyfit(np.log2(hertz[there]), 10 * np.log10(power[there]), 1)[0] == pytest.approx(slope, abs=0.1)


def test_rain_hisses_and_drops():
    assert 2_500 < middle_hertz("rain") < 4_500
    assert crest_db("rain") == pytest.approx(25, abs=3)


def test_wind_is_low_and_comes_in_gusts():
    hertz, power = spectrum("wind")
    assert power[hertz < 500].sum() > 0.95 * power.sum()
    assert 10 < range_db("wind") < 30


def test_drips_are_rare_and_loud():
    assert range_db("water_drip") > 30
    assert 600 < middle_hertz("water_drip") < 2_600
    assert crest_db("water_drip") > 20


def test_people_talk_where_speech_is_and_in_syllables():
    for name in ("babble", "restaurant", "festival"):
        assert 300 < middle_hertz(name) < 900, name
        hertz, power = spectrum(name)
        assert power[(hertz > 1_000) & (hertz < 4_000)].sum() > 0.03 * power.sum(), name
    envelope = np.square(samples("babble")).reshape(-1, 160).mean(axis=1)  # 100 values a second
    hertz, power = welch(envelope - envelope.mean(), 100, nperseg=1_024)
    assert power[(hertz > 2) & (hertz < 8)].sum() > 0.3 * power[hertz > 0.5].sum()


def test_a_festival_has_a_drum_twice_a_second():
    values = np.fft.rfft(samples("festival"))
    hertz = np.fft.rfftfreq(30 * RATE, 1 / RATE)
    low = np.fft.irfft(np.where((hertz > 40) & (hertz < 90), values, 0))
    beats = np.abs(np.fft.rfft(np.square(low).reshape(-1, 800).sum(axis=1)))[1:]  # 20 values a second for 30 s
    assert (beats.argmax() + 1) / 30 == pytest.approx(2.0)


def test_an_unknown_noise_and_a_rate_out_of_range_are_told():
    with pytest.raises(InputError, match=r"unknown noise 'rains'; did you mean rain\?"):
        synthesize("rains", RATE)
    for rate in (7_999, 48_001):
        with pytest.raises(InputError, match=rf"got clips at {rate:,} Hz, expected 8,000 to 48,000"):
            synthesize("rain", rate)


def test_every_noise_is_described_and_can_interfere():
    for name, noise in NOISES.items():
        assert len(noise.description.split()) >= 3
        assert Interference(noise=name).noise_source.name == name
