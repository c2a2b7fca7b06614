"""Real audio files of every kind, good and bad, made on the spot, and what must come of each."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import soundfile
from numpy.typing import NDArray

from aitest_lib.pcm import of_pcm16
from aitest_lib.types import Clip

RATE = 16_000


def values(count: int = 400, seed: int = 0) -> NDArray[np.int16]:
    """Random samples as int16 (n,), whose mean is far below what counts as a DC offset."""
    found = np.random.default_rng(seed).integers(-20_000, 20_000, count)
    return (found - round(found.mean())).astype(np.int16)


def clip(count: int = 400, rate: int = RATE, seed: int = 0) -> Clip:
    """A random clip."""
    return of_pcm16(values(count, seed), rate)


def tone(hertz: float, seconds: float = 1.0, rate: int = RATE, level: float = 0.5) -> NDArray[np.float32]:
    """A sine, float32 (n,)."""
    return (level * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)).astype(np.float32)


def encoded(samples: NDArray[Any], kind: str = "WAV", subtype: str | None = None, rate: int = RATE, **options: Any) -> bytes:
    """Samples (n,) or (n, channels) as the bytes of a file."""
    out = io.BytesIO()
    soundfile.write(out, samples, rate, format=kind, subtype=subtype, **options)
    return out.getvalue()


def write_all(folder: Path, files: dict[str, Any]) -> Path:
    """Writes files from their bytes, or from tuples that begin with them."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content[0] if isinstance(content, tuple) else content)
    return folder


def write_table(table: pd.DataFrame, path: Path) -> Path:
    """Writes a table as its ending says."""
    if path.suffix == ".parquet":
        table.to_parquet(path, index=False)
    elif path.suffix == ".jsonl":
        table.to_json(path, orient="records", lines=True)
    else:
        table.to_csv(path, index=False)
    return path


def sent_on(wave: bytes, size: int) -> bytes:
    """A WAV whose header gives `size` as that of its samples and of itself, as programs write that do not know it yet."""
    return wave[:4] + struct.pack("<I", size) + wave[8:40] + struct.pack("<I", size) + wave[44:]


def with_notes(wave: bytes) -> bytes:
    """A WAV with a chunk of odd length before its samples."""
    return wave[:36] + b"LIST" + struct.pack("<I", 5) + b"notes\0" + wave[36:]


def good_files() -> dict[str, tuple[bytes, NDArray[np.float32], list[str]]]:
    """By name: the file, the samples that it holds (at 16 kHz), and what is noted; those of lossy formats only nearly."""
    mono = values()
    deep = (mono.astype(np.int32) << 16) + np.random.default_rng(1).integers(0, 1 << 16, 400, np.int32)
    stereo = np.stack([mono, values(seed=2)], axis=1)
    float_mono = mono / np.float32(32_768)
    mixed = stereo.mean(axis=1).astype(np.float32) / np.float32(32_768)
    loud, voice = float_mono * 4, tone(300, 0.5)
    wave = encoded(mono)
    with_chunks = with_notes(wave) + b"junk at the end"
    return {
        "a.wav": (wave, float_mono, []),
        "a.flac": (encoded(mono, "FLAC"), float_mono, []),
        "upper.WAV": (wave, float_mono, []),
        "named_wrong.wav": (encoded(mono, "FLAC"), float_mono, []),
        "extensible.wav": (encoded(mono, "WAVEX"), float_mono, []),
        "large.wav": (encoded(mono, "RF64"), float_mono, []),
        "big_endian.wav": (encoded(mono, "WAV", endian="BIG"), float_mono, []),
        "chunks.wav": (with_chunks, float_mono, []),
        "streamed.wav": (sent_on(wave, 0xFFFF_FFFF), float_mono, []),
        "deep.wav": (encoded(deep, subtype="PCM_32"), deep.astype(np.float64) / 2**31, []),
        "deep.flac": (encoded(deep, "FLAC", "PCM_24"), (deep >> 8) / 2**23, []),
        "float.wav": (encoded(float_mono, subtype="FLOAT"), float_mono, []),
        "double.wav": (encoded(float_mono, subtype="DOUBLE"), float_mono, []),
        "loud.wav": (encoded(loud, subtype="FLOAT"), loud / np.abs(loud).max(), ["scaled down to full scale"]),
        "stereo.wav": (encoded(stereo), mixed, ["mixed down to mono"]),
        "offset.wav": (encoded(float_mono / 2 + 0.25), float_mono / 2 + 0.25, ["DC offset, kept"]),
        "silent.wav": (encoded(np.zeros(400, np.int16)), np.zeros(400), ["silent, kept"]),
        "one.wav": (encoded(np.array([5000], np.int16)), np.array([5000 / 32_768]), ["DC offset, kept"]),
        "phone.wav": (encoded(voice, subtype="ULAW"), voice, []),
        "voice.ogg": (encoded(voice, "OGG", "VORBIS"), voice, []),
        "voice.mp3": (encoded(voice, "MP3"), voice, []),
    }


def bad_files() -> dict[str, tuple[bytes, str]]:
    """By name: the file, and a part of the reason why it cannot be used."""
    sound = np.concatenate([tone(300, 2.0), values(32_000) / np.float32(40_000)])
    wave, flac, mp3 = encoded(sound), encoded(sound, "FLAC"), encoded(sound, "MP3")
    vorbis, opus = encoded(sound, "OGG", "VORBIS"), encoded(sound, "OGG", "OPUS")
    broken = np.array([0.1, np.nan, 0.2], np.float32)
    side = tone(300)
    scratched = bytearray(vorbis)
    scratched[len(vorbis) // 2] ^= 1
    dented = bytearray(flac)
    dented[len(flac) // 2] ^= 1
    return {
        "empty.wav": (b"", "it is empty (0 bytes)"),
        "text.wav": (b"turn on the light\n" * 9, "its content is no audio that is read (WAV, FLAC, OGG"),
        "one_byte.mp3": (b"\xff", "its content is no audio that is read"),
        "pointer.flac": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "it is a Git LFS pointer"),
        "header.wav": (wave[:44], "it is cut off: its header says 128,000 bytes of samples, 0 are there"),
        "headed.wav": (encoded(sound[:0]), "it has no samples"),
        "half_a_header.wav": (wave[:30], "it is damaged or cut off: Error in WAV file"),
        "unfinished.wav": (sent_on(wave, 0), "its header says that it has no samples, but 128,000 bytes follow"),
        "half.wav": (wave[: len(wave) // 2], "it is cut off: its header says 128,000 bytes of samples, 63,978 are there"),
        "half_noted.wav": (with_notes(wave)[:9000], "it is cut off: its header says 128,000 bytes"),
        "half_big_endian.wav": (encoded(sound, endian="BIG")[:9000], "it is cut off: its header says 128,000 bytes"),
        "half_large.wav": (encoded(sound, "RF64")[:9000], "it is cut off: its header says 128,000 bytes"),
        "half.flac": (flac[: len(flac) // 2], "it is damaged or cut off: flac decoder lost sync"),
        "dented.flac": (bytes(dented), "it is damaged or cut off: unknown error in flac decoder"),
        "half.ogg": (vorbis[: len(vorbis) // 2], "it is cut off within a page"),
        "half.opus": (opus[: len(opus) // 2], "it is cut off within a page"),
        "scratched.ogg": (bytes(scratched), "it is damaged: the checksum of a page"),
        "half.mp3": (mp3[: len(mp3) // 2], "it is cut off: "),
        "nan.wav": (encoded(broken, subtype="FLOAT"), "it holds NaN or infinite values"),
        "infinite.wav": (encoded(np.array([np.inf]), subtype="DOUBLE"), "it holds NaN or infinite"),
        "opposite.wav": (encoded(np.stack([side, -side * 0.99], axis=1)), "its 2 channels cancel one another"),
        "long.flac": (encoded(np.zeros(601 * 1000, np.int16), "FLAC", rate=1000), "it is longer than 10 minutes"),
        "slow.wav": (encoded(values(), rate=500), "its header says 500 Hz, expected 1,000 to 384,000"),
        "a.m4a": (b"\0\0\0\x20ftypM4A \0\0", "its content is M4A or MP4 (AAC), expected WAV"),
        "a.aac": (b"\xff\xf1\x50\x80" * 99, "its content is AAC"),
        "a.webm": (b"\x1aE\xdf\xa3\x01\0\0\0" * 9, "its content is WebM"),
        "a.amr": (b"#!AMR\n" + bytes(90), "convert it to WAV or FLAC, e.g. with ffmpeg"),
        "a.aiff": (encoded(sound, "AIFF"), "its content is AIFF"),
        "a.au": (encoded(sound, "AU"), "its content is AU"),
        "a.caf": (encoded(sound, "CAF"), "its content is CAF"),
        "w64.wav": (encoded(sound, "W64"), "its content is W64"),
    }
