"""What noise is made of: coarse grids enlarged to the size of the image, signs, blocks of values."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from aitest_lib.searches.image.base import Noise


def tile_grid(shape: tuple[int, ...], tiles: int) -> tuple[int, int]:
    """Rows and columns of a grid of about square tiles, `tiles` along the longer side, for an image of a shape (height, width,
    ...); never more than there are pixels."""
    height, width = shape[0], shape[1]
    longer = max(height, width)
    rows, columns = (max(1, min(side, round(tiles * side / longer))) for side in (height, width))
    return rows, columns


def enlarged(values: NDArray[np.int16], shape: tuple[int, ...]) -> Noise:
    """Values (rows, columns, channels) of a grid as noise (height, width, channels); tiles differ by a pixel at most."""
    rows = np.arange(shape[0]) * values.shape[0] // shape[0]
    columns = np.arange(shape[1]) * values.shape[1] // shape[1]
    noise: Noise = values[rows[:, None], columns[None, :]]
    return noise


def random_signs(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.int16]:
    """Independent values -1 or 1."""
    return rng.integers(0, 2, shape, dtype=np.int16) * np.int16(2) - np.int16(1)


def nested_blocks(size: int) -> Iterator[slice]:
    """All of a row of values, then its halves, its quarters, ... down to single values."""
    length = size
    while True:
        yield from (slice(start, min(start + length, size)) for start in range(0, size, length))
        if length == 1:
            return
        length = -(-length // 2)


def as_noise(values: NDArray[np.int16], shape: tuple[int, ...]) -> Noise:
    """A row of values as noise (height, width, channels): channel by channel, row by row, so that blocks are bands."""
    return np.moveaxis(values.reshape(shape[2], *shape[:2]), 0, -1)
