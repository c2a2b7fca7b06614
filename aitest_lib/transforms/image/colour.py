"""Inverse, saturation, brightness and contrast; pixels counted from 0 to 1, results clipped to it, alpha as it was.

Definitions and severities are those of ImageNet-C, of CIFAR-10-C for images below 96 pixels (Hendrycks, Dietterich 2019,
"Benchmarking Neural Network Robustness to Common Corruptions and Perturbations").
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from aitest_lib.errors import InputError
from aitest_lib.parameters import parameter
from aitest_lib.registry import register
from aitest_lib.transforms.image.base import Pixels, Shape
from aitest_lib.transforms.image.settled import SettledTransform
from aitest_lib.transforms.image.tensors import LEVELS, split_alpha, to_pixels, to_tensor

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, kw_only=True)
class ColourTransform(SettledTransform):
    """A transform of the colours of each pixel."""

    def changed(self, images: Pixels, params: dict[str, Any]) -> Pixels:
        colours, alpha = split_alpha(images)
        made = to_pixels(self.coloured(to_tensor(colours), params))
        return made if alpha is None else np.concatenate([made, alpha], axis=-1)

    @abstractmethod
    def coloured(self, colours: torch.Tensor, params: dict[str, Any]) -> torch.Tensor:
        """Colours (n, 1 or 3, height, width), 0 to 1, transformed; they need not stay within 0 to 1."""


@register
@dataclass(frozen=True, kw_only=True)
class Inverse(SettledTransform):
    """The negative: every colour c becomes 1 - c. It has no strength, and no severity."""

    name: ClassVar[str] = "inverse"

    def __post_init__(self) -> None:
        if self.severity is not None:
            raise InputError(f"got severity {self.severity}, expected none: an inverse has no strength; leave severity out")

    @property
    def strength_value(self) -> float | None:
        return None

    def settled(self, shape: Shape) -> dict[str, Any]:
        return {}

    def changed(self, images: Pixels, params: dict[str, Any]) -> Pixels:
        made = ~images
        if images.shape[-1] == 4:
            made[..., 3] = images[..., 3]
        return made


@register
@dataclass(frozen=True, kw_only=True)
class Saturation(ColourTransform):
    """The saturation S of HSV becomes S * factor, hue and value as they were.

    Severities are S * factor + offset. A pixel without a hue (S = 0) stays as it is, where ImageNet-C makes it reddish.
    """

    name: ClassVar[str] = "saturation"
    strength: ClassVar[str | None] = "factor"
    identity: ClassVar[float | None] = 1.0
    strongest: ClassVar[float | None] = 0.0
    severities: ClassVar[tuple[float, ...]] = (0.3, 0.1, 2, 5, 20)
    offsets: ClassVar[tuple[float, ...]] = (0, 0, 0, 0.1, 0.2)
    small_severities: ClassVar[tuple[float, ...] | None] = (0.3, 0.1, 1.5, 2, 2.5)
    factor: float | None = parameter(None, help="of the saturation; 0 is grey, 1 changes nothing", ge=0, le=100)

    def misfit(self, shape: Shape) -> str | None:
        return "a grey image has no saturation" if shape[2] == 1 else None

    def settled(self, shape: Shape) -> dict[str, Any]:
        offset = 0.0 if self.severity is None else float(self.offsets[self.severity - 1])
        return {**super().settled(shape), "offset": offset}

    def coloured(self, colours: torch.Tensor, params: dict[str, Any]) -> torch.Tensor:
        # A colour is V (1 - S f), where f depends on the hue alone: the distance from V grows as S does, S = (V - min) / V.
        value = colours.amax(1, keepdim=True)
        inverse = value / (value - colours.amin(1, keepdim=True)).clamp_(min=1 / LEVELS)  # 1 / S; S is 1 at most
        ratio = (inverse * params["offset"]).add_(params["factor"]).minimum(inverse)
        return value - (value - colours).mul_(ratio)


@register
@dataclass(frozen=True, kw_only=True)
class Brightness(ColourTransform):
    """The value V of HSV rises by delta, hue and saturation as they were; every pixel of a grey image rises by it."""

    name: ClassVar[str] = "brightness"
    strength: ClassVar[str | None] = "delta"
    identity: ClassVar[float | None] = 0.0
    strongest: ClassVar[float | None] = 0.8
    severities: ClassVar[tuple[float, ...]] = (0.1, 0.2, 0.3, 0.4, 0.5)
    small_severities: ClassVar[tuple[float, ...] | None] = (0.05, 0.1, 0.15, 0.2, 0.3)
    delta: float | None = parameter(None, help="added to the brightness", unit="of the range from black to white", ge=-1, le=1)

    def coloured(self, colours: torch.Tensor, params: dict[str, Any]) -> torch.Tensor:
        if colours.shape[1] == 1:
            return colours.add_(params["delta"])
        value = colours.amax(1, keepdim=True)
        brighter = (value + params["delta"]).clamp_(0, 1)
        # Black has no hue and becomes grey; elsewhere all three colours grow as V does.
        return colours.mul_(brighter / value.clamp(min=1 / LEVELS)).add_(brighter.mul_(value == 0))


@register
@dataclass(frozen=True, kw_only=True)
class Contrast(ColourTransform):
    """The distance of every colour from the mean of its channel is multiplied by factor."""

    name: ClassVar[str] = "contrast"
    strength: ClassVar[str | None] = "factor"
    identity: ClassVar[float | None] = 1.0
    strongest: ClassVar[float | None] = 0.0
    severities: ClassVar[tuple[float, ...]] = (0.4, 0.3, 0.2, 0.1, 0.05)
    small_severities: ClassVar[tuple[float, ...] | None] = (0.75, 0.5, 0.4, 0.3, 0.15)
    factor: float | None = parameter(
        None, help="of the distance from the mean; 0 is one colour, 1 changes nothing", ge=0, le=20
    )

    def coloured(self, colours: torch.Tensor, params: dict[str, Any]) -> torch.Tensor:
        # Sums of whole numbers are exact, in whatever order they are taken: an image has one mean in every batch.
        rows = (colours * LEVELS).round_().sum(3, keepdim=True).double()
        mean = rows.mean(2, keepdim=True) / (LEVELS * colours.shape[3])
        return colours.mul_(params["factor"]).add_((mean * (1 - params["factor"])).float())
