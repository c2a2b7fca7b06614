"""Data of every modality behind one name: a table, or images or clips with what stands beside them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from aitest_lib.data import audio_files, image_layout
from aitest_lib.data.audio import AudioSource, audio_memory_source
from aitest_lib.data.image_layout import ending
from aitest_lib.data.images import ImageSource, image_memory_source
from aitest_lib.data.table import FORMATS, TableSource, memory_source

Source = TableSource | ImageSource | AudioSource


def open_source(url: str, modality: str) -> Source:
    """The data at a path or fsspec URL, as models of a modality take them."""
    if modality == "speech":
        return AudioSource(url)
    return ImageSource(url) if modality == "image" else TableSource(url)


def holds_images(path: Path) -> bool:
    """Are the data at a path images by what they are called: a folder, an archive, a table that names image files."""
    if path.is_dir():
        return not holds_audio(path)
    return path.suffix.lower() in (".npz", ".zip") or _names_files(path, image_layout.ENDINGS)


def holds_audio(path: Path) -> bool:
    """Are the data at a path clips by what they are called: a folder of audio files, or a table that names some."""
    if path.is_dir():
        return any(ending(file.name) in audio_files.ENDINGS for file in path.rglob("*"))
    return _names_files(path, audio_files.ENDINGS)


def memory_source_of(data: Any, modality: str) -> Source:
    """Data given in Python: a DataFrame; of images an array (see `image_memory_source`), or images and labels; of speech a
    list of clips (see `audio_memory_source`), or clips and transcripts."""
    if modality not in ("image", "speech"):
        return memory_source(data)
    x, y = data if isinstance(data, tuple) and len(data) == 2 else (data, None)
    return image_memory_source(x, y) if modality == "image" else audio_memory_source(x, y)


def _names_files(path: Path, endings: Collection[str]) -> bool:
    """Is a path that of a manifest whose first file has one of these endings."""
    if path.suffix.lower() not in FORMATS:
        return False
    source = TableSource(str(path))
    if "path" not in source.schema.names or not source.rows:
        return False
    first = next(source.batches(["path"])).column("path")[0].as_py()
    return isinstance(first, str) and ending(first) in endings
