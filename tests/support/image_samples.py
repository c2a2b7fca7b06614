"""Small images for tests: noise, and pictures with edges, areas and shades, made of whole numbers only."""

from __future__ import annotations

import numpy as np


def grey_noise(count: int, shape: tuple[int, int, int], seed: int = 0) -> np.ndarray:
    """Independent random levels, the hardest case for anything that interpolates: (count, height, width, channels) uint8."""
    return np.random.default_rng(seed).integers(0, 256, (count, *shape), np.uint8)


def photo(count: int, shape: tuple[int, int, int]) -> np.ndarray:
    """Shaded areas, a disc and a bar, different for each image and channel: (count, height, width, channels) uint8."""
    height, width, channels = shape
    n, y, x, c = np.ogrid[:count, :height, :width, :channels]
    shade = 30 + (120 * x) // width + (60 * y * (c + 1)) // (height * channels) + 7 * (n % 5)
    disc = (3 * x - width - 2 * n % 7) ** 2 + (3 * y - height) ** 2 < (height * width) // 2
    bar = (x > (2 * width) // 3) & (y > height // 2) & (c != n % 3)
    return (shade + 70 * disc - 40 * bar).clip(0, 255).astype(np.uint8)
