"""Patterns of signs: noise that goes all the way up (1) or all the way down (-1) in every tile of a grid and every channel.

Patterns are int8 of shape (channels, rows, columns), or (n, channels, rows, columns) for n of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Patterns = NDArray[np.int8]
Shape = tuple[int, int, int]  # channels, rows, columns

# Stripes as (periods over the image, direction in eighths of a turn from top-down, phase in quarters of a period). The few
# that broke most digits and photographs, each chosen for what the ones before had left: broad level stripes suit the one,
# fine slanting ones the other.
OPENING = ((2, 0, 0), (7, 1, 3), (3, 0, 1), (6, 2, 1))
MORE = (
    (2, 0, 2),
    (7, 3, 0),
    (2, 3, 0),
    (3, 0, 3),
    (2, 1, 1),
    (5, 3, 3),
    (4, 0, 2),
    (4, 0, 3),
    (2, 0, 3),
    (6, 2, 0),
    (1, 0, 0),
    (7, 1, 1),
)
SHARES = (0.5, 0.25, 0.12, 0.06, 0.03)  # of the signs that a gradient would change


def stripes(shape: Shape, periods: int, direction: int, phase: int) -> Patterns:
    """Stripes (channels, rows, columns), alike in all channels: `periods` over the image, running across `direction` (eighths
    of a turn, 0 is top-down), moved by `phase` (quarters of a period)."""
    _, rows, columns = shape
    angle = direction * np.pi / 4
    down = np.cos(angle) * (np.arange(rows) + 0.5) / rows
    across = np.sin(angle) * (np.arange(columns) + 0.5) / columns
    # Rounded, so that what is zero but for the last bit is up on every machine.
    wave = np.round(np.sin(2 * np.pi * periods * (down[:, None] + across) + phase * np.pi / 2), 9)
    return np.broadcast_to(np.where(wave >= 0, 1, -1).astype(np.int8), shape)


def opening(shape: Shape) -> Iterator[Patterns]:
    """The first patterns where scores are known: what follows learns from them."""
    return (stripes(shape, *one) for one in OPENING)


def bank(shape: Shape) -> Iterator[Patterns]:
    """All that are worth trying blindly, best first."""
    return (stripes(shape, *one) for one in (*OPENING, *MORE))


def tiled(values: Patterns, shape: Shape) -> Patterns:
    """Values (n, channels, few rows, few columns) enlarged to (n, channels, rows, columns)."""
    rows = np.arange(shape[1]) * values.shape[2] // shape[1]
    columns = np.arange(shape[2]) * values.shape[3] // shape[2]
    return values[:, :, rows[:, None], columns]


def random_tiles(shape: Shape, tiles: int, count: int, rng: np.random.Generator) -> Patterns:
    """Independent signs for every tile of a grid and every channel: (count, channels, rows, columns)."""
    grid = (count, shape[0], min(tiles, shape[1]), min(tiles, shape[2]))
    return tiled(rng.integers(0, 2, grid, dtype=np.int8) * np.int8(2) - np.int8(1), shape)


def flipped_tiles(best: Patterns, tiles: int, share: float, count: int, rng: np.random.Generator) -> Patterns:
    """`best` with some of the tiles of a grid turned, up to `share` of them, half of the time in all channels alike."""
    channels, rows, columns = best.shape
    grid = (count, channels, min(tiles, rows), min(tiles, columns))
    chance = np.maximum(share * rng.random(count), 1 / (grid[2] * grid[3]))
    draws = rng.random(grid, dtype=np.float32)
    alike = rng.random(count) < 0.5
    draws[alike] = draws[alike, :1]
    turned = draws < chance[:, None, None, None]
    return np.where(tiled(turned.view(np.int8), best.shape) != 0, -best, best)


def squares(best: Patterns, share: float, count: int, rng: np.random.Generator) -> Patterns:
    """`best` with a rectangle of at most `share` of its area, turned or of one sign in each channel."""
    channels, rows, columns = best.shape
    sides = np.array([rows, columns])
    lengths = np.clip(np.round(sides * np.sqrt(share) * rng.uniform(0.3, 1.0, (count, 2))), 1, sides).astype(np.int64)
    starts = (rng.random((count, 2)) * (sides - lengths + 1)).astype(np.int64)
    inside = [
        (np.arange(side) >= starts[:, axis, None]) & (np.arange(side) < (starts + lengths)[:, axis, None])
        for axis, side in enumerate(sides)
    ]
    signs = rng.integers(0, 2, (count, channels), dtype=np.int8) * np.int8(2) - np.int8(1)
    turn = rng.random(count) < 0.5
    filling = np.where(turn[:, None, None, None], -best, signs[:, :, None, None])
    return np.where((inside[0][:, :, None] & inside[1][:, None, :])[:, None], filling, best)


def crossed(ones: Patterns, others: Patterns, tiles: int, rng: np.random.Generator) -> Patterns:
    """Each of n patterns with about half of the tiles of a grid from its counterpart, in all channels alike."""
    count, channels, rows, columns = ones.shape
    draws = rng.integers(0, 2, (count, 1, min(tiles, rows), min(tiles, columns)), dtype=np.int8)
    return np.where(tiled(draws, (channels, rows, columns)) != 0, ones, others)


def along(gradient: NDArray[np.floating], best: Patterns) -> Patterns:
    """What a gradient (channels, rows, columns) of the reward suggests: its signs, in every pixel and by tile, and `best` with
    those signs where most is to be gained."""
    signs = np.where(gradient >= 0, 1, -1).astype(np.int8)
    gain = np.abs(gradient) * (signs != best)
    order = np.argsort(-gain, axis=None, kind="stable")
    found = [signs, *(_by_tile(gradient, tiles) for tiles in (4, 7, 14))]
    wrong = np.count_nonzero(gain)
    for share in SHARES:
        part = best.copy()
        chosen = order[: max(1, round(share * wrong))]
        part.reshape(-1)[chosen] = signs.reshape(-1)[chosen]
        found.append(part)
    return np.stack(found)


def _by_tile(gradient: NDArray[np.floating], tiles: int) -> Patterns:
    """The sign of the sum over every tile."""
    _, rows, columns = gradient.shape
    down = np.arange(rows) * min(tiles, rows) // rows
    across = np.arange(columns) * min(tiles, columns) // columns
    starts = [np.flatnonzero(np.diff(places, prepend=-1)) for places in (down, across)]
    sums = np.add.reduceat(np.add.reduceat(gradient, starts[0], axis=1), starts[1], axis=2)
    signs = np.where(sums >= 0, 1, -1).astype(np.int8)
    return signs[:, down[:, None], across]
