"""Audio to clips: the bytes of a file or an array in, mono PCM16 at the card's sample rate out, by libsndfile and torchaudio.

What cannot be used is an `UnreadableAudio` with one plain sentence; whatever is changed on the way, or is odd, has a name.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aitest_lib.config.inputs import Speech
from aitest_lib.data.audio_format import CONVERT, READ, UnreadableAudio, check_whole
from aitest_lib.errors import InputError
from aitest_lib.pcm import of_pcm16, to_pcm16
from aitest_lib.types import Clip

Samples = NDArray[np.float32]
Decoded = tuple[Samples, int, tuple[str, ...]]  # mono, its rate in Hz, and what was converted for that, or is odd

SECONDS = 600  # of one clip
RATES = range(1000, 384_001)  # in Hz
FORMATS = ("WAV", "WAVEX", "RF64", "FLAC", "OGG", "MP3")
BLOCK = 1 << 16  # frames that are decoded at once
OFFSET = 0.01  # mean of the samples from which on a DC offset is mentioned
KEPT = 0.05  # RMS of the mix, as a part of the channels', below which they cancel one another
KERNEL = 1 << 24  # numbers in the largest kernel for resampling


def decode_audio(content: bytes, first_s: float | None = None) -> Decoded:
    """The samples of one audio file, float32 (n,), the mean of its channels; full scale is 1, and floats may go beyond.

    The content decides what it is, not a name. With `first_s`, no more than so many seconds are decoded. `UnreadableAudio`
    for what is no audio, damaged, cut off (where that can be seen), empty, or longer than ten minutes; for NaN, infinities,
    and channels that cancel one another.
    """
    try:
        import soundfile
    except (ImportError, OSError) as error:  # OSError: the package without the C library
        raise InputError("audio files need soundfile, which is not installed; run pip install 'aitest[speech]'") from error
    doubts = check_whole(content)
    try:
        with soundfile.SoundFile(io.BytesIO(content)) as file:
            if file.format not in FORMATS:
                raise UnreadableAudio(f"its content is {file.format}, expected {READ}; {CONVERT}")
            if file.samplerate not in RATES:
                raise UnreadableAudio(f"its header says {file.samplerate:,} Hz, expected {RATES[0]:,} to {RATES[-1]:,}")
            limit = int((SECONDS if first_s is None else first_s) * file.samplerate)
            samples, notes = _mono(_blocks(file, limit, whole=first_s is None))
            return samples, file.samplerate, (*doubts, *notes)
    except UnreadableAudio:
        raise
    except soundfile.LibsndfileError as error:
        reason = str(error.error_string).removeprefix("Error : ").rstrip(".")
        if "not recognised" in reason:
            raise UnreadableAudio(f"its content is no audio that is read ({READ}), or is damaged from the start") from error
        raise UnreadableAudio(f"it is damaged or cut off: {reason:.120}") from error
    except (RuntimeError, ValueError, MemoryError) as error:
        raise UnreadableAudio(f"it is damaged: {str(error) or type(error).__name__:.120}") from error


def of_array(samples: Any, rate: Any) -> Decoded:
    """An array given in Python, (n,) or (n, channels), as `decode_audio` gives a file. Integers are scaled by their type.

    `UnreadableAudio` for another shape or type, and as for files.
    """
    array = np.asarray(samples)
    if array.dtype.kind not in "iuf" or array.ndim not in (1, 2):
        got = f"{array.dtype} of shape {array.shape}"
        raise UnreadableAudio(f"it is {got}, expected floats from -1 to 1 or integers, (samples,) or (samples, channels)")
    if isinstance(rate, bool) or int(rate) != rate or int(rate) not in RATES:
        raise UnreadableAudio(f"its sample rate is {rate!r:.20}, expected a whole number from {RATES[0]:,} to {RATES[-1]:,}")
    if array.ndim == 2 and array.shape[1] > array.shape[0]:
        raise UnreadableAudio(f"its shape is {array.shape}, expected (samples, channels); transpose it")
    if len(array) > SECONDS * int(rate):
        raise UnreadableAudio(_too_long())
    frames = array if array.ndim == 2 else array[:, None]
    blocks = (_scaled(frames[start : start + BLOCK]) for start in range(0, len(frames), BLOCK))
    mono, notes = _mono(blocks)
    return mono, int(rate), notes


def fitted(samples: Samples, rate: int, notes: tuple[str, ...], speech: Speech | None) -> tuple[Clip, tuple[str, ...]]:
    """Decoded audio as a clip: at the card's `inputs.speech.sample_rate` (without a card, at its own rate), and PCM16.

    What is louder than full scale is scaled down as a whole, as PCM16 would clip it. Silence and a DC offset are kept.
    """
    if speech is not None and speech.sample_rate != rate:
        samples = resampled(samples, rate, speech.sample_rate)
        notes, rate = (*notes, f"resampled from {rate} Hz"), speech.sample_rate
    peak = float(np.abs(samples).max())
    if peak > 1:
        samples, notes = samples / np.float32(peak), (*notes, "scaled down to full scale")
    values = to_pcm16(samples)
    if not values.any():
        notes = (*notes, "silent, kept")
    if abs(float(samples.mean(dtype=np.float64))) > OFFSET:
        notes = (*notes, "DC offset, kept")
    return of_pcm16(values, rate), notes


def resampled(samples: Samples, rate: int, target: int) -> Samples:
    """Samples float32 (n,) at another rate: float32 (ceil(n * target / rate),), by `torchaudio.functional.resample`.

    The filter is a windowed sinc of 64 zero crossings (Kaiser, beta 14.77, roll-off 0.948: librosa's `kaiser_best`): aliases
    are below -100 dB from 5 % above the Nyquist frequency on, where torchaudio's default lets through -10 dB. `UnreadableAudio`
    where the two rates have so small a common divisor that the filter would not fit in memory.
    """
    if rate == target:
        return samples
    try:
        import torch
        from torchaudio.functional import resample
    except (ImportError, OSError) as error:
        why = f"clips of {rate} Hz need torchaudio to become {target} Hz, which is not installed"
        raise InputError(f"{why}; run pip install 'aitest[speech]'") from error
    old, new = rate // gcd(rate, target), target // gcd(rate, target)
    if new * (old + 2 * 64 * max(1, old / new)) > KERNEL:
        raise UnreadableAudio(f"its {rate} Hz have no simple ratio to {target} Hz; {CONVERT} -ar {target}")
    settings: dict[str, Any] = {"resampling_method": "sinc_interp_kaiser", "beta": 14.769656459379492}
    settings |= {"lowpass_filter_width": 64, "rolloff": 0.9475937167399596}
    found: Samples = resample(torch.from_numpy(np.ascontiguousarray(samples)), rate, target, **settings).numpy()
    return found


def _blocks(file: Any, limit: int, whole: bool) -> Iterator[NDArray[np.float32]]:
    """The frames of a file until there are no more: what its header says of their number may be a guess."""
    left = limit
    while left and len(block := file.read(min(BLOCK, left), dtype="float32", always_2d=True)):
        left -= len(block)
        yield block
    if whole and len(file.read(1)):
        raise UnreadableAudio(_too_long())


def _too_long() -> str:
    return f"it is longer than {SECONDS // 60} minutes, which is the most that is read; cut it into utterances"


def _mono(blocks: Iterable[NDArray[np.float32]]) -> tuple[Samples, tuple[str, ...]]:
    """The mean over channels of blocks float32 (n, channels), and what there is to say of it."""
    mixed: list[Samples] = []
    energy, channels = 0.0, 1
    for block in blocks:
        if not np.isfinite(block).all():
            raise UnreadableAudio("it holds NaN or infinite values; write it again")
        channels = block.shape[1]
        energy += float(np.square(block, dtype=np.float64).sum()) / channels
        mixed.append(block.mean(axis=1) if channels > 1 else block[:, 0].copy())
    if not mixed:
        raise UnreadableAudio("it has no samples")
    mono = np.concatenate(mixed)
    if channels == 1:
        return mono, ()
    if float(np.square(mono, dtype=np.float64).sum()) < KEPT**2 * energy:
        raise UnreadableAudio(f"its {channels} channels cancel one another when they are mixed to mono; save one of them")
    return mono, ("mixed down to mono",)


def _scaled(block: NDArray[Any]) -> NDArray[np.float32]:
    """Integers from -1 to 1 by the range of their type (unsigned ones around their middle); floats as they are."""
    if block.dtype.kind == "f":
        return block.astype(np.float32)
    half = 2.0 ** (8 * block.dtype.itemsize - 1)
    middle = half if block.dtype.kind == "u" else 0.0
    return ((block.astype(np.float64) - middle) / half).astype(np.float32)
