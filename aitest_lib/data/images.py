"""Images as data: a folder per class, a flat folder, a ZIP archive of either, a manifest, an `.npz`, or arrays in memory.

Every image is uint8 height × width × channels with 1 (grey), 3 (RGB) or 4 channels (RGB and alpha), upright. Images may
differ in shape. One that cannot be used is skipped and listed, and never ends a run; images are read one at a time.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aitest_lib.canonical import array_digest
from aitest_lib.config.inputs import Image
from aitest_lib.data.decoding import Decoded, fitted
from aitest_lib.data.file_access import UnreadableFile
from aitest_lib.data.image_arrays import ImageArrays, memory_images, npz_images
from aitest_lib.data.image_files import ImageFiles, folder_files, manifest_files, zip_files
from aitest_lib.data.table import FORMATS, TableSource, memory_table
from aitest_lib.errors import InputError

Images = ImageFiles | ImageArrays
OPENERS: dict[str, Callable[[str], Images]] = {
    ".npz": npz_images,
    ".zip": zip_files,
    **dict.fromkeys(FORMATS, manifest_files),
}

_memory: dict[str, Images] = {}
_memory_lock = threading.Lock()


@dataclass(frozen=True)
class Unreadable:
    """An image that is skipped: where it stands (a relative file name, or `x[17]`), and why, in one sentence."""

    place: str
    reason: str


@dataclass(frozen=True, eq=False)
class ImageIndex:
    """What one pass over all images found, in the order of the source.

    `positions`: int64 (n,) of the images that can be used. `digests`: void16 (n,), `canonical.array_digest` of what
    `ImageSource.images` gives for them. `shapes`: int32 (n, 3), height, width, channels. `unreadable`: the others, and files
    that are no images. `converted`: how many images were changed in which way.
    """

    positions: NDArray[np.int64]
    digests: NDArray[np.void]
    shapes: NDArray[np.int32]
    unreadable: list[Unreadable]
    converted: dict[str, int]


@dataclass(frozen=True)
class ImageSource:
    """Where images come from: a path or fsspec URL, or `memory:<digest>` for arrays given in Python.

    A folder holds one subfolder for each class, whose names are the labels (integers where all are whole numbers), or
    nothing but images, without labels; a `.zip` holds such a folder. An `.npz` holds `x` and usually `y`. A CSV, JSONL or
    Parquet file is a manifest with `path` and usually `label`.
    """

    url: str

    @property
    def in_memory(self) -> bool:
        """Do the images live in this process only."""
        return self.url.startswith("memory:") and not self.url.startswith("memory://")

    @property
    def has_manifest(self) -> bool:
        """Are the images those that a table names."""
        return PurePosixPath(self.url).suffix.lower() in FORMATS

    @property
    def is_one_file(self) -> bool:
        """Are all images in one file (`.npz`, `.zip`), rather than in files of their own."""
        return PurePosixPath(self.url).suffix.lower() in (".npz", ".zip")

    def digest(self) -> str:
        """BLAKE2b-128 of the names and bytes of all files (of a manifest, too), of an `.npz`, or of the arrays."""
        return self._images.digest()

    @property
    def schema(self) -> pa.Schema:
        """The metadata's columns and plain types: `file` (what to call the image), `label` where there are labels, others."""
        return self.table.schema

    @property
    def rows(self) -> int:
        """Number of images, usable or not; at least one."""
        return len(self._images.places)

    @cached_property
    def table(self) -> TableSource:
        """The metadata of all images, in memory."""
        return memory_table(self._images.table)

    def index(self, image: Image | None = None) -> ImageIndex:
        """Reads every image once. With `image` (a card's), those that do not fit it are unreadable.

        Raises `InputError` where not a single image can be used.
        """
        positions, digests, shapes = [], bytearray(), []
        unreadable: list[Unreadable] = []
        converted: Counter[str] = Counter()
        places = self._images.places
        for position, (place, found) in enumerate(zip(places, self._load(range(self.rows), image), strict=True)):
            if isinstance(found, UnreadableFile):
                unreadable.append(Unreadable(place, str(found)))
                continue
            pixels, notes = found
            positions.append(position)
            digests += bytes.fromhex(array_digest(pixels))
            shapes.append(pixels.shape)
            converted.update(notes)
        if not positions:
            first = unreadable[0]
            raise InputError(f"data {self.url}: none of {self.rows} images can be used; {first.place}: {first.reason}")
        return ImageIndex(
            positions=np.array(positions, np.int64),
            digests=np.frombuffer(bytes(digests), "V16"),
            shapes=np.array(shapes, np.int32),
            unreadable=unreadable + [Unreadable(place, reason) for place, reason in self._images.strays.items()],
            converted=dict(sorted(converted.items())),
        )

    def images(self, positions: NDArray[np.int64], image: Image | None = None) -> Iterator[NDArray[np.uint8]]:
        """The images at `positions` (any order) one by one, as uint8 (height, width, channels).

        Raises `InputError` for one that cannot be used, as it could when `index` read it.
        """
        wanted = positions.tolist()
        for position, found in zip(wanted, self._load(wanted, image), strict=True):
            if isinstance(found, UnreadableFile):
                place = self._images.places[position]
                raise InputError(f"data {self.url}: {place} has changed since it was read: {found}; run it again")
            yield found[0]

    def contents(self) -> Iterator[tuple[str, bytes | None]]:
        """The place and the bytes of every image that is a file; None where it cannot be read."""
        files = self._images
        if isinstance(files, ImageArrays):
            raise InputError(f"data {self.url}: got arrays, expected image files; save them with np.savez")
        for place, content in zip(files.places, files.contents(range(self.rows)), strict=True):
            yield place, content if isinstance(content, bytes) else None

    def _load(self, positions: Iterable[int], image: Image | None) -> Iterator[Decoded | UnreadableFile]:
        for found in self._images.load(positions):
            try:
                yield found if isinstance(found, UnreadableFile) else fitted(*found, image)
            except UnreadableFile as error:
                yield error

    @cached_property
    def _images(self) -> Images:
        if not self.in_memory:
            return OPENERS.get(PurePosixPath(self.url).suffix.lower(), folder_files)(self.url)
        with _memory_lock:
            if self.url not in _memory:
                raise InputError("the data of this run lived in the memory of another process; run it again from there")
            return _memory[self.url]


def image_memory_source(x: Any, y: Any = None) -> ImageSource:
    """Arrays as a source: `x` as in an `.npz`, `y` a label for each image. They stay in this process, copied."""
    images = memory_images(x, y)
    url = f"memory:{images.digest()}"
    with _memory_lock:
        _memory[url] = images
    return ImageSource(url)
