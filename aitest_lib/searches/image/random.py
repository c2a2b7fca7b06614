"""Random tiles: what any search has to beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from aitest_lib.parameters import parameter
from aitest_lib.registry import register
from aitest_lib.searches.image.base import ImageSearch, Moves, Seed, Try
from aitest_lib.searches.image.tiles import enlarged, random_signs, tile_grid


@register
@dataclass(frozen=True, kw_only=True)
class RandomTiles(ImageSearch):
    """Independent corners of the ball: every tile of a coarse grid goes all the way up or all the way down, by chance."""

    name: ClassVar[str] = "random"
    version: ClassVar[int] = 1
    tiles: int = parameter(7, help="tiles along the longer side of the image", ge=1)

    def moves(self, seed: Seed, rng: np.random.Generator) -> Moves:
        """Corner after corner, whatever the replies."""
        grid = tile_grid(seed.image.shape, self.tiles)
        while True:
            signs = random_signs(rng, (*grid, seed.image.shape[2]))
            yield Try(enlarged(signs * np.int16(seed.radius), seed.image.shape))
