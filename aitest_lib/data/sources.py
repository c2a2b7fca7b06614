"""Data of every modality behind one name: a table, or images with what stands beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aitest_lib.data.image_layout import ENDINGS, ending
from aitest_lib.data.images import ImageSource, image_memory_source
from aitest_lib.data.table import FORMATS, TableSource, memory_source

Source = TableSource | ImageSource


def open_source(url: str, modality: str) -> Source:
    """The data at a path or fsspec URL, as models of a modality take them."""
    return ImageSource(url) if modality == "image" else TableSource(url)


def holds_images(path: Path) -> bool:
    """Are the data at a path images by what they are called: a folder, an archive, a table that names image files."""
    if path.is_dir() or path.suffix.lower() in (".npz", ".zip"):
        return True
    if path.suffix.lower() not in FORMATS:
        return False
    source = TableSource(str(path))
    if "path" not in source.schema.names or not source.rows:
        return False
    first = next(source.batches(["path"])).column("path")[0].as_py()
    return isinstance(first, str) and ending(first) in ENDINGS


def memory_source_of(data: Any, modality: str) -> Source:
    """Data given in Python: a DataFrame; of images an array (see `image_memory_source`), or images and labels."""
    if modality != "image":
        return memory_source(data)
    x, y = data if isinstance(data, tuple) else (data, None)
    return image_memory_source(x, y)
