"""Noise of few tiles: a coarse grid, enlarged to the size of the image."""

from __future__ import annotations

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
