"""What every transform of images is: parameters drawn first, then applied to uint8 pixels, image by image the same.

Severities 1 to 5 are those of ImageNet-C for images of 96 pixels and more, and of CIFAR-10-C below (Hendrycks, Dietterich
2019, "Benchmarking Neural Network Robustness to Common Corruptions and Perturbations").
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from aitest_lib.errors import InputError
from aitest_lib.parameters import parameter
from aitest_lib.transforms.base import RngFor, Transform

Shape = tuple[int, int, int]  # height, width, channels (1 grey, 3 RGB, 4 RGB and alpha)
Pixels = NDArray[np.uint8]  # (n, height, width, channels)
LARGE = 96  # pixels of the shorter side from which on the constants of ImageNet-C hold
DEFAULT_SEVERITY = 3
CHUNK_BYTES = 4 << 20  # of float32 pixels in work at once: what stays in the caches matters more than the number of images


@dataclass(frozen=True)
class ImageDraw:
    """What was drawn for n seeds: parameters (JSON, all that `apply` needs), and why a seed has no case (None: it has)."""

    params: list[dict[str, Any]]
    not_applicable: list[str | None]


@dataclass(frozen=True, kw_only=True)
class ImageTransform(Transform):
    """A transform of images, by `severity` or by its own parameter (`strength`) with a unit; neither: severity 3.

    `identity`: the value of the strength that changes nothing; `strongest`: where a search for the breaking point ends
    unless it is told. Both None where there is no single strength.
    """

    modality: ClassVar[str] = "image"
    identity: ClassVar[float | None] = None
    strongest: ClassVar[float | None] = None
    severity: int | None = parameter(None, help="1 to 5, with the published constants", ge=1, le=5)

    def __post_init__(self) -> None:
        explicit = self.strength is not None and getattr(self, self.strength) is not None
        if explicit and self.severity is not None:
            raise InputError(f"got severity and {self.strength}, expected one of them; leave one out")
        if not explicit and self.severity is None:
            object.__setattr__(self, "severity", DEFAULT_SEVERITY)

    @property
    def strength_value(self) -> float | None:
        """The strength that is given, else the severity."""
        own = None if self.strength is None else getattr(self, self.strength)
        return float(self.severity or 0) if own is None else float(own)

    def draw(self, seed_ids: Sequence[str], shape: Shape, rng_for: RngFor) -> ImageDraw:
        """Draws for images of one shape, each from its own generator. The strength plays no part in what is random, so that
        along a sweep the same draw is scaled."""
        reason = self.misfit(shape)
        params = [self.draw_one(shape, rng_for(seed_id)) for seed_id in seed_ids]
        return ImageDraw(params, [reason] * len(seed_ids))

    def misfit(self, shape: Shape) -> str | None:
        """Why images of a shape have no case, None where they have."""
        return None

    @abstractmethod
    def draw_one(self, shape: Shape, rng: np.random.Generator) -> dict[str, Any]:
        """The parameters of one image: its resolved strength and what is random, as JSON data."""

    @abstractmethod
    def apply(self, images: Pixels, params: Sequence[dict[str, Any]]) -> Pixels:
        """The transformed images (n, height, width, channels), uint8. Pure: equals one by one for every split of the batch.

        An alpha channel stays as it is in transforms of colour, and moves with the others in those of geometry.
        """


def is_large(shape: Shape) -> bool:
    """Do the constants of ImageNet-C hold for images of this shape, or those of CIFAR-10-C."""
    return min(shape[:2]) >= LARGE


def chunks(images: Pixels) -> Iterator[slice]:
    """The places of images in pieces of a few megabytes of floats, at least one image each."""
    size = max(1, CHUNK_BYTES // max(4 * images[0].size, 1)) if len(images) else 1
    return (slice(start, min(start + size, len(images))) for start in range(0, len(images), size))
