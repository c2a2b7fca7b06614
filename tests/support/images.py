"""Real image files of every kind, good and bad, made on the spot, and what must come of each."""

from __future__ import annotations

import io
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from PIL import Image

from aitest_lib.data.decoding import TO_8_BIT

Pixels = NDArray[np.uint8]


def pixels(height: int = 6, width: int = 9, channels: int = 3, seed: int = 0) -> Pixels:
    """A random image, uint8 H×W×C."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), np.uint8)


def plain(array: NDArray[Any]) -> Image.Image:
    """An array H×W×C as Pillow's image."""
    return Image.fromarray(array[..., 0] if array.ndim == 3 and array.shape[2] == 1 else array)


def encoded(image: Image.Image | NDArray[Any], kind: str = "PNG", **options: Any) -> bytes:
    """An image as the bytes of a file."""
    out = io.BytesIO()
    (image if isinstance(image, Image.Image) else plain(image)).save(out, kind, **options)
    return out.getvalue()


def class_folder(root: Path, classes: dict[str, int], suffix: str = ".png", shape: tuple[int, int, int] = (6, 9, 3)) -> Path:
    """A folder per class with so many random images in each; all of them differ."""
    seed = 0
    for name, count in classes.items():
        (root / name).mkdir(parents=True)
        for number in range(count):
            seed += 1
            (root / name / f"{number}{suffix}").write_bytes(encoded(pixels(*shape, seed=seed)))
    return root


def png(width: int, height: int, depth: int, colour: int, rows: bytes, *more: tuple[bytes, bytes]) -> bytes:
    """A PNG file from its filtered rows, for what Pillow does not write (RFC 2083)."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    chunks = [(b"IHDR", header), *more, (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*one) for one in chunks)


def deep_png(values: NDArray[np.uint16], *more: tuple[bytes, bytes]) -> bytes:
    """A PNG of 16 bits a channel: H×W grey or H×W×3."""
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    return png(values.shape[1], values.shape[0], 16, 0 if values.ndim == 2 else 2, rows, *more)


def with_orientation(orientation: int) -> Image.Exif:
    """EXIF data that holds nothing but an orientation."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


def upright(array: Pixels, orientation: int) -> Pixels:
    """How a file with this EXIF orientation is to be seen (EXIF 2.32, table 6)."""
    turned: dict[int, Pixels] = {
        1: array,
        2: array[:, ::-1],
        3: array[::-1, ::-1],
        4: array[::-1],
        5: array.transpose(1, 0, 2),
        6: np.rot90(array, -1),
        7: array[::-1, ::-1].transpose(1, 0, 2),
        8: np.rot90(array),
    }
    return turned[orientation]


def good_files() -> dict[str, tuple[bytes, Pixels, list[str]]]:
    """By name: the file, the pixels that it holds, and what is converted to get there."""
    grey, rgb, rgba = pixels(channels=1, seed=1), pixels(seed=2), pixels(channels=4, seed=3)
    deep = np.random.default_rng(4).integers(0, 1 << 16, (6, 9), np.uint16)
    deep_rgb = np.random.default_rng(5).integers(0, 1 << 16, (6, 9, 3), np.uint16)
    to_8 = ["16 bit to 8 bit"]
    marked = TO_8_BIT[deep][..., None].repeat(4, axis=2)
    marked[..., 3] = np.where(deep == deep[2, 3], 0, 255)
    palette = Image.fromarray(grey[..., 0] // 64, "P")
    palette.putpalette([10, 20, 30, 200, 100, 50, 7, 7, 7, 255, 0, 255])
    colours = np.array(palette.convert("RGB"))
    clear = np.dstack([colours, np.where(grey[..., 0] // 64 == 1, 0, 255).astype(np.uint8)])
    la = Image.merge("LA", [plain(grey), plain(pixels(channels=1, seed=6))])
    cyan = np.full((6, 9, 3), (0, 255, 255), np.uint8)
    inks = Image.new("CMYK", (9, 6), (255, 0, 0, 0))
    bits = plain(grey).convert("1")
    files = {
        "grey.png": (encoded(grey), grey, []),
        "rgb.png": (encoded(rgb), rgb, []),
        "rgba.png": (encoded(rgba), rgba, []),
        "one.bmp": (encoded(rgb[:1, :1], "BMP"), rgb[:1, :1], []),
        "rgb.webp": (encoded(rgb, "WEBP", lossless=True), rgb, []),
        "rgba.webp": (encoded(rgba, "WEBP", lossless=True, exact=True), rgba, []),
        "rgb.jp2": (encoded(rgb, "JPEG2000"), rgb, []),
        "still.gif": (encoded(grey, "GIF"), grey.repeat(3, axis=2), ["palette to RGB"]),
        "grey.tif": (encoded(grey, "TIFF"), grey, []),
        "packed.tiff": (encoded(rgb, "TIFF", compression="tiff_lzw"), rgb, []),
        "grey.pgm": (encoded(grey, "PPM"), grey, []),
        "upper.PNG": (encoded(rgb), rgb, []),
        "la.png": (encoded(la), np.array(la.convert("RGBA")), ["grey with alpha to RGBA"]),
        "palette.png": (encoded(palette), colours, ["palette to RGB"]),
        "clear.png": (encoded(palette, transparency=1), clear, ["palette to RGBA"]),
        "bits.png": (encoded(bits), np.array(bits.convert("L"))[..., None], ["1 bit to grey"]),
        "deep.png": (deep_png(deep), TO_8_BIT[deep][..., None], to_8),
        "deep_clear.png": (deep_png(deep, (b"tRNS", struct.pack(">H", deep[2, 3]))), marked, to_8),
        "deep_rgb.png": (deep_png(deep_rgb), (deep_rgb >> 8).astype(np.uint8), to_8),
        "deep.tif": (encoded(Image.fromarray(deep), "TIFF"), TO_8_BIT[deep][..., None], to_8),
        "deep_big.tif": (big_endian_tiff(deep), TO_8_BIT[deep][..., None], to_8),
        "deep.pgm": (b"P5 9 6 65535\n" + deep.astype(">u2").tobytes(), TO_8_BIT[deep][..., None], to_8),
        "inks.tif": (encoded(inks, "TIFF"), cyan, ["CMYK to RGB"]),
        "inks.jpg": (encoded(inks, "JPEG", quality=100, subsampling=0), cyan, ["CMYK to RGB"]),
    }
    for number in range(2, 9):
        turned = encoded(rgb, exif=with_orientation(number))
        files[f"exif_{number}.png"] = (turned, upright(rgb, number), ["EXIF orientation applied"])
    return files


def big_endian_tiff(values: NDArray[np.uint16]) -> bytes:
    """An uncompressed grey TIFF of 16 bits in big-endian order (TIFF 6.0, section 4)."""
    height, width = values.shape
    data = values.astype(">u2").tobytes()
    tags = [(256, width), (257, height), (258, 16), (259, 1), (262, 1), (273, 8), (277, 1), (278, height), (279, len(data))]
    entries = b"".join(struct.pack(">HHIHH", tag, 3, 1, value, 0) for tag, value in tags)
    return b"MM\0*" + struct.pack(">I", 8 + len(data)) + data + struct.pack(">H", len(tags)) + entries + struct.pack(">I", 0)


def bad_files() -> dict[str, tuple[bytes, str]]:
    """By name: the file, and a part of the reason why it cannot be used."""
    photo = pixels(40, 60, seed=7)
    frames = [plain(pixels(seed=seed)) for seed in range(5)]
    whole_jpeg, whole_png = encoded(photo, "JPEG"), encoded(photo)
    whole_gif, packed = encoded(photo, "GIF"), encoded(photo, "TIFF", compression="tiff_deflate")
    moving = {"save_all": True, "append_images": frames[1:]}
    header = b"\0" * 20
    return {
        "empty.png": (b"", "it is empty (0 bytes)"),
        "text.png": (b"dear diary, this is no image\n" * 20, "its content is no image"),
        "html.jpg": (b"<!DOCTYPE html><title>404</title>", "its content is no image"),
        "photo.heic": (b"\0\0\0\x18ftypheic" + header, "its content is no image"),
        "cut.jpg": (whole_jpeg[: len(whole_jpeg) // 2], "it is damaged: image file is truncated"),
        "cut.png": (whole_png[: len(whole_png) // 2], "it is damaged"),
        "flipped.png": (whole_png[:60] + bytes([whole_png[60] ^ 0xFF]) + whole_png[61:], "it is damaged"),
        "endless.png": (whole_png[:-12], "it is damaged"),
        "head.gif": (encoded(frames[0], "GIF")[:20], "is damaged from the start"),
        "cut.gif": (whole_gif[: len(whole_gif) // 2], "it is damaged"),
        "cut.bmp": (encoded(photo, "BMP")[:900], "it is damaged"),
        "flipped.tif": (packed[:60] + bytes(200) + packed[260:], "it is damaged"),
        "cut.webp": (encoded(photo, "WEBP")[:200], "it is damaged"),
        "moving.gif": (encoded(frames[0], "GIF", **moving), "it is an animation of 5 frames; save the one you mean"),
        "moving.webp": (encoded(frames[0], "WEBP", **moving), "it is an animation of 5 frames"),
        "moving.png": (encoded(frames[0], "PNG", **moving), "it is an animation of 5 frames"),
        "pages.tif": (encoded(frames[0], "TIFF", **moving), "it is a file of 5 pages"),
        "float.tif": (encoded(np.zeros((6, 9), np.float32), "TIFF"), "its pixels are floats"),
        "wide.tif": (encoded(np.zeros((6, 9), np.int32), "TIFF"), "its pixels are 32-bit numbers"),
        "bomb.png": (png(20_000, 20_000, 8, 2, header), "its header says 400,000,000 pixels, at most 50,000,000"),
        "large.png": (png(10_000, 10_000, 8, 2, header), "its header says 100,000,000 pixels, at most 50,000,000"),
    }


def write_all(folder: Path, files: dict[str, tuple[Any, ...]]) -> Path:
    """The files of `good_files` or `bad_files` in one folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (data, *_) in files.items():
        (folder / name).write_bytes(data)
    return folder


def write_table(table: pd.DataFrame, file: Path) -> None:
    """A table as the CSV, Parquet or JSONL that the ending says."""
    if file.suffix == ".csv":
        table.to_csv(file, index=False)
    elif file.suffix == ".parquet":
        table.to_parquet(file)
    else:
        table.to_json(file, orient="records", lines=True)


def file_system_traps(folder: Path) -> dict[str, str]:
    """Entries of a folder that are no readable files, by name, with a part of the reason."""
    (folder / "gone.png").symlink_to(folder / "nowhere.png")
    (folder / "loop.png").symlink_to(folder / "loop2.png")
    (folder / "loop2.png").symlink_to(folder / "loop.png")
    os.mkfifo(folder / "pipe.png")
    return {
        "gone.png": "there is no such file",
        "loop.png": "it cannot be read: Too many levels of symbolic links",
        "loop2.png": "it cannot be read: Too many levels of symbolic links",
        "pipe.png": "it is no regular file",
    }
