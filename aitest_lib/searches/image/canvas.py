"""Between patterns of signs, the noise they stand for, and the features by which noise is compared."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from aitest_lib.searches.image.base import LEVELS, Image, Noise
from aitest_lib.searches.image.patterns import Patterns, Shape
from aitest_lib.searches.image.tiles import enlarged, tile_grid

FINEST = 32  # tiles along the longer side, at most: a pattern of more cannot be learned from a few hundred answers
EDGE = 0.3  # weight of what lies in a corner, if the middle has 1
CHROMA = 0.5  # weight of differences between channels

Floats32 = NDArray[np.float32]
# Mean of the channels and two differences, orthonormal but for their weights.
COLOURS = np.array([[1, 1, 1], [1, -1, 0], [1, 1, -2]]) / np.sqrt([[3], [2], [6]]) * np.array([[1.0], [CHROMA], [CHROMA]])
OPPONENT: Floats32 = COLOURS.astype(np.float32)


@dataclass(frozen=True, eq=False)
class Canvas:
    """The grid on which the noise for one image is drawn: pixels, or tiles where the image is large."""

    image: Image
    radius: int

    @cached_property
    def shape(self) -> Shape:
        """Channels, rows and columns of a pattern."""
        return self.image.shape[2], *tile_grid(self.image.shape, FINEST)

    def noise(self, pattern: Patterns) -> Noise:
        """A pattern (channels, rows, columns) as noise (height, width, channels) on the edge of the ball."""
        return enlarged(np.moveaxis(pattern, 0, -1).astype(np.int16), self.image.shape) * np.int16(self.radius)

    @cached_property
    def room(self) -> tuple[Floats32, Floats32]:
        """How far the mean of a tile can go down (negative) and up, in radii: white cannot get whiter."""
        image = self.image.astype(np.int16)
        ends = np.maximum(-self.radius, -image), np.minimum(self.radius, LEVELS - image)
        down, up = (np.moveaxis(self._means(one / self.radius), -1, 0).astype(np.float32) for one in ends)
        return down, up

    def effects(self, patterns: Patterns) -> Floats32:
        """What becomes of n patterns within 0..255, in radii: (n, channels, rows, columns)."""
        down, up = self.room
        return np.asarray(np.where(patterns > 0, up, down), np.float32)

    def features(self, patterns: Patterns) -> Floats32:
        """The discrete cosine transform of the effects of n patterns, orthonormal: (n, d = channels x rows x columns)."""
        effects: Floats32 = self.effects(patterns) * self.focus
        count, channels = effects.shape[:2]
        down, across = self._waves
        spectra: Floats32 = (down @ (effects @ across.T)).reshape(count, channels, -1)
        if channels == len(OPPONENT):
            spectra = OPPONENT @ spectra
        return spectra.reshape(count, -1)

    def gradient(self, of_features: Floats32) -> Floats32:
        """How a reward changes when a tile goes from down to up, from its derivatives by the features (d,)."""
        down, across = self._waves
        spectra = of_features.reshape(self.shape[0], -1)
        if self.shape[0] == len(OPPONENT):
            spectra = OPPONENT.T @ spectra
        low, high = self.room
        waves = spectra.reshape(self.shape[0], len(down), len(across))
        return np.asarray((down.T @ waves @ across) * (high - low) * self.focus)

    def weights(self, scale: float) -> Floats32:
        """Of features (d,): how much of a network's gradient is expected at a frequency, falling beyond `scale` half periods
        over the image; of unit length, so that kernels are about 1."""
        down, across = (np.arange(len(waves)) for waves in self._waves)
        weights = 1 / (1 + np.square(np.hypot(down[:, None], across) / scale))
        weights = np.tile(weights.reshape(-1), self.shape[0])
        return np.asarray(weights / np.sqrt(np.square(weights).sum()), np.float32)

    @cached_property
    def focus(self) -> Floats32:
        """Weights of tiles (rows, columns): gradients are small at the edge, since what an image shows is rarely there."""
        down, across = (np.sin(np.pi * (np.arange(length) + 0.5) / length) for length in self.shape[1:])
        focus = EDGE + (1 - EDGE) * np.outer(down, across)
        return np.asarray(focus / np.sqrt(np.square(focus).mean()), np.float32)

    @cached_property
    def _waves(self) -> tuple[Floats32, Floats32]:
        return cosines(self.shape[1]), cosines(self.shape[2])

    def _means(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Of every tile: (height, width, channels) -> (rows, columns, channels)."""
        for axis, tiles in enumerate(self.shape[1:]):
            places = np.arange(values.shape[axis]) * tiles // values.shape[axis]
            starts = np.flatnonzero(np.diff(places, prepend=-1))
            counts = np.bincount(places, minlength=tiles).reshape([-1 if other == axis else 1 for other in range(3)])
            values = np.add.reduceat(values, starts, axis=axis) / counts
        return values


def cosines(length: int) -> Floats32:
    """The orthonormal discrete cosine transform II: (length, length), a row for each frequency."""
    waves = np.cos(np.pi / length * np.outer(np.arange(length), np.arange(length) + 0.5))
    return np.asarray(waves / np.linalg.norm(waves, axis=1, keepdims=True), np.float32)
