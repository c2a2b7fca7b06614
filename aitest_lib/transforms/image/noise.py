"""Noise of single pixels and colours: Gaussian, shot, impulse and speckle noise; an alpha channel stays as it is.

Severities are those of ImageNet-C and CIFAR-10-C (Hendrycks, Dietterich 2019). The field of an image depends on its noise
seed alone, so that a stronger noise is the same field, scaled. All of it is work for the CPU: to draw the field costs more
than to apply it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from aitest_lib.parameters import parameter
from aitest_lib.registry import register
from aitest_lib.transforms.image.base import Pixels
from aitest_lib.transforms.image.corruption import Corruption, Row, noise_seeds
from aitest_lib.transforms.image.fields import VALUES, Bits, bits, normal, to_levels
from aitest_lib.transforms.image.tensors import LEVELS

QUANTILES = 1 << 12  # equal parts into which the Poisson distribution of a grey level is cut


@dataclass(frozen=True, kw_only=True)
class Noise(Corruption):
    """Noise of one strength, made of 16 random bits for each pixel and colour."""

    identity: ClassVar[float | None] = 0.0

    def corrupted(self, images: Pixels, drawn: Sequence[Mapping[str, Any]], values: Mapping[str, Any]) -> Pixels:
        return self.noisy(images, bits(noise_seeds(drawn), images.shape[1:]), values[str(self.strength)])

    @abstractmethod
    def noisy(self, images: Pixels, random_bits: Bits, strength: float) -> Pixels:
        """The images with noise; random bits of the same shape."""


@register
@dataclass(frozen=True, kw_only=True)
class GaussianNoise(Noise):
    """x + sigma z, with z standard normal for each pixel and colour, x from 0 to 1; clipped."""

    name: ClassVar[str] = "gaussian_noise"
    strength: ClassVar[str | None] = "sigma"
    strongest: ClassVar[float | None] = 0.8
    values: ClassVar[tuple[str, ...]] = ("sigma",)
    imagenet_c: ClassVar[tuple[Row, ...]] = ((0.08,), (0.12,), (0.18,), (0.26,), (0.38,))
    cifar10_c: ClassVar[tuple[Row, ...]] = ((0.04,), (0.06,), (0.08,), (0.09,), (0.10,))
    sigma: float | None = parameter(None, help="standard deviation of the noise", unit="of the range 0 to 1", ge=0, le=10)

    def noisy(self, images: Pixels, random_bits: Bits, strength: float) -> Pixels:
        values = normal(random_bits)
        values *= np.float32(LEVELS * strength)
        values += images
        return to_levels(values)


@register
@dataclass(frozen=True, kw_only=True)
class SpeckleNoise(Noise):
    """x + sigma x z, with z standard normal for each pixel and colour: noise that grows with the light; clipped."""

    name: ClassVar[str] = "speckle_noise"
    strength: ClassVar[str | None] = "sigma"
    strongest: ClassVar[float | None] = 1.2
    values: ClassVar[tuple[str, ...]] = ("sigma",)
    imagenet_c: ClassVar[tuple[Row, ...]] = ((0.15,), (0.2,), (0.35,), (0.45,), (0.6,))
    cifar10_c: ClassVar[tuple[Row, ...]] = ((0.06,), (0.1,), (0.12,), (0.16,), (0.2,))
    sigma: float | None = parameter(None, help="standard deviation of the factor", unit="1", ge=0, le=10)

    def noisy(self, images: Pixels, random_bits: Bits, strength: float) -> Pixels:
        values = normal(random_bits)
        values *= np.float32(strength)
        values += 1
        values *= images
        return to_levels(values)


@register
@dataclass(frozen=True, kw_only=True)
class ShotNoise(Noise):
    """Poisson(c x) / c: the noise of counted photons, c of them at full light; clipped.

    sigma = 1 / sqrt(c), the standard deviation at full light: ImageNet-C's c of 60, 25, 12, 5, 3 are sigmas of 0.13 to 0.58.
    Each pixel takes one of 4,096 quantiles of its grey level's distribution, the same one at every sigma.
    """

    name: ClassVar[str] = "shot_noise"
    strength: ClassVar[str | None] = "sigma"
    strongest: ClassVar[float | None] = 1.2
    values: ClassVar[tuple[str, ...]] = ("sigma",)
    imagenet_c: ClassVar[tuple[Row, ...]] = tuple((photons**-0.5,) for photons in (60, 25, 12, 5, 3))
    cifar10_c: ClassVar[tuple[Row, ...]] = tuple((photons**-0.5,) for photons in (500, 250, 100, 75, 50))
    sigma: float | None = parameter(None, help="standard deviation at full light", unit="of the range 0 to 1", ge=0, le=10)

    def noisy(self, images: Pixels, random_bits: Bits, strength: float) -> Pixels:
        places = images.astype(np.intp)
        places *= QUANTILES
        places += random_bits >> (VALUES // QUANTILES).bit_length() - 1
        noisy: Pixels = np.take(photon_levels(strength), places, mode="clip")
        return noisy


@register
@dataclass(frozen=True, kw_only=True)
class ImpulseNoise(Noise):
    """Salt and pepper: a share `amount` of all pixels and colours becomes 0 or 1, each as often."""

    name: ClassVar[str] = "impulse_noise"
    strength: ClassVar[str | None] = "amount"
    strongest: ClassVar[float | None] = 0.6
    values: ClassVar[tuple[str, ...]] = ("amount",)
    imagenet_c: ClassVar[tuple[Row, ...]] = ((0.03,), (0.06,), (0.09,), (0.17,), (0.27,))
    cifar10_c: ClassVar[tuple[Row, ...]] = ((0.01,), (0.02,), (0.03,), (0.05,), (0.07,))
    amount: float | None = parameter(None, help="share of values that are replaced", unit="1", ge=0, le=1)

    def noisy(self, images: Pixels, random_bits: Bits, strength: float) -> Pixels:
        each = round(strength * VALUES / 2)
        noisy = images.copy()
        np.putmask(noisy, random_bits < each, 0)
        np.putmask(noisy, random_bits >= VALUES - each, LEVELS)
        return noisy


@lru_cache(maxsize=16)
def photon_levels(sigma: float) -> NDArray[np.uint8]:
    """For every grey level the noisy one at each of its quantiles: uint8, flat (256 * QUANTILES)."""
    from scipy.special import pdtr

    photons = sigma**-2.0
    grey = np.arange(LEVELS + 1)
    most = np.floor(photons * (grey[:-1] + 0.5) / LEVELS)  # photons that still round to each level
    below = pdtr(most, photons * grey[:, None] / LEVELS)
    quantiles = (np.arange(QUANTILES) + 0.5) / QUANTILES
    return np.concatenate([np.searchsorted(row, quantiles) for row in below]).astype(np.uint8)
