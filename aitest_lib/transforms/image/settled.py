"""Transforms of images in which nothing is random: a number, given or that of a severity, says all."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from aitest_lib.transforms.base import RngFor
from aitest_lib.transforms.image.base import ImageDraw, ImageTransform, Pixels, Shape, is_large
from aitest_lib.transforms.image.tensors import by_params


@dataclass(frozen=True, kw_only=True)
class SettledTransform(ImageTransform):
    """The strength of each severity stands in `severities`, in `small_severities` for images below 96 pixels."""

    severities: ClassVar[tuple[float, ...]] = ()
    small_severities: ClassVar[tuple[float, ...] | None] = None

    def draw(self, seed_ids: Sequence[str], shape: Shape, rng_for: RngFor) -> ImageDraw:
        """The same parameters for every image; no generator is asked for, which would take longer than the transform."""
        params = self.settled(shape)
        return ImageDraw([dict(params) for _ in seed_ids], [self.misfit(shape)] * len(seed_ids))

    def draw_one(self, shape: Shape, rng: np.random.Generator) -> dict[str, Any]:
        return self.settled(shape)

    def settled(self, shape: Shape) -> dict[str, Any]:
        """The parameters of an image of this shape: the strength as a number, whichever way it was given."""
        name = str(self.strength)
        own = getattr(self, name)
        return {name: float(own if self.severity is None else self.table(shape)[self.severity - 1])}

    def table(self, shape: Shape) -> tuple[float, ...]:
        """The strengths of severities 1 to 5 for images of this shape."""
        return self.severities if self.small_severities is None or is_large(shape) else self.small_severities

    def apply(self, images: Pixels, params: Sequence[dict[str, Any]]) -> Pixels:
        return by_params(images, params, self.changed)

    @abstractmethod
    def changed(self, images: Pixels, params: dict[str, Any]) -> Pixels:
        """A few images (n, height, width, channels) that share their parameters, transformed."""
