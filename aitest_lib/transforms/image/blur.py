"""Gaussian, defocus, motion, zoom and glass blur. Borders are repeated outwards; an alpha channel is blurred like the colours.

Severities are those of ImageNet-C and CIFAR-10-C (Hendrycks, Dietterich 2019, and their code).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from aitest_lib.parameters import parameter
from aitest_lib.registry import register
from aitest_lib.transforms.image.base import CHUNK_BYTES, Pixels
from aitest_lib.transforms.image.corruption import Corruption, Row, noise_seeds
from aitest_lib.transforms.image.fields import bits
from aitest_lib.transforms.image.smoothing import defocused, gaussian_blurred, magnified, smeared
from aitest_lib.transforms.image.tensors import to_pixels, to_tensor


@dataclass(frozen=True, kw_only=True)
class Blur(Corruption):
    """A blur in which nothing is random."""

    colours_only: ClassVar[bool] = False
    random: ClassVar[bool] = False
    identity: ClassVar[float | None] = 0.0


@register
@dataclass(frozen=True, kw_only=True)
class GaussianBlur(Blur):
    """Convolution with a Gaussian of standard deviation `sigma`, cut off at 4 sigma, as in scikit-image."""

    name: ClassVar[str] = "gaussian_blur"
    strength: ClassVar[str | None] = "sigma"
    strongest: ClassVar[float | None] = 12.0
    values: ClassVar[tuple[str, ...]] = ("sigma",)
    imagenet_c: ClassVar[tuple[Row, ...]] = ((1.0,), (2.0,), (3.0,), (4.0,), (6.0,))
    cifar10_c: ClassVar[tuple[Row, ...]] = ((0.4,), (0.6,), (0.7,), (0.8,), (1.0,))
    bytes_at_once: ClassVar[int] = CHUNK_BYTES
    sigma: float | None = parameter(None, help="standard deviation", unit="pixels", ge=0, le=256)

    def corrupted(self, images: Pixels, drawn: Sequence[Mapping[str, Any]], values: Mapping[str, Any]) -> Pixels:
        return gaussian_blurred(images, values["sigma"])


@register
@dataclass(frozen=True, kw_only=True)
class DefocusBlur(Blur):
    """Convolution with a disk of `radius`, its edge softened by a Gaussian of `alias_blur` (3 x 3, beyond radius 8 5 x 5)."""

    name: ClassVar[str] = "defocus_blur"
    strength: ClassVar[str | None] = "radius"
    strongest: ClassVar[float | None] = 20.0
    values: ClassVar[tuple[str, ...]] = ("radius", "alias_blur")
    imagenet_c: ClassVar[tuple[Row, ...]] = ((3.0, 0.1), (4.0, 0.5), (6.0, 0.5), (8.0, 0.5), (10.0, 0.5))
    cifar10_c: ClassVar[tuple[Row, ...]] = ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1.0, 0.2), (1.5, 0.1))
    radius: float | None = parameter(None, help="radius of the disk; 0 changes nothing", unit="pixels", ge=0, le=128)
    alias_blur: float | None = parameter(
        None, help="softness of the disk's edge; default: that of severity 3", unit="pixels", ge=0, le=2
    )

    def corrupted(self, images: Pixels, drawn: Sequence[Mapping[str, Any]], values: Mapping[str, Any]) -> Pixels:
        return defocused(images, values["radius"], values["alias_blur"])


@register
@dataclass(frozen=True, kw_only=True)
class MotionBlur(Corruption):
    """The mean along a line of `length` pixels at a random angle of -45 to 45 degrees, weights falling as a half Gaussian.

    The weight of the pixel i steps back is exp(-i^2 / 2 sigma^2), i from 0 to length; its place is rounded to whole pixels.
    `spread` is sigma as a share of the length. ImageNet-C gives sigma and a radius, half the length; its angles are not whole
    degrees.
    """

    name: ClassVar[str] = "motion_blur"
    strength: ClassVar[str | None] = "length"
    identity: ClassVar[float | None] = 0.0
    strongest: ClassVar[float | None] = 80.0
    values: ClassVar[tuple[str, ...]] = ("length", "spread")
    imagenet_c: ClassVar[tuple[Row, ...]] = ((20.0, 3 / 20), (30.0, 5 / 30), (30.0, 8 / 30), (30.0, 12 / 30), (40.0, 15 / 40))
    cifar10_c: ClassVar[tuple[Row, ...]] = ((12.0, 1 / 12), (12.0, 1.5 / 12), (12.0, 2 / 12), (16.0, 2 / 16), (18.0, 2.5 / 18))
    bytes_at_once: ClassVar[int] = CHUNK_BYTES
    colours_only: ClassVar[bool] = False
    length: float | None = parameter(None, help="length of the line", unit="pixels", ge=0, le=512)
    spread: float | None = parameter(
        None, help="how slowly the weights fall; default: that of severity 3", unit="of the length", gt=0, le=10
    )

    def draw_randomness(self, rng: np.random.Generator) -> dict[str, Any]:
        return {"angle": int(rng.integers(-45, 46))}

    def corrupted(self, images: Pixels, drawn: Sequence[Mapping[str, Any]], values: Mapping[str, Any]) -> Pixels:
        return smeared(images, [one["angle"] for one in drawn], values["length"], values["spread"] * values["length"])


@register
@dataclass(frozen=True, kw_only=True)
class ZoomBlur(Blur):
    """The mean of the image and of itself magnified 1 to `zoom` times about its middle, in steps of at most `step`.

    The image counts twice, by itself and at factor 1, as in ImageNet-C. Bilinear.
    """

    name: ClassVar[str] = "zoom_blur"
    strength: ClassVar[str | None] = "zoom"
    identity: ClassVar[float | None] = 1.0
    strongest: ClassVar[float | None] = 1.6
    values: ClassVar[tuple[str, ...]] = ("zoom", "step")
    imagenet_c: ClassVar[tuple[Row, ...]] = ((1.10, 0.01), (1.15, 0.01), (1.20, 0.02), (1.24, 0.02), (1.30, 0.03))
    cifar10_c: ClassVar[tuple[Row, ...]] = ((1.05, 0.01), (1.10, 0.01), (1.15, 0.01), (1.20, 0.01), (1.25, 0.01))
    zoom: float | None = parameter(None, help="largest factor", unit="1", ge=1, le=4)
    step: float | None = parameter(None, help="from factor to factor; default: that of severity 3", unit="1", ge=0.005, le=1)

    def corrupted(self, images: Pixels, drawn: Sequence[Mapping[str, Any]], values: Mapping[str, Any]) -> Pixels:
        image = to_tensor(images)
        count = max(1, math.ceil((values["zoom"] - 1) / values["step"] - 1e-6))
        total = image * 2
        for place in range(1, count + 1):
            total += magnified(image, 1 + (values["zoom"] - 1) * place / count)
        return to_pixels(total.mul_(1 / (count + 2)))


@register
@dataclass(frozen=True, kw_only=True)
class GlassBlur(Corruption):
    """Frosted glass: a Gaussian blur of `sigma`, pixels swapped with random neighbours `iterations` times, the blur again.

    A neighbour is -max_delta to max_delta - 1 rows and columns away, as in ImageNet-C; pixels whose neighbourhoods do not
    meet are swapped together, where ImageNet-C goes through them one by one.
    """

    name: ClassVar[str] = "glass_blur"
    values: ClassVar[tuple[str, ...]] = ("sigma", "max_delta", "iterations")
    imagenet_c: ClassVar[tuple[Row, ...]] = ((0.7, 1, 2), (0.9, 2, 1), (1.0, 2, 3), (1.1, 3, 2), (1.5, 4, 2))
    cifar10_c: ClassVar[tuple[Row, ...]] = ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2))
    bytes_at_once: ClassVar[int] = CHUNK_BYTES
    colours_only: ClassVar[bool] = False
    sigma: float | None = parameter(
        None, help="standard deviation of the blur; default: the severity's", unit="pixels", ge=0, le=64
    )
    max_delta: int | None = parameter(
        None, help="how far pixels are swapped; default: the severity's", unit="pixels", ge=1, le=16
    )
    iterations: int | None = parameter(None, help="how often; default: the severity's", unit="1", ge=1, le=10)

    def corrupted(self, images: Pixels, drawn: Sequence[Mapping[str, Any]], values: Mapping[str, Any]) -> Pixels:
        n, height, width, channels = images.shape
        places = swapped_places(noise_seeds(drawn), height, width, values["max_delta"], values["iterations"])
        blurred = gaussian_blurred(images, values["sigma"]).reshape(n, -1, channels)
        scattered = np.take_along_axis(blurred, places[:, :, None], 1).reshape(images.shape)
        return gaussian_blurred(scattered, values["sigma"])


def swapped_places(seeds: Sequence[int], height: int, width: int, max_delta: int, iterations: int) -> NDArray[np.int64]:
    """For each pixel of n images the place that its colours come from (n, height * width), row by row.

    Every pixel at least `max_delta` from the border is swapped once in an iteration, in (2 max_delta)^2 rounds.
    """
    places = np.tile(np.arange(height * width), (len(seeds), 1))
    rows, columns = (np.arange(max_delta, size - max_delta + 1) for size in (height, width))
    step = 2 * max_delta
    drawn = bits(seeds, (iterations, len(rows), len(columns)))
    for turn, top, left in np.ndindex(iterations, step, step):
        here = (rows[top::step, None] * width + columns[left::step]).ravel()
        random = drawn[:, turn, top::step, left::step].reshape(len(seeds), -1).astype(np.int64)
        down, right = ((random & 255) * step >> 8) - max_delta, ((random >> 8) * step >> 8) - max_delta
        there = here + down * width + right
        colours = places[:, here]
        places[:, here] = np.take_along_axis(places, there, 1)
        np.put_along_axis(places, there, colours, 1)
    return places
