"""Elastic deformation, pixelation and JPEG compression.

Severities are those of ImageNet-C and CIFAR-10-C (Hendrycks, Dietterich 2019, and their code).
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from aitest_lib.device import device
from aitest_lib.parameters import parameter
from aitest_lib.registry import register
from aitest_lib.transforms.image.base import CHUNK_BYTES, Pixels
from aitest_lib.transforms.image.corruption import Corruption, Row, noise_seeds
from aitest_lib.transforms.image.fields import bits, uniform
from aitest_lib.transforms.image.tensors import to_pixels, to_tensor

if TYPE_CHECKING:
    from PIL import Image

CORNERS = 3  # points that say how the image is sheared and turned


@register
@dataclass(frozen=True, kw_only=True)
class Elastic(Corruption):
    """Pixels displaced by smooth noise, `alpha` times uniform noise blurred by `sigma`, after a random affine map.

    The affine map moves three points, a third of the side from the middle, by up to `affine` either way. All three are in units
    of the shorter side: ImageNet-C's numbers are for 244 pixels. Bilinear, mirrored at the borders; alpha channels move, too.
    Severities 1 and 2 of ImageNet-C shake the whole image, 3 to 5 its details: they do not grow from one to the next.
    """

    name: ClassVar[str] = "elastic"
    values: ClassVar[tuple[str, ...]] = ("alpha", "sigma", "affine")
    imagenet_c: ClassVar[tuple[Row, ...]] = (
        (2.0, 0.7, 0.1),
        (2.0, 0.08, 0.2),
        (0.05, 0.01, 0.02),
        (0.07, 0.01, 0.02),
        (0.12, 0.01, 0.02),
    )
    cifar10_c: ClassVar[tuple[Row, ...]] = (
        (0.0, 0.0, 0.08),
        (0.05, 0.2, 0.07),
        (0.08, 0.06, 0.06),
        (0.1, 0.04, 0.05),
        (0.1, 0.03, 0.03),
    )
    bytes_at_once: ClassVar[int] = CHUNK_BYTES
    colours_only: ClassVar[bool] = False
    alpha: float | None = parameter(None, help="displacement; default: the severity's", unit="shorter sides", ge=0, le=10)
    sigma: float | None = parameter(None, help="smoothness; default: the severity's", unit="shorter sides", ge=0, le=2)
    affine: float | None = parameter(None, help="affine map; default: the severity's", unit="shorter sides", ge=0, le=0.3)

    def corrupted(self, images: Pixels, drawn: Sequence[Mapping[str, Any]], values: Mapping[str, Any]) -> Pixels:
        import torch
        from torch.nn.functional import grid_sample

        places = displaced(noise_seeds(drawn), images.shape[1:3], values["alpha"], values["sigma"], values["affine"])
        places = (2 * places + 1) / np.array(images.shape[2:0:-1]) - 1  # as `grid_sample` counts: borders at -1 and 1
        grid = torch.from_numpy(places.astype(np.float32)).to(device())
        return to_pixels(grid_sample(to_tensor(images), grid, "bilinear", "reflection", align_corners=False))


@register
@dataclass(frozen=True, kw_only=True)
class Pixelate(Corruption):
    """Blocks of `block` pixels of one colour each, their mean: scaled down with a box filter and up again.

    ImageNet-C gives the inverse, a factor: 0.6 to 0.25. Alpha is pixelated like the colours.
    """

    name: ClassVar[str] = "pixelate"
    strength: ClassVar[str | None] = "block"
    identity: ClassVar[float | None] = 1.0
    strongest: ClassVar[float | None] = 8.0
    values: ClassVar[tuple[str, ...]] = ("block",)
    imagenet_c: ClassVar[tuple[Row, ...]] = tuple((1 / factor,) for factor in (0.6, 0.5, 0.4, 0.3, 0.25))
    cifar10_c: ClassVar[tuple[Row, ...]] = tuple((1 / factor,) for factor in (0.95, 0.9, 0.85, 0.75, 0.65))
    bytes_at_once: ClassVar[int] = CHUNK_BYTES
    random: ClassVar[bool] = False
    colours_only: ClassVar[bool] = False
    block: float | None = parameter(None, help="side of a block", unit="pixels", ge=1, le=1024)

    def corrupted(self, images: Pixels, drawn: Sequence[Mapping[str, Any]], values: Mapping[str, Any]) -> Pixels:
        if images.shape[-1] == 4:  # apart: Pillow would weigh the colours by their alpha
            return np.concatenate([self.corrupted(part, drawn, values) for part in (images[..., :3], images[..., 3:])], -1)
        made = np.empty_like(images)
        for place, image in enumerate(images):
            made[place] = pixelated(image, values["block"])
        return made


@register
@dataclass(frozen=True, kw_only=True)
class Jpeg(Corruption):
    """JPEG of a `quality`, 100 the best, as Pillow writes it (colours at half the resolution); alpha stays as it is."""

    name: ClassVar[str] = "jpeg"
    strength: ClassVar[str | None] = "quality"
    values: ClassVar[tuple[str, ...]] = ("quality",)
    imagenet_c: ClassVar[tuple[Row, ...]] = ((25,), (18,), (15,), (10,), (7,))
    cifar10_c: ClassVar[tuple[Row, ...]] = ((80,), (65,), (58,), (50,), (40,))
    bytes_at_once: ClassVar[int] = CHUNK_BYTES
    random: ClassVar[bool] = False
    quality: int | None = parameter(None, help="quality: the lower, the stronger", unit="1", ge=1, le=100)

    def corrupted(self, images: Pixels, drawn: Sequence[Mapping[str, Any]], values: Mapping[str, Any]) -> Pixels:
        made = np.empty_like(images)
        for place, image in enumerate(images):
            made[place] = compressed(image, values["quality"])
        return made


def displaced(seeds: Sequence[int], shape: Sequence[int], alpha: float, sigma: float, affine: float) -> NDArray[np.float64]:
    """Where each pixel of n images takes its colours from, as (x, y) in pixels: (n, height, width, 2)."""
    height, width = shape
    side = min(shape)
    random = uniform(bits(seeds, (2 * CORNERS + 2 * height * width,))).astype(np.float64)
    corners = random[:, : 2 * CORNERS].reshape(-1, CORNERS, 2) * (affine * side)
    shifts = random[:, 2 * CORNERS :].reshape(-1, 2, height, width)
    shifts = smoothed(shifts, sigma * side) * (alpha * side)
    third = max(side // 3, 1)
    points = np.array([[third, third], [third, -third], [-third, -third]], float)
    # The affine map that takes the moved points back to where they were.
    moved = np.concatenate([points + corners, np.ones((len(corners), CORNERS, 1))], -1)
    back = np.linalg.solve(moved, np.broadcast_to(points, corners.shape))
    middle = (width - 1) / 2, (height - 1) / 2
    x = np.arange(width) - middle[0] + shifts[:, 0]
    y = np.arange(height)[:, None] - middle[1] + shifts[:, 1]
    ways = back.transpose(2, 1, 0)[..., None, None]
    found = [a * x + b * y + c + centre for (a, b, c), centre in zip(ways, middle, strict=True)]
    return np.stack(found, -1)


def smoothed(fields: NDArray[np.float64], sigma: float) -> NDArray[np.float64]:
    """Fields (..., height, width) blurred by a Gaussian of `sigma` pixels, mirrored at the borders (by cosine series)."""
    from scipy.fft import dctn, idctn

    down, along = (np.exp(-0.5 * (np.pi * sigma / size * np.arange(size)) ** 2) for size in fields.shape[-2:])
    result: NDArray[np.float64] = idctn(dctn(fields, axes=(-2, -1)) * down[:, None] * along, axes=(-2, -1))
    return result


def pixelated(image: Pixels, block: float) -> Pixels:
    """An image (height, width, 1 or 3) in blocks."""
    from PIL import Image

    height, width = image.shape[:2]
    small = [max(1, math.floor(size / block + 1e-9)) for size in (width, height)]
    blocks = picture(image).resize((small[0], small[1]), Image.Resampling.BOX)
    return pixels(blocks.resize((width, height), Image.Resampling.NEAREST), image.shape)


def compressed(image: Pixels, quality: int) -> Pixels:
    """An image (height, width, 1 or 3) after JPEG."""
    from PIL import Image

    file = io.BytesIO()
    before = picture(image)
    before.save(file, "JPEG", quality=quality)
    # The decoder at once: to open a file whose kind and size are known takes longer than to decode a small one.
    return pixels(Image.frombytes(before.mode, before.size, file.getvalue(), "jpeg", before.mode, ""), image.shape)


def picture(image: Pixels) -> Image.Image:
    """An image (height, width, 1 or 3) for Pillow."""
    from PIL import Image

    return Image.frombytes("L" if image.shape[2] == 1 else "RGB", (image.shape[1], image.shape[0]), image.tobytes())


def pixels(image: Image.Image, shape: Sequence[int]) -> Pixels:
    """An image of Pillow's as an array of a shape."""
    return np.frombuffer(image.tobytes(), np.uint8).reshape(shape)
