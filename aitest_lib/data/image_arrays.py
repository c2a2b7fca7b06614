"""Images in one array: an `.npz` file with `x` and usually `y`, or arrays given in Python. Pickles are never loaded."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from math import prod
from typing import Any, ClassVar

import fsspec
import numpy as np
import pyarrow as pa
from numpy.lib import format as npy
from numpy.typing import NDArray

from aitest_lib.canonical import DIGEST_BYTES, array_digest, digest
from aitest_lib.data.decoding import Decoded, Pixels, UnreadableImage
from aitest_lib.data.file_access import reaching, unpacking
from aitest_lib.data.table import hex_digests, plain_table, row_digests
from aitest_lib.errors import InputError

ARRAY_BYTES = 8 << 30  # of one array; a header may announce any size
CHUNK_BYTES = 32 << 20  # of an array in work at once
CHANNELS = (1, 3, 4)
EXPECTED = "expected x as N×height×width or N×height×width×channels with 1 (grey), 3 (RGB) or 4 channels (RGB and alpha)"
SAVED = "expected an .npz as np.savez(file, x=…, y=…) writes it"


@dataclass(frozen=True, eq=False)
class ImageArrays:
    """Images of one shape. `pixels`: uint8 (n, height, width, channels). `note`: what all of them were converted from.
    `unreadable`: why the images at some positions have no pixels. `digest`: of the file's bytes, or of the arrays."""

    pixels: Pixels
    table: pa.Table
    note: str | None
    unreadable: dict[int, str]
    digest: Callable[[], str]
    strays: ClassVar[dict[str, str]] = {}

    @property
    def places(self) -> list[str]:
        """What to call each image."""
        return _places(len(self.pixels))

    def load(self, positions: Iterable[int]) -> Iterator[Decoded | UnreadableImage]:
        """The images at `positions`, in their order."""
        for position in positions:
            if position in self.unreadable:
                yield UnreadableImage(self.unreadable[position])
            else:
                image = self.pixels[position]
                image.flags.writeable = False
                yield image, [] if self.note is None else [self.note]


def npz_images(url: str) -> ImageArrays:
    """The images of an `.npz` file, read whole; its one-dimensional arrays of the same length are metadata."""
    with reaching(url), fsspec.open(url, "rb").open() as file, unpacking(url, SAVED), zipfile.ZipFile(file) as archive:
        arrays = _arrays(archive, url)
    return _of_arrays(arrays, f"data {url}", lambda: _file_digest(url))


def memory_images(x: Any, y: Any = None) -> ImageArrays:
    """Arrays given in Python, copied, and known by the digest of what they hold."""
    try:
        arrays = {"x": np.array(x)} | ({} if y is None else {"y": np.asarray(y)})
    except (ValueError, TypeError, RuntimeError) as error:  # ragged lists, tensors on a GPU
        raise InputError(f"data: x and y are no arrays ({error}); {EXPECTED}") from error
    images = _of_arrays(arrays, "data", str)
    head = [array_digest(images.pixels), images.note, sorted(images.unreadable), str(images.table.schema)]
    name = digest([*head, *hex_digests(row_digests(images.table))])
    return replace(images, digest=lambda: name)


def _arrays(archive: zipfile.ZipFile, url: str) -> dict[str, NDArray[Any]]:
    """The arrays `x` and `y`, and those with one value for each image. Headers are looked at before anything is read."""
    members = {info.filename.removesuffix(".npy"): info for info in archive.infolist() if info.filename.endswith(".npy")}
    if "x" not in members:
        raise InputError(f"data {url}: got the arrays {', '.join(members) or '(none)'}, but no x; {SAVED}")
    heads = {name: _head(archive, info) for name, info in members.items()}
    rows = heads["x"][0][:1]
    arrays = {}
    for name, (shape, kind) in heads.items():
        if name not in ("x", "y") and shape != rows:
            continue
        if kind.hasobject:
            mend = f"save it as numbers or text ({name}.astype(str)), or leave it out"
            raise InputError(f"data {url}: {name} holds Python objects (pickles), which are never loaded; {mend}")
        size = prod(shape) * kind.itemsize
        if size > ARRAY_BYTES:
            got = f"{name} of {size / 2**30:,.1f} GiB"
            raise InputError(f"data {url}: got {got}, expected at most {ARRAY_BYTES >> 30}; give the images as files")
        if members[name].file_size < size:
            raise EOFError(f"{name} has {members[name].file_size:,} of {size:,} bytes")
        with archive.open(members[name]) as member:
            arrays[name] = npy.read_array(member, allow_pickle=False)
    return arrays


def _head(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> tuple[tuple[int, ...], np.dtype[Any]]:
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    with archive.open(info) as member:
        version = npy.read_magic(member)
        if version not in readers:
            raise ValueError(f"{info.filename} has the unknown format {version}")
        shape, _, kind = readers[version](member)
    return shape, kind


def _of_arrays(arrays: dict[str, NDArray[Any]], where: str, digest: Callable[[], str]) -> ImageArrays:
    x = _channels_last(arrays.pop("x"), where)
    pixels, note, unreadable = _to_8_bit(x, where)
    columns: dict[str, pa.Array] = {"file": pa.array(_places(len(x)), pa.string())}
    if "y" in arrays:
        if "label" in arrays:
            raise InputError(f"{where}: got both y and label, expected one of them; leave one out")
        columns["label"] = _column(_labels(arrays.pop("y"), len(x), where), "y", where)
    columns |= {name: _column(values, name, where) for name, values in arrays.items()}
    return ImageArrays(pixels, plain_table(pa.table(columns), where.removeprefix("data ")), note, unreadable, digest)


def _channels_last(x: NDArray[Any], where: str) -> NDArray[Any]:
    """The array as n × height × width × channels; other layouts are an `InputError` that says how to change them."""
    got = f"{where}: got x of shape {x.shape}, {EXPECTED}"
    if x.ndim not in (3, 4):
        raise InputError(f"{got}; x.reshape(len(x), height, width) makes images of flat rows")
    if x.ndim == 4 and x.shape[3] not in CHANNELS:
        known = x.shape[1] in CHANNELS
        raise InputError(f"{got}; {'channels come last: ' if known else ''}x.transpose(0, 2, 3, 1) moves axis 1 to the end")
    if x.size == 0:
        raise InputError(f"{got}, and at least one pixel")
    return x[..., None] if x.ndim == 3 else x


def _to_8_bit(x: NDArray[Any], where: str) -> tuple[Pixels, str | None, dict[int, str]]:
    """The pixels as uint8, what they were converted from, and why some images have none (NaN, infinities)."""
    if x.dtype == np.uint8:
        return np.ascontiguousarray(x), None, {}
    if x.dtype == np.bool_:
        return _converted(x, lambda part: part * np.uint8(255)), "true and false to 255 and 0", {}
    if x.dtype.kind not in "iuf":
        raise InputError(f"{where}: got x of type {x.dtype}, expected uint8, or numbers 0..255 or 0..1")
    finite, low, high, whole = _survey(x)
    got = f"{where}: got x of type {x.dtype} with values from {low:g} to {high:g}, expected"
    unreadable = {int(position): "it holds NaN or infinite values" for position in np.flatnonzero(~finite)}
    if x.dtype.kind in "iu":
        if low < 0 or high > 255:
            raise InputError(f"{got} 0..255; scale it and save it as uint8 (16 bits: np.rint(x / 257).astype(np.uint8))")
        return _converted(x, lambda part: part.astype(np.uint8)), f"{x.dtype} to 8 bit", {}
    x[~finite] = 0
    if not len(x) - len(unreadable) or (low >= 0 and high <= 1):
        scaled = _converted(x, lambda part: np.rint(part.astype(np.float64) * 255).astype(np.uint8))
        return scaled, "floats 0..1 to 8 bit", unreadable
    if low >= 0 and high <= 255 and whole:
        return _converted(x, lambda part: part.astype(np.uint8)), "floats 0..255 to 8 bit", unreadable
    raise InputError(f"{got} 0..1, or whole numbers 0..255; undo its scaling, or save it as uint8")


def _survey(x: NDArray[Any]) -> tuple[NDArray[np.bool_], float, float, bool]:
    """Which images are finite; and of these the lowest and the highest value, and whether all are whole numbers."""
    finite, low, high, whole = np.ones(len(x), np.bool_), np.inf, -np.inf, True
    for piece in _pieces(x):
        part = x[piece]
        if x.dtype.kind == "f":
            finite[piece] = np.isfinite(part).reshape(len(part), -1).all(axis=1)
            part = part[finite[piece]]
            whole = whole and bool((part == np.rint(part)).all())
        if part.size:
            low, high = min(low, float(part.min())), max(high, float(part.max()))
    return finite, low, high, whole


def _converted(x: NDArray[Any], convert: Callable[[NDArray[Any]], Pixels]) -> Pixels:
    out = np.empty(x.shape, np.uint8)
    for piece in _pieces(x):
        out[piece] = convert(x[piece])
    return out


def _pieces(x: NDArray[Any]) -> Iterator[slice]:
    step = max(1, CHUNK_BYTES // max(1, x[0].nbytes))
    return (slice(start, start + step) for start in range(0, len(x), step))


def _labels(y: NDArray[Any], rows: int, where: str) -> NDArray[Any]:
    """Labels as (n,): Keras gives (n, 1); whole floats are integers, as those are what classes are."""
    if y.shape == (rows, 1):
        y = y[:, 0]
    if y.shape != (rows,):
        hint = "; np.argmax(y, axis=1) makes labels of one-hot rows" if y.ndim == 2 and len(y) == rows else ""
        raise InputError(f"{where}: got y of shape {y.shape}, expected ({rows},), a label for each image{hint}")
    if y.dtype.kind == "f" and np.isfinite(y).all() and (y == np.rint(y)).all():
        return y.astype(np.int64)
    return y


def _column(values: NDArray[Any], name: str, where: str) -> pa.Array:
    try:
        return pa.array(np.char.decode(values, "utf-8") if values.dtype.kind == "S" else values, from_pandas=True)
    except (pa.ArrowException, UnicodeDecodeError, TypeError, OverflowError) as error:
        raise InputError(f"{where}: {name} of type {values.dtype} is no column; expected numbers, text or booleans") from error


def _places(rows: int) -> list[str]:
    return [f"x[{position}]" for position in range(rows)]


def _file_digest(url: str) -> str:
    hasher = blake2b(digest_size=DIGEST_BYTES)
    with reaching(url), fsspec.open(url, "rb").open() as file:
        while chunk := file.read(1 << 20):
            hasher.update(chunk)
    return hasher.hexdigest()
