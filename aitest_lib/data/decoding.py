"""Image files to pixels: bytes in, uint8 height × width × channels out (1 grey, 3 RGB, 4 RGB and alpha), by Pillow.

What cannot be decoded is an `UnreadableImage` with one plain sentence; whatever is changed on the way has a name. Safe in
threads: nothing but Pillow's own tables of formats is shared.
"""

from __future__ import annotations

import ctypes
import io
import logging
import re
import warnings
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from aitest_lib.config import inputs
from aitest_lib.data.file_access import UnreadableFile
from aitest_lib.errors import InputError

if TYPE_CHECKING:
    from PIL.Image import Image

Pixels = NDArray[np.uint8]
Decoded = tuple[Pixels, list[str]]  # the pixels of an image, and what was converted for them

PIXELS = 50_000_000  # of one image; more is taken for a decompression bomb
# Formats with a signature, and none whose reader starts a program (EPS).
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "JPEG2000", "AVIF")
NAMES = {"1": "1 bit", "L": "grey", "LA": "grey with alpha", "P": "palette", "PA": "palette", "RGBX": "RGB"}
REFUSED = {
    "F": "its pixels are floats, expected 8 or 16 bits; scale and save it as PNG",
    "I": "its pixels are 32-bit numbers, expected 8 or 16 bits; scale and save it as PNG",
}
TO_8_BIT = ((np.arange(1 << 16) + 128) // 257).astype(np.uint8)  # value / 257, rounded


class UnreadableImage(UnreadableFile):
    """Why one image cannot be used, as a plain sentence. It is skipped and listed, and the run goes on."""


def decode(data: bytes) -> Decoded:
    """The pixels of one image file, upright (EXIF), and what was converted for that.

    16 bits become 8: of grey images rounded, of colour the low byte goes (Pillow knows no deeper colour). CMYK becomes RGB
    without a colour profile. `UnreadableImage` for damaged files, animations, floats and more than 50 megapixels.
    """
    _load_pillow()
    from PIL import Image, UnidentifiedImageError

    # What Pillow warns of is refused here, or does no harm. Each time, as whoever catches warnings puts the filters back.
    warnings.filterwarnings("ignore", module=r"PIL\.")

    if not data:
        raise UnreadableImage("it is empty (0 bytes)")
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            _check_header(image)
            if image.format == "PNG":  # its checksums are read only when asked for, and the file is used up by that
                image.verify()
                image = Image.open(io.BytesIO(data), formats=FORMATS)
            return _upright_pixels(image)
    except UnreadableImage:
        raise
    except UnidentifiedImageError as error:
        known = ", ".join(FORMATS)
        raise UnreadableImage(f"its content is no image that is read ({known}), or is damaged from the start") from error
    except Image.DecompressionBombError as error:  # from twice Pillow's own limit on, before the header is ours
        found = re.search(r"\d+", str(error))
        raise UnreadableImage(_too_large(int(found[0]) if found else 2 * PIXELS)) from error
    except Exception as error:  # the readers of damaged files raise whatever they meet
        text = str(error).partition("\n")[0] or type(error).__name__
        raise UnreadableImage(f"it is damaged: {text:.120}") from error


def fitted(pixels: Pixels, notes: list[str], card: inputs.Image | None) -> Decoded:
    """A decoded image with the channels of a card's `inputs.image`, where that loses nothing.

    `UnreadableImage` for another size, colours where the card wants grey, and transparency where it wants none.
    """
    if card is None:
        return pixels, notes
    height, width, channels = pixels.shape
    if card.size is not None and (height, width) != tuple(card.size):
        wanted = "×".join(map(str, card.size))
        raise UnreadableImage(f"it has {height}×{width} pixels (height×width), the card's inputs.image.size is {wanted}")
    if card.channels is None or card.channels == channels:
        return pixels, notes
    wanted = f"the card's inputs.image.channels is {card.channels}"
    if channels == 4:
        if (pixels[..., 3] != 255).any():
            raise UnreadableImage(f"parts of it are transparent, {wanted}; save it without transparency")
        pixels, notes = pixels[..., :3], [*notes, "opaque alpha dropped"]
    if channels == 1:
        return np.repeat(pixels, 3, axis=2), [*notes, "grey to RGB"]
    if card.channels == 1:
        if (pixels != pixels[..., :1]).any():
            raise UnreadableImage(f"it has colours, {wanted}; save it as grey")
        pixels, notes = pixels[..., :1], [*notes, "RGB with equal channels to grey"]
    return np.ascontiguousarray(pixels), notes


@cache
def _load_pillow() -> None:
    try:
        from PIL import Image, _imaging
    except ImportError as error:
        raise InputError("image files need Pillow, which is not installed; run pip install 'aitest[image]'") from error
    Image.init()
    logging.getLogger("PIL").setLevel(logging.CRITICAL)  # it logs what it raises, too
    with suppress(OSError, AttributeError):  # libtiff, where it can be reached, tells the terminal of damaged files
        ctypes.CDLL(_imaging.__file__).TIFFSetErrorHandler(None)


def _check_header(image: Image) -> None:
    count = image.width * image.height
    if count > PIXELS:
        raise UnreadableImage(_too_large(count))
    frames = 1 if image.format == "MPO" else getattr(image, "n_frames", 1)  # MPO: a photo and its previews
    if frames > 1:
        kind = f"a file of {frames} pages" if image.format == "TIFF" else f"an animation of {frames} frames"
        raise UnreadableImage(f"it is {kind}; save the one you mean")


def _too_large(pixels: int) -> str:
    return f"its header says {pixels:,} pixels, at most {PIXELS:,} are decoded"


def _upright_pixels(image: Image) -> Decoded:
    from PIL import ImageOps

    notes = []
    deep = any(";16" in str(tile) for tile in getattr(image, "tile", []))  # gone once it is loaded
    if _orientation(image) in range(2, 9):
        notes.append("EXIF orientation applied")
        ImageOps.exif_transpose(image, in_place=True)
    image.load()
    if image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PPM"):
        return _deep_grey(image), [*notes, "16 bit to 8 bit"]
    if deep:
        notes.append("16 bit to 8 bit")
    mode = _plain_mode(image)
    if mode != image.mode:
        notes.append(f"{NAMES.get(image.mode, image.mode)} to {NAMES.get(mode, mode)}")
    pixels = np.asarray(image.convert(mode))
    return pixels.reshape(*pixels.shape[:2], -1), notes


def _orientation(image: Image) -> int:
    """The EXIF orientation, 1 to 8; 1 where there is none, or none that can be read."""
    with suppress(Exception):  # damaged EXIF data does not make the pixels worse
        return int(image.getexif().get(0x0112, 1))
    return 1


def _plain_mode(image: Image) -> str:
    """L, RGB or RGBA: which of Pillow's modes holds the image as it is."""
    if image.mode in REFUSED:
        raise UnreadableImage(REFUSED[image.mode])
    if image.has_transparency_data:
        return "RGBA"
    return "L" if image.mode in ("1", "L") else "RGB"


def _deep_grey(image: Image) -> Pixels:
    """16-bit grey pixels as 8-bit grey, or as RGBA where one grey level is marked as transparent (PNG)."""
    values = np.asarray(image).astype(np.uint16)
    grey = TO_8_BIT[values]
    clear = image.info.get("transparency")
    if clear is None:
        return grey[..., None]
    return np.stack([grey, grey, grey, np.where(values == clear, 0, 255).astype(np.uint8)], axis=2)
