"""Fog, snow, frost and spatter; an alpha channel stays as it is. All of it is made up from noise: there are no texture files.

Severities are those of ImageNet-C and CIFAR-10-C (Hendrycks, Dietterich 2019, and their code), where ImageNet-C itself
computes the weather (fog, snow); frost and the relief of spatter are of our own making, with its constants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from aitest_lib.parameters import parameter
from aitest_lib.registry import register
from aitest_lib.transforms.image.base import CHUNK_BYTES, Pixels
from aitest_lib.transforms.image.corruption import CACHED_BYTES, Corruption, Row, noise_seeds, pieces
from aitest_lib.transforms.image.fields import (
    Floats,
    add_stretched,
    bits,
    coarse_plasma,
    normal,
    plasma,
    stretched,
    to_levels,
)
from aitest_lib.transforms.image.smoothing import gaussian_smooth, magnified, smeared
from aitest_lib.transforms.image.tensors import LEVELS

LUMA = (0.299, 0.587, 0.114)  # ITU-R BT.601: how bright red, green and blue are
ICE = (0.85, 0.93, 1.0)
WATER = (175 / 255, 238 / 255, 238 / 255)
MUD = (63 / 255, 42 / 255, 20 / 255)
CONTOURS = 6  # of the clouds that frost is made of, on which there are needles of ice
SURE = 0.8  # mud covers where its blurred mask is at least so much


@register
@dataclass(frozen=True, kw_only=True)
class Fog(Corruption):
    """(x + amount clouds) max / (max + amount), with clouds from 0 to 1 of fractal noise and max the image's brightest value.

    `decay`: how fast finer clouds grow weaker. Of every image its own clouds, the same at every amount.
    """

    name: ClassVar[str] = "fog"
    strength: ClassVar[str | None] = "amount"
    identity: ClassVar[float | None] = 0.0
    strongest: ClassVar[float | None] = 6.0
    values: ClassVar[tuple[str, ...]] = ("amount", "decay")
    imagenet_c: ClassVar[tuple[Row, ...]] = ((1.5, 2.0), (2.0, 2.0), (2.5, 1.7), (2.5, 1.5), (3.0, 1.4))
    cifar10_c: ClassVar[tuple[Row, ...]] = ((0.2, 3.0), (0.5, 3.0), (0.75, 2.5), (1.0, 2.0), (1.5, 1.75))
    bytes_at_once: ClassVar[int] = CHUNK_BYTES
    amount: float | None = parameter(None, help="brightness of the thickest fog", unit="of the range 0 to 1", ge=0, le=100)
    decay: float | None = parameter(
        None, help="weakening of the clouds from size to half size; default: that of severity 3", unit="1", ge=1, le=10
    )

    def corrupted(self, images: Pixels, drawn: Sequence[Mapping[str, Any]], values: Mapping[str, Any]) -> Pixels:
        return foggy(images, noise_seeds(drawn), values["amount"], values["decay"])


@register
@dataclass(frozen=True, kw_only=True)
class Snow(Corruption):
    """Flakes, whitened air and lighter ground, synthesized from noise as in ImageNet-C.

    Normal noise (mean, sd) is magnified, cut off below a threshold and blurred along the wind, at -135 to -45 degrees. The
    image goes `keep` of the way from max(x, 1.5 grey + 0.5) to itself; the flakes, and the same turned upside down, are added.
    """

    name: ClassVar[str] = "snow"
    values: ClassVar[tuple[str, ...]] = ("mean", "sd", "zoom", "threshold", "length", "sigma", "keep")
    imagenet_c: ClassVar[tuple[Row, ...]] = (
        (0.1, 0.3, 3.0, 0.5, 20.0, 4.0, 0.8),
        (0.2, 0.3, 2.0, 0.5, 24.0, 4.0, 0.7),
        (0.55, 0.3, 4.0, 0.9, 24.0, 8.0, 0.7),
        (0.55, 0.3, 4.5, 0.85, 24.0, 8.0, 0.65),
        (0.55, 0.3, 2.5, 0.85, 24.0, 12.0, 0.55),
    )
    cifar10_c: ClassVar[tuple[Row, ...]] = (
        (0.1, 0.2, 1.0, 0.6, 16.0, 3.0, 0.95),
        (0.1, 0.2, 1.0, 0.5, 20.0, 4.0, 0.9),
        (0.15, 0.3, 1.75, 0.55, 20.0, 4.0, 0.9),
        (0.25, 0.3, 2.25, 0.6, 24.0, 6.0, 0.85),
        (0.3, 0.3, 1.25, 0.65, 28.0, 12.0, 0.8),
    )
    bytes_at_once: ClassVar[int] = CHUNK_BYTES

    def draw_randomness(self, rng: np.random.Generator) -> dict[str, Any]:
        return {**super().draw_randomness(rng), "angle": int(rng.integers(-135, -44))}

    def corrupted(self, images: Pixels, drawn: Sequence[Mapping[str, Any]], values: Mapping[str, Any]) -> Pixels:
        layer = snow_layer(noise_seeds(drawn), images.shape[1:3], values)
        flakes = smeared(layer, [one["angle"] for one in drawn], values["length"], values["sigma"]).astype(np.float32)
        result = images.astype(np.float32)
        lighter = np.maximum(result, 1.5 * grey(result) + LEVELS / 2)
        result += (1 - values["keep"]) * (lighter - result)
        result += flakes
        result += flakes[:, ::-1, ::-1]
        return to_levels(result)


@register
@dataclass(frozen=True, kw_only=True)
class Frost(Corruption):
    """keep x + ice texture: frost on a pane, synthesized; bluish white needles along the contours of fractal clouds.

    ImageNet-C lays photographs of frost over the images, with these two weights.
    """

    name: ClassVar[str] = "frost"
    values: ClassVar[tuple[str, ...]] = ("keep", "ice")
    imagenet_c: ClassVar[tuple[Row, ...]] = ((1.0, 0.4), (0.8, 0.6), (0.7, 0.7), (0.65, 0.7), (0.6, 0.75))
    cifar10_c: ClassVar[tuple[Row, ...]] = ((1.0, 0.2), (1.0, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45))

    def corrupted(self, images: Pixels, drawn: Sequence[Mapping[str, Any]], values: Mapping[str, Any]) -> Pixels:
        texture = tinted(frost_texture(noise_seeds(drawn), images.shape[1:3]), ICE, images.shape[-1])
        texture *= np.float32(values["ice"])
        texture += images * np.float32(values["keep"])
        return to_levels(texture)


@register
@dataclass(frozen=True, kw_only=True)
class Spatter(Corruption):
    """Drops of water (severity 1 to 3) or of mud (4 and 5), synthesized where smooth noise exceeds a threshold.

    Water brightens towards pale turquoise, most in the middle of a drop; mud covers with brown, as in ImageNet-C, whose drops
    have a relief of their own. Below 96 pixels severities 3 to 5 are ours: CIFAR-10-C's would weaken from 3 to 4.
    """

    name: ClassVar[str] = "spatter"
    values: ClassVar[tuple[str, ...]] = ("mean", "sd", "sigma", "threshold", "weight", "mud")
    imagenet_c: ClassVar[tuple[Row, ...]] = (
        (0.65, 0.3, 4.0, 0.69, 0.6, 0),
        (0.65, 0.3, 3.0, 0.68, 0.6, 0),
        (0.65, 0.3, 2.0, 0.68, 0.5, 0),
        (0.65, 0.3, 1.0, 0.65, 1.5, 1),
        (0.67, 0.4, 1.0, 0.65, 1.5, 1),
    )
    cifar10_c: ClassVar[tuple[Row, ...]] = (
        (0.62, 0.1, 0.7, 0.7, 0.5, 0),
        (0.65, 0.1, 0.8, 0.7, 0.5, 0),
        (0.65, 0.1, 0.8, 0.69, 0.5, 0),
        (0.65, 0.1, 1.0, 0.67, 0.6, 1),
        (0.65, 0.1, 1.0, 0.66, 0.6, 1),
    )
    bytes_at_once: ClassVar[int] = CHUNK_BYTES

    def corrupted(self, images: Pixels, drawn: Sequence[Mapping[str, Any]], values: Mapping[str, Any]) -> Pixels:
        depth = liquid(noise_seeds(drawn), images.shape[1:3], values["sigma"])
        depth -= np.float32((values["threshold"] - values["mean"]) / values["sd"])
        if values["mud"]:
            cover = gaussian_smooth((depth > 0).astype(np.uint8) * np.uint8(LEVELS), values["weight"]) / np.float32(LEVELS)
            cover[cover < SURE] = 0
            return to_levels(images * (1 - cover) + tinted(cover, MUD, images.shape[-1]))
        np.maximum(depth, 0, out=depth)
        deepest = depth.max((1, 2, 3), keepdims=True)
        shine = np.sqrt(depth / np.where(deepest > 0, deepest, 1))
        return to_levels(images + tinted(shine * np.float32(values["weight"]), WATER, images.shape[-1]))


def foggy(images: Pixels, seeds: Sequence[int], amount: float, decay: float) -> Pixels:
    """Images (n, height, width, channels) in fog, see `Fog`."""
    height, width, channels = images.shape[1:]
    clouds, step = coarse_plasma(seeds, height, width, decay)
    clouds = clouds[:, : -(-height // step) + 1]
    brightest = images.max((1, 2, 3), keepdims=True).astype(np.float32)
    shares = brightest / (brightest + np.float32(LEVELS * amount))
    clouds *= shares[..., 0] * np.float32(LEVELS * amount)
    clouds += np.float32(0.5)  # rounds what is cut off below; nothing exceeds the brightest value, so that nothing is clipped
    result = np.empty_like(images)
    across = np.repeat(stretched(clouds.transpose(0, 2, 1), step, width).transpose(0, 2, 1), channels, axis=2)
    for part in pieces(images, CACHED_BYTES):
        values = images[part] * shares[part]
        add_stretched(values.reshape(len(values), height, -1), across[part], step)
        result[part] = values.astype(np.uint8)
    return result


def snow_layer(seeds: Sequence[int], shape: Sequence[int], values: Mapping[str, Any]) -> Pixels:
    """The flakes before the wind: grey levels (n, height, width, 1)."""
    import torch

    noise = normal(bits(seeds, shape))
    noise *= np.float32(values["sd"])
    noise += np.float32(values["mean"])
    layer = magnified(torch.from_numpy(noise)[:, None], values["zoom"]).permute(0, 2, 3, 1).numpy()
    return to_levels(np.where(layer < values["threshold"], np.float32(0), layer) * np.float32(LEVELS))


def frost_texture(seeds: Sequence[int], shape: Sequence[int]) -> Floats:
    """Ice (n, height, width, 1) from 0 to 1: rough clouds, and needles along their contours."""
    clouds = plasma(seeds, shape[0], shape[1], 1.25)
    needles: Floats = clouds * np.float32(CONTOURS)
    needles -= np.rint(needles)
    np.abs(needles, out=needles)
    needles = 1 - 2 * needles  # 1 on a contour, 0 in the middle between two
    needles *= needles
    needles *= needles
    needles *= np.float32(0.45)
    needles += clouds * np.float32(0.55)
    return needles[..., None]


def liquid(seeds: Sequence[int], shape: Sequence[int], sigma: float) -> Floats:
    """Smooth noise (n, height, width, 1): standard normal before it is blurred by `sigma` pixels."""
    scale = np.float32(32)  # grey levels for one standard deviation: four of them on either side
    drops = gaussian_smooth(to_levels(normal(bits(seeds, shape)) * scale + 128)[..., None], sigma)
    return (drops - 128) / scale


def grey(colours: Floats) -> Floats:
    """The brightness of colours (..., 1 or 3) as (..., 1)."""
    return colours if colours.shape[-1] == 1 else colours @ np.array(LUMA, np.float32)[:, None]


def tinted(light: Floats, colour: tuple[float, float, float], channels: int) -> Floats:
    """Light (n, height, width, 1) in a colour, in grey levels for 1: (n, height, width, 1 or 3)."""
    own: Floats = np.array(colour, np.float32) * np.float32(LEVELS)
    row = np.tile(own if channels == 3 else grey(own), light.shape[2])
    return (np.repeat(light[..., 0], channels, axis=2) * row).reshape(*light.shape[:3], channels)
