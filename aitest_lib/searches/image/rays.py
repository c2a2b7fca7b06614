"""RayS: the direction in which the nearest other class lies, from labels alone."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from aitest_lib.registry import register
from aitest_lib.searches.image.base import LEVELS, ImageSearch, Moves, Noise, Reply, Seed, Try
from aitest_lib.searches.image.tiles import as_noise, nested_blocks

# Lengths are in sixteenths of a grey level: a direction of a thousand signs comes nearer by less than a level at a time. An
# image shows them by ordered dithering (Bayer 1973): of 16 neighbours as many go a level further.
STEPS = 16
BAYER = np.array([[0, 8, 2, 10], [12, 4, 14, 6], [3, 11, 1, 9], [15, 7, 13, 5]], np.int16)
PRECISION = 4  # a length is known well enough when a 4th of the way that is left to the ball is in doubt
PROGRESS = 16  # a direction is of interest when it saves a 16th of that way


@register
@dataclass(frozen=True, kw_only=True)
class RayS(ImageSearch):
    """Blocks of a direction change their sign, ever smaller ones; a direction in which the class changes sooner is kept.

    Chen & Gu, RayS: a ray searching method for hard-label adversarial attack, KDD 2020, algorithms 1 to 3. Unlike there, a
    length is bisected no finer than what is left to the ball makes worth it, and never below the ball.
    """

    name: ClassVar[str] = "rays"
    version: ClassVar[int] = 1

    def moves(self, seed: Seed, rng: np.random.Generator) -> Moves:
        """All up and all down within the ball, then block after block; nothing is left to chance."""
        signs = np.ones(seed.image.size, np.int16)
        goal = seed.radius * STEPS
        for all_of_them in (signs, -signs):
            yield Try(_noise(all_of_them, goal, seed.image.shape))
        length = (LEVELS + 1) * STEPS
        for progress in (PROGRESS, 0):
            improved = True
            while improved:
                improved = False
                for block in chain([slice(0)], nested_blocks(signs.size)):  # the first tries the signs as they are
                    signs[block] *= -1
                    found = yield from _shorter(signs, length, goal, progress, seed.image.shape)
                    if found is None:
                        signs[block] *= -1
                    else:
                        length, improved = found, True


def _shorter(
    signs: NDArray[np.int16], length: int, goal: int, progress: int, shape: tuple[int, ...]
) -> Generator[Try, Reply, int | None]:
    """The length at which a direction changes the class, None where it is not enough below `length`."""
    low, high = goal - 1, length - max(1, (length - goal) // progress if progress else 0)
    reply = yield Try(_noise(signs, high, shape))
    if not reply.broken:
        return None
    while high - low > max(1, (high - goal) // PRECISION):
        middle = (low + high) // 2
        reply = yield Try(_noise(signs, middle, shape))
        low, high = (low, middle) if reply.broken else (middle, high)
    return high


def _noise(signs: NDArray[np.int16], length: int, shape: tuple[int, ...]) -> Noise:
    """A direction as noise of a length; what is no longer than the ball's radius is exactly within it."""
    rows, columns = np.ogrid[: shape[0], : shape[1]]
    dither = BAYER[rows % len(BAYER), columns % len(BAYER), None]
    noise: Noise = as_noise(signs, shape) * ((np.int16(length) + dither) // np.int16(STEPS))
    return noise
