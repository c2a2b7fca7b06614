"""What noise, blur, weather and digital corruptions share: published constants, and a seed for all that is random in pixels."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from aitest_lib.transforms.base import RngFor
from aitest_lib.transforms.image.base import DEFAULT_SEVERITY, ImageDraw, ImageTransform, Pixels, Shape, is_large
from aitest_lib.transforms.image.tensors import groups

NOISE_SEEDS = 1 << 63  # noise seeds are drawn from 0 up to here

CACHED_BYTES = 1 << 20  # of float32 pixels in work at once, at least one image: what the caches hold

Row = tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Corruption(ImageTransform):
    """A corruption of images with the constants of ImageNet-C and CIFAR-10-C for its five severities.

    `values` names what a row of the tables holds, in order. A value that is a parameter too is the user's where given;
    the rest come from the row of the severity (of severity 3 where only the strength is given).
    """

    values: ClassVar[tuple[str, ...]]
    imagenet_c: ClassVar[tuple[Row, ...]]  # for images of 96 pixels and more
    cifar10_c: ClassVar[tuple[Row, ...]]
    bytes_at_once: ClassVar[int] = CACHED_BYTES
    random: ClassVar[bool] = True
    colours_only: ClassVar[bool] = True  # an alpha channel stays as it is

    def draw(self, seed_ids: Sequence[str], shape: Shape, rng_for: RngFor) -> ImageDraw:
        if self.random:
            return super().draw(seed_ids, shape, rng_for)
        settled = self.settled(shape)  # no generator is asked for: that would take longer than the corruption of a small image
        return ImageDraw([dict(settled) for _ in seed_ids], [self.misfit(shape)] * len(seed_ids))

    def draw_one(self, shape: Shape, rng: np.random.Generator) -> dict[str, Any]:
        return {**(self.draw_randomness(rng) if self.random else {}), **self.settled(shape)}

    def draw_randomness(self, rng: np.random.Generator) -> dict[str, Any]:
        """What is random, whatever the strength: by default the seed of the fields that `apply` makes."""
        return {"noise_seed": int(rng.integers(NOISE_SEEDS))}

    def settled(self, shape: Shape) -> dict[str, float]:
        """The explicit values for images of a shape."""
        table = self.imagenet_c if is_large(shape) else self.cifar10_c
        row = table[(self.severity or DEFAULT_SEVERITY) - 1]
        given = [getattr(self, name, None) for name in self.values]
        return {
            name: published if own is None else type(published)(own)
            for name, published, own in zip(self.values, row, given, strict=True)
        }

    def apply(self, images: Pixels, params: Sequence[dict[str, Any]]) -> Pixels:
        result = np.empty_like(images)
        colours = slice(0, 3) if self.colours_only and images.shape[-1] == 4 else slice(None)
        result[..., 3:] = images[..., 3:]
        for values, places in groups([{name: one[name] for name in self.values} for one in params]):
            if self.strength is not None and values[self.strength] == self.identity:
                result[places] = images[places]
                continue
            for part in pieces(images[: len(places)], self.bytes_at_once):
                chosen = part if len(places) == len(images) else places[part]  # slices need no copy
                pixels = np.ascontiguousarray(images[chosen][..., colours])
                result[chosen, ..., colours] = self.corrupted(pixels, [params[place] for place in places[part]], values)
        return result

    @abstractmethod
    def corrupted(self, images: Pixels, drawn: Sequence[Mapping[str, Any]], values: Mapping[str, Any]) -> Pixels:
        """Images (n, height, width, 1, 3 or 4) of the same `values`, corrupted; `drawn` has the randomness of each image."""


def noise_seeds(drawn: Sequence[Mapping[str, Any]]) -> list[int]:
    """The seed of the fields of each image."""
    return [int(one["noise_seed"]) for one in drawn]


def pieces(images: Pixels, bytes_at_once: int) -> Iterator[slice]:
    """The places of images in pieces of so many bytes of float32 pixels, at least one image each."""
    size = max(1, bytes_at_once // (4 * math.prod(images.shape[1:])))
    return (slice(start, min(start + size, len(images))) for start in range(0, len(images), size))
