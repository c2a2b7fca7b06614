"""Square Attack: random search with squares that shrink."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import count
from typing import ClassVar

import numpy as np

from aitest_lib.parameters import parameter
from aitest_lib.registry import register
from aitest_lib.searches.image.base import ImageSearch, Moves, Noise, Seed, Try
from aitest_lib.searches.image.tiles import random_signs

HORIZON = 10_000  # queries that the published schedule is written for
HALVINGS = (10, 50, 200, 500, 1_000, 2_000, 4_000, 6_000, 8_000)  # after so many of them a square has half the area


@register
@dataclass(frozen=True, kw_only=True)
class Square(ImageSearch):
    """Squares of the noise go all the way up or down by chance, ever smaller ones; what lowers the margin is kept.

    Andriushchenko, Croce, Flammarion & Hein, Square Attack: a query-efficient black-box adversarial attack via random search,
    ECCV 2020, algorithms 1 and 2, with the schedule of its sizes scaled to `queries`.
    """

    name: ClassVar[str] = "square"
    version: ClassVar[int] = 1
    needs_scores: ClassVar[bool] = True
    area: float = parameter(0.8, help="share of the image that the first squares cover", gt=0, le=1)

    def moves(self, seed: Seed, rng: np.random.Generator) -> Moves:
        """Vertical stripes first, then square after square."""
        height, width, channels = seed.image.shape
        stripes = random_signs(rng, (1, width, channels))
        best = noise = np.repeat(stripes, height, axis=0) * np.int16(seed.radius)
        margin = np.inf
        for step in count():
            reply = yield Try(noise)
            if reply.margin < margin:
                best, margin = noise, reply.margin
            noise = _with_square(best, square_side(seed.image.shape, self.area, step / self.queries), seed.radius, rng)


def square_side(shape: tuple[int, ...], area: float, progress: float) -> int:
    """Side in pixels of the squares when a share `progress` (0..1) of the queries is spent: shorter than the image's shorter
    side, but a pixel at least."""
    halvings = sum(progress * HORIZON > step for step in HALVINGS)
    side = round(math.sqrt(area / 2**halvings * shape[0] * shape[1]))
    return max(1, min(side, shape[0] - 1, shape[1] - 1))


def _with_square(noise: Noise, side: int, radius: int, rng: np.random.Generator) -> Noise:
    """The noise with a square of one sign in each channel, somewhere; one that would change nothing is drawn again."""
    while True:
        top, left = (int(rng.integers(0, length - side + 1)) for length in noise.shape[:2])
        changed = noise.copy()
        changed[top : top + side, left : left + side] = random_signs(rng, noise.shape[2:]) * np.int16(radius)
        if not np.array_equal(changed, noise):
            return changed
