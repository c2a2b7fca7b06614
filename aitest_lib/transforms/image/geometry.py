"""Scale, rotate, shear and translate: affine maps about the middle of the image, resampled once.

Positions are pixel centres, x to the right and y down, from the middle of the image, ((width - 1) / 2, (height - 1) / 2).
A map says where each point goes; the new image is read back through its inverse with bilinear interpolation, and everything
outside the image is 0 (black; transparent where there is an alpha channel, which moves with the colours). The strengths of
the severities are aitest's own: ImageNet-C has no such corruptions.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from aitest_lib.parameters import parameter
from aitest_lib.registry import register
from aitest_lib.transforms.image.base import Pixels, Shape
from aitest_lib.transforms.image.settled import SettledTransform
from aitest_lib.transforms.image.tensors import to_pixels, to_tensor

Matrix = NDArray[np.float64]  # (3, 3)


@dataclass(frozen=True, kw_only=True)
class AffineTransform(SettledTransform):
    """A transform that moves every point by a matrix; neighbours in a chain are multiplied and resampled once."""

    @abstractmethod
    def matrix(self, params: dict[str, Any], shape: Shape) -> Matrix:
        """Where points (x, y, 1), measured from the middle of the image in pixels, go: (3, 3)."""

    def changed(self, images: Pixels, params: dict[str, Any]) -> Pixels:
        height, width, channels = images.shape[1:]
        return warped(images, self.matrix(params, (height, width, channels)))


@register
@dataclass(frozen=True, kw_only=True)
class Scale(AffineTransform):
    """The image grows (factor above 1) or shrinks (below 1) about its middle."""

    name: ClassVar[str] = "scale"
    strength: ClassVar[str | None] = "factor"
    identity: ClassVar[float | None] = 1.0
    strongest: ClassVar[float | None] = 0.3
    severities: ClassVar[tuple[float, ...]] = (0.9, 0.8, 0.7, 0.6, 0.5)
    factor: float | None = parameter(
        None, help="size of the new content over that of the old; 1 changes nothing", ge=0.05, le=20
    )

    def matrix(self, params: dict[str, Any], shape: Shape) -> Matrix:
        return np.diag([params["factor"], params["factor"], 1.0])


@register
@dataclass(frozen=True, kw_only=True)
class Rotate(AffineTransform):
    """The image turns counter-clockwise about its middle, clockwise where the angle is negative."""

    name: ClassVar[str] = "rotate"
    strength: ClassVar[str | None] = "degrees"
    identity: ClassVar[float | None] = 0.0
    strongest: ClassVar[float | None] = 60.0
    severities: ClassVar[tuple[float, ...]] = (5.0, 10.0, 15.0, 20.0, 30.0)
    degrees: float | None = parameter(None, help="angle, counter-clockwise", unit="degrees", ge=-180, le=180)

    def matrix(self, params: dict[str, Any], shape: Shape) -> Matrix:
        angle = math.radians(params["degrees"])
        return np.array([[math.cos(angle), math.sin(angle), 0], [-math.sin(angle), math.cos(angle), 0], [0, 0, 1]])


@register
@dataclass(frozen=True, kw_only=True)
class Shear(AffineTransform):
    """Rows slide to the right the further they are below the middle, and to the left above it."""

    name: ClassVar[str] = "shear"
    strength: ClassVar[str | None] = "shear"
    identity: ClassVar[float | None] = 0.0
    strongest: ClassVar[float | None] = 1.0
    severities: ClassVar[tuple[float, ...]] = (0.1, 0.2, 0.3, 0.4, 0.5)
    shear: float | None = parameter(None, help="tangent of the angle by which upright lines lean", ge=-5, le=5)

    def matrix(self, params: dict[str, Any], shape: Shape) -> Matrix:
        return np.array([[1, params["shear"], 0], [0, 1, 0], [0, 0, 1]])


@register
@dataclass(frozen=True, kw_only=True)
class Translate(AffineTransform):
    """The image moves to the right and down, to the left and up where the fraction is negative."""

    name: ClassVar[str] = "translate"
    strength: ClassVar[str | None] = "fraction"
    identity: ClassVar[float | None] = 0.0
    strongest: ClassVar[float | None] = 0.5
    severities: ClassVar[tuple[float, ...]] = (0.05, 0.1, 0.15, 0.2, 0.25)
    fraction: float | None = parameter(None, help="move along each side", unit="of the side", ge=-1, le=1)

    def matrix(self, params: dict[str, Any], shape: Shape) -> Matrix:
        height, width, _ = shape
        return np.array([[1, 0, params["fraction"] * width], [0, 1, params["fraction"] * height], [0, 0, 1]])


def warped(images: Pixels, matrix: Matrix) -> Pixels:
    """Images (n, height, width, channels) whose points have moved by `matrix`, see `AffineTransform.matrix`.

    One grid serves all of them. Rounded to the nearest level, halves to even.
    """
    import torch
    from torch.nn.functional import affine_grid, grid_sample

    height, width = images.shape[1:3]
    # torch counts from -1 at the left edge of the first pixel to 1 at the right edge of the last, and wants the way back.
    half = np.diag([width / 2, height / 2, 1.0])
    back = np.linalg.inv(half) @ np.linalg.inv(matrix) @ half
    pixels = to_tensor(images)
    theta = torch.from_numpy(back[:2]).to(pixels)
    grid = affine_grid(theta[None], [1, 1, height, width], align_corners=False).expand(len(images), -1, -1, -1)
    return to_pixels(grid_sample(pixels, grid, mode="bilinear", padding_mode="zeros", align_corners=False))
