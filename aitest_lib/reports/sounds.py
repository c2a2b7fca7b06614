"""Clips as a page plays them: MP3 and a spectrogram as data URIs, some 25 kB together for four seconds."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from fractions import Fraction
from io import BytesIO
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from aitest_lib.errors import InputError
from aitest_lib.reports.records import Sound, Word
from aitest_lib.types import Clip

LONGEST_S = 15.0  # of a clip on a page
RATES = (8_000, 11_025, 12_000, 16_000, 22_050, 24_000)  # samples per second that MP3 knows; more are not worth their bytes
KBIT_PER_S = 24
NEAR = 500  # largest denominator of a ratio of sample rates
WIDTH, HEIGHT = 240, 64  # px of a spectrogram
FRAME_S = 0.025
RANGE_DB = 70.0  # from the loudest place of a spectrogram to what is as dark as silence
_ANCHORS = ((10, 12, 30), (52, 24, 96), (128, 30, 108), (204, 64, 72), (246, 146, 58), (252, 238, 172))  # quiet to loud
_LEVELS = 16  # colours of a spectrogram: four bits a pixel


def sound(
    clip: Clip,
    title: Literal["seed", "case"],
    alt: str,
    words: Sequence[Word] | None = None,
    wer: float | None = None,
    note: str = "",
) -> Sound:
    """A clip ready to be played and seen: MP3 of 24 kbit/s, and its spectrogram.

    `title`: of the untouched clip `seed`; `alt`: what it is, for those who see no picture; `words`, `wer`: what was said
    beside what was heard in it; `note`: what else is to be known. The notes of the result begin with the frequencies that the
    spectrogram shows, and say where only the first 15 s are heard, or at another sample rate. Raises `InputError` for a clip
    without samples.
    """
    if not len(clip.samples):
        raise InputError("got a clip without samples, expected at least one: leave it out of the sounds of its case")
    seconds = len(clip.samples) / clip.sample_rate
    start = Clip(clip.samples[: round(LONGEST_S * clip.sample_rate)], clip.sample_rate)
    band = f"0 to {clip.sample_rate / 2_000:.4g} kHz"
    notes = [band]
    if len(start.samples) < len(clip.samples):
        notes.append(f"the first {LONGEST_S:g} s of {seconds:.1f} s")
    rate = page_rate(clip.sample_rate)
    if rate != clip.sample_rate:
        notes.append(f"played at {rate:,} of {clip.sample_rate:,} samples a second")
    return Sound(
        title=title,
        src=f"data:audio/mpeg;base64,{b64encode(_mp3(start, rate)).decode()}",
        spectrogram=f"data:image/png;base64,{b64encode(_png(spectrogram(start))).decode()}",
        seconds=seconds,
        alt=f"{alt}; spectrogram from {band} over {len(start.samples) / clip.sample_rate:.1f} s",
        words=list(words or []),
        wer=wer,
        note=", ".join(filter(None, [*notes, note])),
    )


def page_rate(sample_rate: int) -> int:
    """The sample rate at which a page plays a clip: its own where MP3 knows it, the next higher one, or 24,000.

    >>> page_rate(16_000), page_rate(11_111), page_rate(384_000), page_rate(100)
    (16000, 12000, 24000, 8000)
    """
    return next((rate for rate in RATES if rate >= sample_rate), RATES[-1])


def spectrogram(clip: Clip) -> NDArray[np.uint8]:
    """The levels of a clip, uint8 (64, 240) in 0 to 15: rows from half the sample rate down to 0 Hz, columns over its length.

    Short-time Fourier transform with Hann windows of 25 ms, half overlapping; the power of what falls into one pixel is
    averaged. 15 is the loudest pixel, 0 what is 70 dB or more below it.
    """
    size = max(2, round(FRAME_S * clip.sample_rate))
    padded = np.pad(clip.samples, (0, max(0, size - len(clip.samples))))
    frames = np.lib.stride_tricks.sliding_window_view(padded, size)[:: max(1, size // 2)]
    window = np.hanning(size + 2)[1:-1].astype(np.float32)  # without its zeros, so that two samples are seen, too
    power = np.abs(np.fft.rfft(frames * window)) ** 2
    pixels = _averaged(_averaged(power, WIDTH, 0), HEIGHT, 1).T[::-1]
    loudest = pixels.max()
    if loudest <= 0:
        return np.zeros((HEIGHT, WIDTH), np.uint8)
    below = 10 * np.log10(np.maximum(pixels / loudest, 1e-30))
    levels: NDArray[np.uint8] = np.clip((1 + below / RANGE_DB) * _LEVELS, 0, _LEVELS - 1).astype(np.uint8)
    return levels


def _averaged(values: NDArray[np.floating], cells: int, axis: int) -> NDArray[np.floating]:
    """`values` in so many cells along an axis: means of what falls into each, repeated where there are fewer."""
    size = values.shape[axis]
    edges = np.arange(cells) * size // cells
    sums: NDArray[np.floating] = np.add.reduceat(values, edges, axis)  # of an empty cell reduceat gives the value at its edge
    counts = np.maximum(np.diff(np.append(edges, size)), 1)
    return np.asarray(sums / (counts[:, None] if axis == 0 else counts))


def _mp3(clip: Clip, rate: int) -> bytes:
    import soundfile

    samples = clip.samples
    if rate != clip.sample_rate:
        import torch
        from torchaudio import functional

        # Of coprime rates its filters would take gigabytes; a near ratio changes the length by less than a thousandth.
        ratio = Fraction(rate, clip.sample_rate).limit_denominator(NEAR)
        resampled = functional.resample(torch.tensor(samples), ratio.denominator, ratio.numerator)
        samples = resampled.clamp(-1, 1).numpy()
    # libsndfile spreads its compression levels 0 to 1 over the bit rates of the MPEG version.
    most, least = (160, 8) if rate >= 16_000 else (64, 8)
    level = (most - KBIT_PER_S) / (most - least)
    written = BytesIO()
    how = {"format": "MP3", "subtype": "MPEG_LAYER_III", "compression_level": level, "bitrate_mode": "CONSTANT"}
    soundfile.write(written, samples, rate, **how)
    return written.getvalue()


def _png(levels: NDArray[np.uint8]) -> bytes:
    from PIL import Image

    places = np.linspace(0, len(_ANCHORS) - 1, _LEVELS)
    channels = [np.interp(places, range(len(_ANCHORS)), [anchor[i] for anchor in _ANCHORS]) for i in range(3)]
    image = Image.fromarray(levels).copy()
    image.putpalette(np.rint(np.stack(channels, 1)).astype(np.uint8).tobytes())
    written = BytesIO()
    image.save(written, "PNG", optimize=True, bits=4)
    return written.getvalue()
