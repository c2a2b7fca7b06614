"""The method of choice: patterns that break many models, then what learns from the answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from aitest_lib.registry import register
from aitest_lib.searches.image.base import ImageSearch, Moves, Seed, Try
from aitest_lib.searches.image.bayesian import climb
from aitest_lib.searches.image.canvas import Canvas
from aitest_lib.searches.image.patterns import bank, opening
from aitest_lib.searches.image.rays import RayS


@register
@dataclass(frozen=True, kw_only=True)
class Auto(ImageSearch):
    """Stripes, then Bayesian optimisation from coarse to fine; where only labels are known more stripes, then RayS."""

    name: ClassVar[str] = "auto"
    version: ClassVar[int] = 1

    def moves(self, seed: Seed, rng: np.random.Generator) -> Moves:
        """Patterns first."""
        canvas = Canvas(seed.image, seed.radius)
        if not self.labels_only:
            yield from climb(canvas, opening(canvas.shape), rng)
            return
        for pattern in bank(canvas.shape):
            yield Try(canvas.noise(pattern))
        yield from RayS(delta=self.delta, queries=self.queries, labels_only=True).moves(seed, rng)
