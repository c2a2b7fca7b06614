"""What every transform of speech makes of fixed clips, pinned by name and version: other samples need another version.

The drawn parameters are pinned exactly (they make the ids of cases), the samples within one step of 16 bits. Where an output
was meant to change, raise the component's `version` and write the new samples:

    python tests/golden/test_golden_audio.py
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import pytest
from audio_samples import voice

from aitest_lib.pcm import to_pcm16
from aitest_lib.registry import components
from aitest_lib.rng import rng_for
from aitest_lib.transforms.audio.base import AudioTransform
from aitest_lib.transforms.audio.channel import Clipping, Gain, PacketLoss, TelephoneBand
from aitest_lib.transforms.audio.interference import Interference
from aitest_lib.transforms.audio.noises import NOISES, synthesize
from aitest_lib.transforms.audio.reverberation import Reverberation
from aitest_lib.transforms.audio.tempo import Pitch, Speed
from aitest_lib.transforms.audio.white_noise import WhiteNoise

SAMPLES = Path(__file__).with_name("golden_audio.npz")
RANDOM_SEED = 7
CLIPS = {"voice": voice(0.2, 8_000), "padded": voice(0.15, 11_025, level=0.3, offset=0.02, pause=0.05)}
VARIANTS: dict[str, list[AudioTransform]] = {
    "white_noise@1": [WhiteNoise(), WhiteNoise(snr_db=0, level="active"), WhiteNoise(snr_db=60)],
    "interference@1": [*(Interference(noise=name) for name in NOISES), Interference(noise="rain", theta=0.3)],
    "speed@1": [Speed(), Speed(factor=0.7)],
    "pitch@1": [Pitch(), Pitch(semitones=-5)],
    "reverberation@1": [Reverberation(), Reverberation(rt60_s=2)],
    "telephone_band@1": [TelephoneBand()],
    "clipping@1": [Clipping()],
    "gain@1": [Gain(), Gain(gain_db=20)],
    "packet_loss@1": [PacketLoss(rate=0.3)],
}


def made(transforms: list[AudioTransform]) -> dict[str, np.ndarray]:
    """Samples, and parameters as JSON text, by "name@version/parameters/clip"."""
    found: dict[str, np.ndarray] = {}
    for transform in transforms:
        shown = ",".join(f"{key}={value}" for key, value in transform.slice.items() if key != "transform")
        for name, clip in CLIPS.items():
            source = transform.noise_source
            noise = synthesize(str(source.name), clip.sample_rate) if source else None
            params = transform.draw([name], [clip], partial(rng_for, RANDOM_SEED, transform.key), noise).params[0]
            key = f"{transform.key}/{shown}/{name}"
            found[key] = to_pcm16(transform.apply(clip, params, noise).clip.samples)
            found[f"{key}/params"] = np.array(json.dumps(params, sort_keys=True))
    return found


def complaints(found: dict[str, np.ndarray], pinned: dict[str, Any]) -> list[str]:
    """What differs from what is pinned, one line each."""
    lines = [f"{key}: not pinned" for key in sorted(set(found) - set(pinned))]
    for key in sorted(set(found) & set(pinned)):
        if key.endswith("/params"):
            if found[key].item() != pinned[key].item():
                lines.append(f"{key}: {found[key].item()} instead of {pinned[key].item()}")
        elif found[key].shape != pinned[key].shape:
            lines.append(f"{key}: {found[key].shape} instead of {pinned[key].shape}")
        else:
            off = int(np.abs(found[key].astype(int) - pinned[key].astype(int)).max())
            if off > 1:
                lines.append(f"{key}: {off} steps away")
    return lines


@pytest.fixture(scope="module")
def pinned() -> dict[str, np.ndarray]:
    with np.load(SAMPLES) as file:
        return dict(file)


@pytest.mark.parametrize("key", VARIANTS)
def test_the_samples_are_the_pinned_ones(key, pinned):
    assert {transform.key for transform in VARIANTS[key]} == {key}
    assert complaints(made(VARIANTS[key]), pinned) == [], __doc__


def test_every_transform_of_speech_is_pinned():
    known = {f"{cls.name}@{cls.version}" for cls in components().values() if issubclass(cls, AudioTransform)}
    assert known == set(VARIANTS)


def test_nothing_is_pinned_that_is_no_more(pinned):
    assert {key.split("/")[0] for key in pinned} == set(VARIANTS)


def test_a_changed_output_is_noticed(pinned, monkeypatch):
    """The guard itself: two steps in one sample, or another parameter, are told."""
    apply, draw_one = Gain.changed, Gain.draw_one

    def other(self, clip, params):
        changed = apply(self, clip, params)
        changed.clip.samples[50] += 2 / 32_768
        return changed

    monkeypatch.setattr(Gain, "changed", other)
    assert len(complaints(made([Gain()]), pinned)) == len(CLIPS)
    monkeypatch.setattr(Gain, "changed", apply)
    monkeypatch.setattr(Gain, "draw_one", lambda self, *given: {**draw_one(self, *given), "more": 1})
    assert all("instead of" in line for line in complaints(made([Gain()]), pinned))


if __name__ == "__main__":
    np.savez_compressed(SAMPLES, **{key: array for some in VARIANTS.values() for key, array in made(some).items()})
