"""What holds of every transform of speech, whatever the clip."""

from __future__ import annotations

import json
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from audio_samples import grain, recordings, voice
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aitest_lib.parameters import parameter_model
from aitest_lib.pcm import of_pcm16, to_pcm16
from aitest_lib.rng import rng_for
from aitest_lib.transforms.audio.base import AudioTransform
from aitest_lib.transforms.audio.channel import Clipping, Gain, PacketLoss, TelephoneBand
from aitest_lib.transforms.audio.interference import Interference
from aitest_lib.transforms.audio.levels import active_rms, rms
from aitest_lib.transforms.audio.reverberation import Reverberation
from aitest_lib.transforms.audio.tempo import Pitch, Speed
from aitest_lib.transforms.audio.white_noise import WhiteNoise
from aitest_lib.types import Clip

TRANSFORMS = [WhiteNoise, Interference, Speed, Pitch, Reverberation, TelephoneBand, Clipping, Gain, PacketLoss]
STRENGTHS = [cls for cls in TRANSFORMS if cls.strength is not None]
RATES = [8_000, 11_025, 16_000, 22_050, 44_100, 48_000]
NOISY = {"white_noise", "interference"}

every_transform = pytest.mark.parametrize("cls", TRANSFORMS, ids=lambda cls: cls.name)
every_strength = pytest.mark.parametrize("cls", STRENGTHS, ids=lambda cls: cls.name)
quickly = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def with_strength(cls: type[AudioTransform], value: float) -> AudioTransform:
    return cls(**{str(cls.strength): value})


def variants(cls: type[AudioTransform]) -> list[AudioTransform]:
    """As it is by default, and as strong as a search goes."""
    made = [cls()] if cls.strongest is None else [cls(), with_strength(cls, cls.strongest)]
    return [*made, cls(theta=0.3), cls(level="active")] if cls is Interference else made


def noise_for(transform: AudioTransform, rate: int) -> Any:
    return recordings(0.4, 2.0, rate=rate) if transform.noise_source else None


def drawn(transform: AudioTransform, clip: Clip, seed_ids: list[str]) -> list[dict[str, Any]]:
    noise = noise_for(transform, clip.sample_rate)
    return transform.draw(seed_ids, [clip] * len(seed_ids), partial(rng_for, 7, transform.key), noise).params


def made(transform: AudioTransform, clip: Clip, params: dict[str, Any]) -> Any:
    return transform.apply(clip, params, noise_for(transform, clip.sample_rate))


clips = st.builds(
    grain,
    st.integers(2, 4_000),
    st.sampled_from(RATES),
    seed=st.integers(0, 50),
    level=st.sampled_from([0.0005, 0.01, 0.1, 0.5]),
).filter(lambda clip: np.ptp(clip.samples) > 0)


@every_transform
@given(clip=clips, data=st.data())
@quickly
def test_a_case_is_16_bit_audio_that_its_parameters_make_again(cls, clip, data):
    transform = data.draw(st.sampled_from(variants(cls)), "transform")
    before = clip.samples.copy()
    params = drawn(transform, clip, ["a"])[0]
    kept = json.loads(json.dumps(params, allow_nan=False))
    changed = made(transform, clip, params)
    assert (clip.samples == before).all()
    assert params == kept
    assert changed.clip.sample_rate == clip.sample_rate
    assert changed.clip.samples.dtype == np.float32
    assert (of_pcm16(to_pcm16(changed.clip.samples), 1).samples == changed.clip.samples).all()
    if cls is not Speed:
        assert len(changed.clip.samples) == len(clip.samples)
    assert json.loads(json.dumps(changed.measured, allow_nan=False)) == changed.measured
    assert changed.measured["clipped"] <= 1
    again = made(transform, clip, kept)
    assert (again.clip.samples == changed.clip.samples).all()
    assert again.measured == changed.measured


@every_transform
def test_a_case_depends_on_its_seed_alone(cls):
    seeds = [f"seed {number}" for number in range(6)]
    clip = voice()
    for transform in variants(cls):
        whole = drawn(transform, clip, seeds)
        assert [one for seed in seeds for one in drawn(transform, clip, [seed])] == whole
        assert drawn(transform, clip, seeds[::-1]) == whole[::-1]


@every_strength
def test_the_strength_plays_no_part_in_what_is_random(cls):
    first, last = cls.identity, cls.strongest
    weak, strong = (
        drawn(with_strength(cls, first + share * (last - first)), voice(), ["a", "b", "c"]) for share in (0.25, 0.75)
    )
    rest = [[{key: value for key, value in one.items() if key != cls.strength} for one in some] for some in (weak, strong)]
    assert rest[0] == rest[1]
    assert all(one[cls.strength] != other[cls.strength] for one, other in zip(weak, strong, strict=True))


@every_strength
@given(clip=clips)
@quickly
def test_at_its_identity_nothing_changes(cls, clip):
    transform = with_strength(cls, cls.identity)
    changed = made(transform, clip, drawn(transform, clip, ["a"])[0])
    if cls.name in NOISY:  # noise at 60 dB: as good as nothing
        gain = 10 ** (changed.measured.get("gain_db", 0) / 20)
        assert rms(changed.clip.samples, less=clip.samples * np.float32(gain)) <= 1.1 * max(
            1e-3 * gain * rms(clip.samples), 3 / 32_768
        )
    else:
        assert (changed.clip.samples == clip.samples).all()


@pytest.mark.parametrize("cls", [cls for cls in STRENGTHS if cls is not Pitch], ids=lambda cls: cls.name)
def test_the_change_grows_with_the_strength(cls):
    """With the same draw: along the ladder of a breaking point, the clip is ever farther from what it was.

    (Not so of an octave, whose harmonics are where they were: how high a voice gets is a test of its own.)
    """
    clip = voice(2.0)
    distances = []
    for value in np.linspace(cls.identity, cls.strongest, 7).tolist():
        transform = with_strength(cls, value)
        changed = made(transform, clip, drawn(transform, clip, ["a"])[0])
        told = changed.measured.get("gain_db", 0) if cls.name in NOISY else 0
        distances.append(spectral_distance(changed.clip.samples / 10 ** (told / 20), clip.samples))
    assert distances[-1] > 0.2
    assert all(after >= before - 0.05 * max(distances) for before, after in pairwise(distances)), distances


def spectral_distance(samples: np.ndarray, others: np.ndarray) -> float:
    """Between spectrograms, their levels taken out, over the time that both last; plus how much their lengths differ."""
    length = min(len(samples), len(others))
    one, other = (
        np.abs(np.fft.rfft((each[: length // 512 * 512] / rms(each)).reshape(-1, 512) * np.hanning(512)))
        for each in (samples, others)
    )
    level = abs(20 * np.log10(rms(samples) / rms(others)))
    longer = abs(len(samples) - len(others)) / len(others)
    return float(np.sqrt(np.square(one - other).mean() / np.square(other).mean())) + level / 10 + longer


@pytest.mark.parametrize("cls", [WhiteNoise, Interference], ids=lambda cls: cls.name)
@given(
    seconds=st.sampled_from([0.002, 0.05, 0.3, 2.5]),
    rate=st.sampled_from(RATES),
    level=st.sampled_from([0.0003, 0.01, 0.1, 0.4]),
    offset=st.sampled_from([0.0, 0.02, 0.5]),
    pause=st.sampled_from([0.0, 0.5]),
    snr_db=st.sampled_from([-10.0, 0.0, 5.0, 20.0, 40.0]),
    by=st.sampled_from(["clip", "active"]),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_ratio_that_was_asked_for_is_the_ratio_that_is_sent(cls, seconds, rate, level, offset, pause, snr_db, by):
    """Measured here by other means: least squares find the clip in what is sent, all else is noise."""
    clip = voice(seconds, rate, level, offset, pause)
    if np.ptp(clip.samples) < 8 / 32_768:
        return
    transform = cls(snr_db=snr_db, level=by)
    changed = made(transform, clip, drawn(transform, clip, ["a"])[0])
    gain = 10 ** (changed.measured.get("gain_db", 0) / 20)
    added = (changed.clip.samples.astype(np.float64) - gain * clip.samples.astype(np.float64)).std()
    loud = rms(clip.samples) if by == "clip" else active_rms(clip.samples, rate)
    found = 20 * np.log10(gain * loud / added)
    # Noise below a step of 16 bits can't be sent beside a clip that leaves no room to amplify both.
    if gain * loud / 10 ** (snr_db / 20) < 1.5 / 32_768:
        return
    assert found == pytest.approx(snr_db, abs=0.1 if by == "clip" else 0.5)
    assert changed.measured["snr_db"] == pytest.approx(found, abs=0.01)
    assert changed.measured["clipped"] == 0


@every_transform
def test_a_silent_clip_has_no_case(cls):
    for samples in (np.zeros(100, np.float32), np.full(100, 0.5, np.float32), np.zeros(1, np.float32)):
        draw = cls().draw(["a"], [Clip(samples, 16_000)], partial(rng_for, 7, cls().key), noise_for(cls(), 16_000))
        assert draw.not_applicable == ["the clip is silent"]


@every_transform
def test_no_clips_make_no_cases(cls):
    draw = cls().draw([], [], partial(rng_for, 7, cls().key), noise_for(cls(), 16_000))
    assert (draw.params, draw.not_applicable) == ([], [])


@every_strength
def test_the_ends_of_a_search_are_allowed_and_a_default_lies_between(cls):
    model = parameter_model(cls)
    for value in (cls.identity, cls.strongest):
        assert getattr(model(**{str(cls.strength): float(value)}), str(cls.strength)) == value
