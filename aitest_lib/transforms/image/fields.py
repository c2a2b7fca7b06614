"""Random fields of images: each from the seed of its own image, so that no batch, order or machine changes it.

Sixteen random bits make a value: a uniform one, or by way of a table a normal one. That is four times as fast as a
generator of normal numbers and finer than a grey level. SFC64 promises the same stream for ever.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from aitest_lib.transforms.image.base import Pixels
from aitest_lib.transforms.image.tensors import LEVELS

Floats = NDArray[np.float32]
Bits = NDArray[np.uint16]

VALUES = 1 << 16
WARM_UP = 12  # rounds of SFC64 after which its words are mixed
QUIET = 200.0  # a level of plasma this many times weaker than the first is below half a grey level of fog


def bits(noise_seeds: Sequence[int], shape: Sequence[int]) -> Bits:
    """Uniform 16-bit numbers (n, *shape), one stream for each seed.

    SFC64 as its author seeds it: the seed in all three words, the first rounds thrown away (Doty-Humphrey, PractRand).
    """
    count = math.prod(shape)
    made = np.empty((len(noise_seeds), count), np.uint16)
    generator = np.random.SFC64(0)  # one for all: to make it takes longer than to draw a small image's bits
    for row, noise_seed in zip(made, noise_seeds, strict=True):
        words = np.array([noise_seed, noise_seed, noise_seed, 1], np.uint64)
        generator.state = {"bit_generator": "SFC64", "state": {"state": words}, "has_uint32": 0, "uinteger": 0}
        drawn = generator.random_raw(WARM_UP + -(-count // 4))[WARM_UP:]
        row[:] = drawn.astype("<u8", copy=False).view("<u2")[:count]
    return made.reshape(len(noise_seeds), *shape)


def normal(random_bits: Bits) -> Floats:
    """Standard normal numbers: the middle quantile of each of 65,536 equal parts (at most 4.3 from 0)."""
    numbers: Floats = np.take(_quantiles(), random_bits, mode="clip")
    return numbers


def uniform(random_bits: Bits) -> Floats:
    """Uniform numbers between -1 and 1, never at the ends."""
    numbers = random_bits.astype(np.float32)
    numbers *= 2 / VALUES
    numbers += 1 / VALUES - 1
    return numbers


@cache
def _quantiles() -> Floats:
    from scipy.special import ndtri

    quantiles: Floats = ndtri((np.arange(VALUES) + 0.5) / VALUES).astype(np.float32)
    return quantiles


def to_levels(values: Floats) -> Pixels:
    """Grey levels as uint8: rounded to the nearest, halves to even, and clipped. `values` is worked on in place."""
    np.rint(values, out=values)
    np.clip(values, 0, LEVELS, out=values)
    return values.astype(np.uint8)


def plasma(noise_seeds: Sequence[int], height: int, width: int, decay: float) -> Floats:
    """Clouds (n, height, width) from 0 to 1: fractal noise by the diamond-square algorithm on a torus.

    Each halving of the step weakens the noise by `decay` squared, as in ImageNet-C. Once it is below what can be seen, the
    map is interpolated (bilinear) instead of refined. Source: Fournier, Fussell, Carpenter 1982.
    """
    coarse, step = coarse_plasma(noise_seeds, height, width, decay)
    return stretched(stretched(coarse.transpose(0, 2, 1), step, width).transpose(0, 2, 1), step, height)


def coarse_plasma(noise_seeds: Sequence[int], height: int, width: int, decay: float) -> tuple[Floats, int]:
    """The plasma (n, size, size) as far as it is worth refining, and how many pixels its points stand apart."""
    levels = max(1, (max(height, width) - 1).bit_length())
    fine = levels if decay <= 1 else min(levels, math.ceil(math.log(QUIET) / (2 * math.log(decay))))
    made = diamond_square(noise_seeds, fine, decay)
    made -= made.min((1, 2), keepdims=True)
    made /= made.max((1, 2), keepdims=True)
    return made, 1 << (levels - fine)


def stretched(rows: Floats, step: int, height: int) -> Floats:
    """Rows (n, count, width) of a torus, `step` pixels apart, with the pixels between interpolated: (n, height, width)."""
    if step == 1:
        return rows[:, :height]
    made = np.zeros((len(rows), height, rows.shape[2]), np.float32)
    add_stretched(made, rows, step)
    return made


def add_stretched(values: Floats, rows: Floats, step: int) -> None:
    """Adds rows of a torus, as in `stretched`, to values (n, height, width)."""
    count = -(-values.shape[1] // step)
    here = rows[:, :count].copy()
    slope = np.concatenate([rows[:, 1:], rows[:, :1]], 1)[:, :count]
    slope -= here
    slope *= np.float32(1 / step)
    for place in range(step):
        part = values[:, place::step]
        part += here[:, : part.shape[1]]
        here += slope


def diamond_square(noise_seeds: Sequence[int], levels: int, decay: float) -> Floats:
    """Fractal noise (n, 2^levels, 2^levels) on a torus: each point is the mean of its four neighbours and noise."""
    size = 1 << levels
    noise = uniform(bits(noise_seeds, (size * size,)))
    map_ = np.zeros((len(noise), 1, 1), np.float32)
    strength = 1.0
    for level in range(levels):
        count = 1 << level
        # The points of this level, in three sets: in the middle of each square, of its upper and of its left side.
        fresh = noise[:, count * count : 4 * count * count].reshape(-1, 3, count, count) * np.float32(strength)
        finer = np.empty((len(noise), 2 * count, 2 * count), np.float32)
        below = np.roll(map_, -1, 1)
        centre = np.float32(0.25) * (map_ + np.roll(map_, -1, 2) + below + np.roll(below, -1, 2)) + fresh[:, 0]
        finer[:, ::2, ::2] = map_
        finer[:, 1::2, 1::2] = centre
        finer[:, ::2, 1::2] = np.float32(0.25) * (map_ + np.roll(map_, -1, 2) + centre + np.roll(centre, 1, 1)) + fresh[:, 1]
        finer[:, 1::2, ::2] = np.float32(0.25) * (map_ + below + centre + np.roll(centre, 1, 2)) + fresh[:, 2]
        map_ = finer
        strength /= decay * decay
    return map_
