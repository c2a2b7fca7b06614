"""Images of a case as a page shows them: seed, case and difference side by side, as data URIs of a few kilobytes."""

from __future__ import annotations

from base64 import b64encode
from io import BytesIO
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from aitest_lib.reports.report import Picture

Pixels = NDArray[np.uint8]

EXACT = 64  # px of the longer side up to which a picture is kept pixel by pixel
LONGEST = 160  # px of the longer side of every other picture
QUALITY = 80  # of WebP
MID_GREY = 128
GAINS = (16, 8, 4, 2, 1)  # by which a difference may be amplified
NOISE_GAIN = 10  # by which the noise of an adversarial search is shown, whatever its size
USUAL = 0.9  # share of the changed values that amplifying may not drive to black or white


def case_pictures(seed: Pixels | None, case: Pixels | None, gain: int | None = None) -> list[Picture]:
    """What there is of a seed and its case, uint8 (height, width, 1 | 3 | 4), and their difference where their shapes agree.

    Up to 64 px a side they are PNG, pixel by pixel (a page scales them up without smoothing); larger ones are WebP of at most
    160 px. In the difference mid-grey is no change, lighter is brighter than the seed and darker is darker; small
    differences are amplified by a power of two, which `note` and `alt` say, or by `gain`: then they also say which share of
    the changed values is beyond black or white.
    """
    pictures = []
    if seed is not None:
        pictures.append(_picture("seed", seed, f"Seed image, {_size(seed)}"))
    if case is not None:
        pictures.append(_picture("case", case, f"Image of the case, {_size(case)}"))
    if seed is not None and case is not None and seed.shape == case.shape:
        pictures.append(_difference(seed, case, gain))
    return pictures


def _difference(seed: Pixels, case: Pixels, gain: int | None) -> Picture:
    delta = _opaque(case) - _opaque(seed)
    sizes = np.abs(delta[delta != 0])
    if not len(sizes):
        return _picture("difference", np.full_like(delta, MID_GREY, np.uint8), "Difference to the seed: none", "none")
    largest = int(sizes.max())
    chosen = _fitting_gain(sizes) if gain is None else gain
    wanted = MID_GREY + chosen * delta
    shown = np.clip(wanted, 0, 255).astype(np.uint8)
    notes, said = ([], "not amplified") if chosen == 1 else ([f"×{chosen}"], f"amplified {chosen} times")
    if gain is not None and (beyond := float((wanted != shown).sum() / len(sizes))):
        saturated = "all" if beyond == 1 else "<1 %" if beyond < 0.01 else f"{min(beyond, 0.99):.0%}".replace("%", " %")
        notes.append(f"{saturated} of it saturated")
        said += f", {notes[-1]}"
    alt = f"Difference to the seed, {said}; grey where nothing changed, at most {largest} of 255 levels"
    return _picture("difference", shown, alt, ", ".join(notes))


def _fitting_gain(sizes: NDArray[np.int16]) -> int:
    usual = float(np.quantile(sizes, USUAL))
    return next((gain for gain in GAINS if gain * usual < MID_GREY), 1)


def _opaque(image: Pixels) -> NDArray[np.int16]:
    """The image as int16 (height, width, 1 | 3), a transparent one over mid-grey: what cannot be seen makes no difference."""
    if image.shape[2] != 4:
        return image.astype(np.int16)
    share = image[:, :, 3:] / 255
    return np.rint(share * image[:, :, :3] + (1 - share) * MID_GREY).astype(np.int16)


def _picture(title: Literal["seed", "case", "difference"], pixels: Pixels, alt: str, note: str = "") -> Picture:
    height, width, _ = pixels.shape
    return Picture(title=title, src=_data_uri(pixels), alt=alt, note=note, width=width, height=height)


def _data_uri(pixels: Pixels) -> str:
    from PIL import Image

    image = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    written = BytesIO()
    if max(image.size) <= EXACT:
        image.save(written, "PNG", optimize=True)
        return f"data:image/png;base64,{b64encode(written.getvalue()).decode()}"
    image.thumbnail((LONGEST, LONGEST))
    image.save(written, "WEBP", quality=QUALITY)
    return f"data:image/webp;base64,{b64encode(written.getvalue()).decode()}"


def _size(image: Pixels) -> str:
    return f"{image.shape[1]}×{image.shape[0]} pixels"
