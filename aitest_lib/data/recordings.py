"""Recordings of noise: folders of the user's own, in the layouts in which such collections are handed out.

`<label>/…/*.wav` (also MUSAN: music, speech, noise), a flat folder (the label is the file's name without its ending), DEMAND
(`<place>/ch01.wav` … `ch16.wav`: the first channel alone), ESC-50 and UrbanSound8K (their own tables), or a `labels.csv` with
`path` and `label`. A folder is a path or an fsspec URL.
"""

from __future__ import annotations

import csv
import io
import posixpath
import re
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from string import Formatter

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aitest_lib.canonical import digest, digest_bytes
from aitest_lib.data.audio_decoding import decode_audio, resampled
from aitest_lib.data.audio_files import audio_names
from aitest_lib.data.file_access import UnreadableFile
from aitest_lib.data.files import Files, Folder, open_folder
from aitest_lib.data.image_layout import shown
from aitest_lib.errors import InputError, unknown

EXPECTED = "a folder of noise recordings"
MOST = 100  # recordings that are read of one label
SECONDS = 60.0  # that are read of each
SILENT_DBFS = -60.0  # RMS below which a recording is no noise
CHANNEL = re.compile(r"ch\d\d")  # DEMAND: sixteen microphones at one place
LABELS = "labels.csv"
# Tables that collections come with: where they lie, the column of the label, and where the file of a row is.
TABLES = {
    LABELS: ("label", "{path}"),
    "meta/esc50.csv": ("category", "audio/{filename}"),
    "metadata/UrbanSound8K.csv": ("class", "audio/fold{fold}/{slice_file_name}"),
}


@dataclass(frozen=True, kw_only=True)
class NoiseSource:
    """Which noise a transform needs: a synthesized one by its `name`, or, with `folder` (path or fsspec URL), the recordings
    there whose label is `name` (None: all of them)."""

    name: str | None
    folder: str | None = None


@dataclass(frozen=True, eq=False)
class Recordings:
    """Noise at one sample rate: `names` of the recordings and their samples, float32 (n,) each, none of them silent."""

    names: tuple[str, ...]
    samples: tuple[NDArray[np.float32], ...]
    sample_rate: int


def labels_of(folder: str) -> dict[str, int]:
    """The labels of a folder of recordings, in the order of their names, and how many recordings each has."""
    return dict(sorted(Counter(_labelled(open_folder(folder, EXPECTED)).values()).items()))


def read_recordings(source: NoiseSource, sample_rate: int) -> Recordings:
    """The recordings of a label, mono at `sample_rate`, without their means; those below -60 dBFS (RMS) are left out.

    Of each, the first minute is read; of more than 100, those whose names have the lowest digests. `InputError` for an
    unknown label, a folder without recordings, one that cannot be read, and for nothing but silence.
    """
    names, files = _chosen(source)
    kept = []
    for name, found in zip(names, files.load(range(len(names))), strict=True):
        if isinstance(found, UnreadableFile):
            raise _unreadable(source, name, found)
        samples = _at_rate(source, name, found, sample_rate)
        if _level(samples) >= SILENT_DBFS:
            kept.append((shown(name), samples))
    if not kept:
        got = f"{shown(names[0])}{f' and {len(names) - 1} more' if len(names) > 1 else ''}"
        raise InputError(f"noise recordings {source.folder}: the noise recording is silent (below {SILENT_DBFS:g} dBFS): {got}")
    return Recordings(tuple(name for name, _ in kept), tuple(samples for _, samples in kept), sample_rate)


def recordings_digest(source: NoiseSource) -> str:
    """BLAKE2b-128 of the names and bytes of the files that `read_recordings` reads."""
    names, files = _chosen(source)
    known = []
    for name, content in zip(names, files.contents(range(len(names))), strict=True):
        if isinstance(content, UnreadableFile):
            raise _unreadable(source, name, content)
        known.append([shown(name), digest_bytes(content)])
    return digest(known)


def _chosen(source: NoiseSource) -> tuple[list[str], Files[tuple[NDArray[np.float32], int, tuple[str, ...]]]]:
    """The names of the recordings to read, sorted, and the files."""
    if source.folder is None:
        raise ValueError(f"got the synthesized noise {source.name}, expected a folder of recordings")
    folder = open_folder(source.folder, EXPECTED)
    labels = _labelled(folder)
    if source.name is not None and source.name not in labels.values():
        raise InputError(f"noise recordings {source.folder}: {unknown('label', source.name, set(labels.values()))}")
    names = [name for name, label in labels.items() if source.name in (None, label)]
    names = sorted(sorted(names, key=lambda name: digest_bytes(name.encode("utf-8", "surrogateescape")))[:MOST])
    table = pa.table({"file": pa.array(map(shown, names), pa.string())})
    decode = partial(decode_audio, first_s=SECONDS)
    return names, Files(list(map(shown, names)), table, lambda at: folder.read(names[at]), decode, folder.remote)


def _labelled(folder: Folder) -> dict[str, str]:
    """The label of each recording, by its relative name."""
    for table, (label, file) in TABLES.items():
        for name in sorted(folder.names, key=len):
            if name == table or (name.endswith(f"/{table}") and table != LABELS):
                home = name.removesuffix(table)
                rows = _rows(folder, name, [label, *(field for _, field, _, _ in Formatter().parse(file) if field)])
                return {posixpath.normpath(posixpath.join(home, file.format(**row))): row[label] for row in rows}
    names = audio_names(folder.url, folder.names)
    return {name: _label(name) for name in names if _is_first_channel(name)}


def _rows(folder: Folder, name: str, columns: list[str]) -> list[dict[str, str]]:
    """The rows of a CSV file, in which `columns` are filled."""
    where = f"noise recordings {folder.url}: {shown(name)}"
    try:
        rows = list(csv.DictReader(io.StringIO(folder.read(name).decode("utf-8-sig"), newline="")))
    except (UnreadableFile, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{where} cannot be read: {error}; expected a CSV file in UTF-8") from error
    if not rows:
        raise InputError(f"{where}: got no rows, expected {' and '.join(columns)} of each recording")
    for number, row in enumerate(rows, start=1):
        missing = [column for column in columns if not row.get(column)]
        if missing:
            raise InputError(f"{where}: row {number} has no {' and no '.join(missing)}, expected {', '.join(columns)} in each")
    return rows


def _label(name: str) -> str:
    """The first folder of a recording; without folders, its name; of one of many channels, the folder it is in."""
    path = PurePosixPath(name)
    parts = path.parts[1:] if path.parts[0] == "musan" and len(path.parts) > 2 else path.parts
    if len(parts) == 1:
        return shown(path.stem)
    return shown(parts[-2] if CHANNEL.fullmatch(path.stem) else parts[0])


def _is_first_channel(name: str) -> bool:
    stem = PurePosixPath(name).stem
    return stem == "ch01" or not CHANNEL.fullmatch(stem)


def _at_rate(
    source: NoiseSource, name: str, found: tuple[NDArray[np.float32], int, tuple[str, ...]], sample_rate: int
) -> NDArray[np.float32]:
    samples, rate, _ = found
    try:
        centred = (samples - samples.mean(dtype=np.float64)).astype(np.float32)
        return resampled(centred, rate, sample_rate)
    except UnreadableFile as error:
        raise _unreadable(source, name, error) from error


def _level(samples: NDArray[np.float32]) -> float:
    """RMS in dB of full scale."""
    power = float(np.square(samples, dtype=np.float64).mean())
    return 10 * np.log10(power) if power > 0 else -np.inf


def _unreadable(source: NoiseSource, name: str, error: UnreadableFile) -> InputError:
    return InputError(f"noise recordings {source.folder}: {shown(name)} cannot be used: {error}")
