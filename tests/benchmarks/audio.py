"""Seconds of audio that transforms make per CPU second, beside what people would use instead: one thread, 16-bit clips out."""

from __future__ import annotations

import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from aitest_lib.data.recordings import Recordings
from aitest_lib.pcm import of_pcm16, to_pcm16
from aitest_lib.rng import rng_for
from aitest_lib.transforms.audio.base import AudioTransform
from aitest_lib.transforms.audio.channel import Clipping, Gain, PacketLoss, TelephoneBand
from aitest_lib.transforms.audio.effect import resampled
from aitest_lib.transforms.audio.interference import Interference
from aitest_lib.transforms.audio.noises import NOISES, SECONDS, synthesize
from aitest_lib.transforms.audio.reverberation import Reverberation
from aitest_lib.transforms.audio.tempo import Pitch, Speed
from aitest_lib.transforms.audio.white_noise import WhiteNoise
from aitest_lib.types import Clip

RATE, CLIPS, CLIP_S = 16_000, 64, 3.0
ROUNDS, LEAST_S = 3, 0.2  # the best of so many measurements, taken in turn; CPU seconds of each
SNR_DB = 10.0
PACKAGES = "audiomentations==0.43.1 torch-audiomentations==0.12.0"
INSTALL = f"pip install --target FOLDER {PACKAGES}, then AITEST_PEERS=FOLDER"

Function = Callable[[Clip], Any]


def audio() -> None:
    """One table: seconds of audio per CPU second, and how many times those of each peer."""
    warnings.simplefilter("ignore")
    with _one_thread(), tempfile.TemporaryDirectory() as folder:
        clips = [_clip(number) for number in range(CLIPS)]
        noise = synthesize("restaurant", RATE)
        noises = Path(folder, "noises")
        noises.mkdir()
        _write(noises / "restaurant.wav", noise.samples[0])
        peers = {
            "audiomentations": _made(_audiomentations, noises),
            "torch-audiomentations": _made(_torch_audiomentations, noises),
            "torchaudio": _torchaudio(noise),
        }
        print(f"{f'{CLIPS} clips of {CLIP_S:g} s':<22}{'aitest':>10}" + "".join(f"{name:>24}{'x':>6}" for name in peers))
        for transform in OWN:
            own: Callable[[], Any] = partial(_draw_and_apply, transform, clips, noise if transform.noise_source else None)
            _row(transform.name, own, {name: made.get(transform.name) for name, made in peers.items()}, clips)
        resample = partial(_resample, clips, round(CLIP_S * RATE / 2))
        _row("resample to 8 kHz", resample, {name: made.get("resample") for name, made in peers.items()}, clips)
    print(f"\n{'synthesized':<22}" + "".join(f"{rate:>10,}" for rate in (8_000, 16_000, 48_000)) + "   Hz")
    for name in NOISES:
        spent = [_seconds(partial(synthesize.__wrapped__, name, rate)) for rate in (8_000, 16_000, 48_000)]
        print(f"{name:<22}" + "".join(f"{SECONDS / one:>10,.0f}" for one in spent))
    print()


OWN: tuple[AudioTransform, ...] = (
    WhiteNoise(snr_db=SNR_DB),
    Interference(noise="restaurant", snr_db=SNR_DB),
    Speed(factor=1.25),
    Pitch(semitones=4),
    Reverberation(),
    TelephoneBand(),
    Clipping(),
    Gain(),
    PacketLoss(),
)


def _audiomentations(noises: Path) -> dict[str, Function]:
    """Always applied, every range a single value."""
    import audiomentations as a

    made = {
        "white_noise": a.AddGaussianSNR(SNR_DB, SNR_DB, p=1),
        "interference": a.AddBackgroundNoise(str(noises), SNR_DB, SNR_DB, p=1),
        "speed": a.TimeStretch(1.25, 1.25, leave_length_unchanged=False, p=1),
        "pitch": a.PitchShift(4, 4, p=1),
        "telephone_band": a.BandPassFilter(1_850, 1_850, 1.68, 1.68, p=1),
        "clipping": a.ClippingDistortion(20, 20, p=1),
        "gain": a.Gain(-20, -20, p=1),
        "resample": a.Resample(8_000, 8_000, p=1),
    }
    return {name: partial(lambda one, clip: one(clip.samples, RATE), one) for name, one in made.items()}


def _torch_audiomentations(noises: Path) -> dict[str, Function]:
    """Its ranges may not be a single value. (Its shifts of pitch are of a few ratios only.)"""
    import torch
    import torch_audiomentations as t

    def applied(one: Any, clip: Clip) -> Any:
        with torch.inference_mode():
            return one(torch.from_numpy(clip.samples)[None, None])

    usual = {"p": 1.0, "sample_rate": RATE, "output_type": "tensor"}
    made = {
        "white_noise": t.AddColoredNoise(SNR_DB - 0.001, SNR_DB, -0.001, 0.0, **usual),
        "interference": t.AddBackgroundNoise(str(noises), SNR_DB - 0.001, SNR_DB, **usual),
        "gain": t.Gain(-20.001, -20.0, **usual),
    }
    return {name: partial(applied, one) for name, one in made.items()}


def _torchaudio(noise: Recordings) -> dict[str, Function]:
    """Its functions, clip by clip, with the noise in memory. (A shift of pitch takes it two CPU seconds a clip: the kernel of
    its resampler grows with the least common multiple of the two rates.)"""
    import torch
    import torchaudio.functional as f

    recording, snr = torch.from_numpy(noise.samples[0].copy()), torch.tensor(SNR_DB)
    generator = np.random.default_rng(0)

    def window(count: int) -> Any:
        start = int(generator.integers(len(recording) - count))
        return recording[start : start + count]

    ops: dict[str, Callable[[Any], Any]] = {
        "white_noise": lambda x: f.add_noise(x, torch.randn_like(x), snr),
        "interference": lambda x: f.add_noise(x, window(len(x)), snr),
        "speed": lambda x: f.speed(x, RATE, 1.25),
        "reverberation": lambda x: f.fftconvolve(x, torch.randn(round(0.6 * RATE))),
        "resample": lambda x: f.resample(x, RATE, 8_000),
    }

    def applied(op: Callable[[Any], Any], clip: Clip) -> Any:
        with torch.inference_mode():
            return op(torch.from_numpy(clip.samples))

    return {name: partial(applied, op) for name, op in ops.items()}


def _made(peer: Callable[[Path], dict[str, Function]], noises: Path) -> dict[str, Function]:
    """Packages of the folder in AITEST_PEERS come after the project's own, so that both sides share numpy and torch."""
    folder = os.environ.get("AITEST_PEERS")
    if folder and folder not in sys.path:
        sys.path.append(folder)
    name = peer.__name__.removeprefix("_")
    try:
        import_module(name)
        return peer(noises)
    except Exception as error:
        print(f"{name} is left out ({type(error).__name__}: {error!s:.80}): {INSTALL}")
        return {}


def _row(name: str, own: Callable[[], Any], peers: dict[str, Function | None], clips: Sequence[Clip]) -> None:
    calls: dict[str, Callable[[], Any]] = {"aitest": own}
    calls |= {peer: partial(_all, function, clips) for peer, function in peers.items() if function is not None}
    spent: dict[str, float | str] = {}
    for _ in range(ROUNDS):
        for who, call in calls.items():
            if isinstance(so_far := spent.get(who, float("inf")), float):
                spent[who] = _tried(call, so_far)
    seconds = CLIPS * CLIP_S
    line = f"{name:<22}{seconds / float(spent['aitest']):>10,.0f}"
    for peer in peers:
        theirs = spent.get(peer, "-")
        if isinstance(theirs, float):
            line += f"{seconds / theirs:>24,.0f}{theirs / float(spent['aitest']):>6.1f}"
        else:
            line += f"{theirs:>24}{'':>6}"
    print(line, flush=True)


def _tried(call: Callable[[], Any], so_far: float) -> float | str:
    try:
        return min(so_far, _seconds(call))
    except Exception as error:
        return f"fails: {type(error).__name__}"


def _seconds(call: Callable[[], Any]) -> float:
    """CPU seconds of one call, without what is made once."""
    call()
    calls, started = 0, time.process_time()
    while (spent := time.process_time() - started) < LEAST_S:
        call()
        calls += 1
    return spent / calls


def _all(function: Function, clips: Sequence[Clip]) -> list[Any]:
    return [function(clip) for clip in clips]


def _draw_and_apply(transform: AudioTransform, clips: Sequence[Clip], noise: Recordings | None) -> list[Any]:
    drawn = transform.draw([str(number) for number in range(len(clips))], clips, partial(rng_for, 0, transform.key), noise)
    return [transform.apply(clip, params, noise) for clip, params in zip(clips, drawn.params, strict=True)]


def _resample(clips: Sequence[Clip], few: int) -> list[Any]:
    return [resampled(clip.samples, RATE, few) for clip in clips]


def _clip(number: int) -> Clip:
    """Sound with the level and the pauses of speech."""
    generator = np.random.default_rng(number)
    count = round(CLIP_S * RATE)
    envelope = np.abs(np.sin(np.arange(count) * (2 * np.pi * 2 / RATE))) ** 2
    return of_pcm16(to_pcm16(0.1 * envelope * generator.standard_normal(count)), RATE)


def _write(path: Path, samples: Any) -> None:
    import soundfile

    soundfile.write(path, to_pcm16(samples), RATE)


def _one_thread() -> Any:
    import torch
    from threadpoolctl import threadpool_limits

    torch.set_num_threads(1)
    return threadpool_limits(1)
