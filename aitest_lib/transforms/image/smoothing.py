"""Weighted sums of neighbouring pixels, borders repeated outwards.

Weights are whole multiples of a power of two, small enough that every sum of grey levels is exact in float32: no split of a
batch, no order of summation and no device changes a pixel.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from aitest_lib.device import device
from aitest_lib.transforms.image.base import Pixels

if TYPE_CHECKING:
    import torch

TRUNCATE = 4.0  # standard deviations at which a Gaussian ends, as in SciPy and scikit-image
ONE_PASS = 1 << 16  # weights of a single sum: 16 bits beside the 8 of a pixel
TWO_PASSES = 1 << 12  # weights of each of two sums, with 4 bits more for what lies between them
BETWEEN = 1 << 4
BLOCK = 32  # rows or columns that one matrix product makes: few enough to skip most of the zeros of its band

Weights = NDArray[np.float32]


def gaussian_kernel(sigma: float, radius: int) -> NDArray[np.float64]:
    """The Gaussian from -radius to radius, sum 1."""
    places = np.arange(-radius, radius + 1)
    kernel: NDArray[np.float64] = np.exp(-0.5 * (places / sigma) ** 2) if sigma > 0 else (places == 0).astype(np.float64)
    return kernel / float(kernel.sum())


def whole_weights(kernel: NDArray[np.float64], one: int) -> NDArray[np.float64]:
    """Weights with sum 1 in multiples of 1 / one; no partial sum is off by more than half of that."""
    sums = np.rint(np.cumsum(kernel) * (one / kernel.sum()))
    weights: NDArray[np.float64] = np.diff(sums, prepend=0) / one
    return weights


@lru_cache(maxsize=32)
def gaussian_band(size: int, sigma: float) -> Weights:
    """The matrix (size, size) that blurs a column of pixels, in multiples of 1 / TWO_PASSES."""
    radius = math.floor(TRUNCATE * sigma + 0.5)
    band = np.zeros((size, size), np.float32)
    rows = np.arange(size)
    for offset, weight in enumerate(whole_weights(gaussian_kernel(sigma, radius), TWO_PASSES), -radius):
        if weight:
            band[rows, np.clip(rows + offset, 0, size - 1)] += np.float32(weight)
    return band


def gaussian_blurred(images: Pixels, sigma: float) -> Pixels:
    """Images (n, height, width, channels) blurred, every channel by itself; sigma in pixels. Within one grey level of the
    exact sums. Two products with banded matrices, in tiles, on the device of `AITEST_DEVICE`."""
    blurred = np.empty_like(images)
    for rows, columns, sums in gaussian_tiles(images, sigma):
        blurred[:, rows, columns] = as_levels(sums).transpose(0, 3, 1, 2)
    return blurred


def gaussian_smooth(images: Pixels, sigma: float) -> NDArray[np.float32]:
    """What `gaussian_blurred` makes, before it is rounded to grey levels."""
    smooth = np.empty(images.shape, np.float32)
    for rows, columns, sums in gaussian_tiles(images, sigma):
        smooth[:, rows, columns] = sums.cpu().numpy().transpose(0, 3, 1, 2)
    return smooth


def gaussian_tiles(images: Pixels, sigma: float) -> Iterator[tuple[slice, slice, torch.Tensor]]:
    """The blurred images in tiles: their rows, their columns, and the sums (n, columns, channels, rows)."""
    import torch

    n, height, width, channels = images.shape
    down, along = (torch.from_numpy(gaussian_band(size, sigma)).to(device()) for size in (height, width))
    down, along = down * BETWEEN, along / BETWEEN  # so that what lies between is rounded to whole numbers
    radius = math.floor(TRUNCATE * sigma + 0.5)
    pixels = torch.from_numpy(images).to(device()).to(torch.float32).view(n, height, width * channels)
    for rows, above in blocks(height, radius):
        # Turned, so that the second product finds its columns where the first had its rows.
        tall = torch.matmul(pixels[:, above].transpose(1, 2), down[rows, above].T).round_().view(n, width, -1)
        for columns, beside in blocks(width, radius):
            sums = torch.matmul(along[columns, beside], tall[:, beside])
            yield rows, columns, sums.view(n, sums.shape[1], channels, -1)


def blocks(size: int, radius: int) -> Iterator[tuple[slice, slice]]:
    """The places of `size` pixels in blocks, each with the places that its sums reach."""
    step = size if size <= 2 * BLOCK else BLOCK
    for start in range(0, size, step):
        stop = min(start + step, size)
        yield slice(start, stop), slice(max(start - radius, 0), min(stop + radius, size))


def runs(values: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Where each run of equal values starts and stops."""
    edges = np.flatnonzero(np.diff(values)) + 1
    return zip([0, *edges.tolist()], [*edges.tolist(), len(values)], strict=True)


def as_levels(values: torch.Tensor) -> NDArray[np.uint8]:
    """Grey levels from 0 to 255 as uint8 on the CPU, rounded to the nearest, halves to even. `values` is worked on in place."""
    import torch

    whole = values.round_()
    levels: NDArray[np.uint8] = (whole.to(torch.uint8) if whole.is_cuda else whole).cpu().numpy().astype(np.uint8, copy=False)
    return levels


def widened(images: Pixels, reach: int) -> torch.Tensor:
    """Images with their borders repeated `reach` pixels outwards on all sides: uint8 (n, height, width * channels)."""
    import torch

    wide = np.pad(images, ((0, 0), (reach, reach), (reach, reach), (0, 0)), mode="edge")
    return torch.from_numpy(wide).to(device()).flatten(2)


def smeared(images: Pixels, angles: Sequence[int], length: float, sigma: float) -> Pixels:
    """Images (n, height, width, channels) blurred along a line, each at its own angle in degrees (half Gaussian weights;
    sigma > 0, in pixels)."""
    import torch

    n, height, width, channels = images.shape
    weights = whole_weights(np.exp(-0.5 * (np.arange(math.floor(length) + 1) / sigma) ** 2), ONE_PASS)
    steps = np.flatnonzero(weights)
    reach = min(int(steps[-1]), max(height, width))
    order = np.argsort(angles, kind="stable")
    wide = widened(images[order], reach)
    row = wide.shape[2]
    total = torch.zeros((n, height, width * channels), device=wide.device)
    for start, stop in runs(np.asarray(angles)[order]):
        turn = math.radians(angles[order[start]])
        down, right = (np.clip(np.rint(steps * part), -reach, reach) + reach for part in (math.sin(turn), math.cos(turn)))
        some, sums = wide[start:stop].to(torch.float32), total[start:stop]
        taps = (down * row + right * channels).astype(int)
        for first, weight in zip(taps.tolist(), weights[steps].tolist(), strict=True):
            # A view of the image moved along: by strides it takes a third of the time that slices take.
            sums.add_(some.as_strided(sums.shape, some.stride(), first), alpha=weight)
    blurred = np.empty_like(images)
    blurred[order] = as_levels(total).reshape(images.shape)
    return blurred


def defocused(images: Pixels, radius: float, softness: float) -> Pixels:
    """Images (n, height, width, channels) convolved with a disk and a Gaussian of 3 x 3 pixels (5 x 5 beyond radius 8).

    A pixel is in the disk if its middle is. The disk is a run of pixels in each column: a difference of running sums.
    """
    import torch

    n, height, width, channels = images.shape
    soft = 1 if radius <= 8 else 2
    reach = math.floor(radius)
    wide = widened(images, reach + soft).to(torch.float32)
    sums = torch.nn.functional.pad(wide.cumsum_(1), (0, 0, 1, 0))
    total = torch.zeros((n, height + 2 * soft, (width + 2 * soft) * channels), device=wide.device)
    halves = [math.floor(math.sqrt(radius * radius - right * right)) for right in range(-reach, reach + 1)]
    for right, half in enumerate(halves):
        columns = sums[:, :, right * channels : right * channels + total.shape[2]]
        total += columns[:, reach + half + 1 :][:, : total.shape[1]]
        total -= columns[:, reach - half :][:, : total.shape[1]]
    edge = gaussian_kernel(softness, soft)
    rows = torch.zeros((n, height, total.shape[2]), device=wide.device)
    for place, weight in enumerate(edge):
        rows.add_(total[:, place : place + height], alpha=weight)
    made = torch.zeros((n, height, width * channels), device=wide.device)
    for place, weight in enumerate(edge / sum(2 * half + 1 for half in halves)):
        made.add_(rows[:, :, place * channels : (place + width) * channels], alpha=weight)
    return as_levels(made).reshape(images.shape)


def magnified(images: torch.Tensor, factor: float) -> torch.Tensor:
    """The middle of images (n, channels, height, width), magnified to their size; bilinear, factor >= 1."""
    from torch.nn.functional import interpolate

    inner = [math.ceil(size / factor - 1e-9) for size in images.shape[2:]]
    outer = [max(size, round(part * factor)) for size, part in zip(images.shape[2:], inner, strict=True)]
    top, left = ((size - part) // 2 for size, part in zip(images.shape[2:], inner, strict=True))
    middle = images[:, :, top : top + inner[0], left : left + inner[1]]
    large = interpolate(middle, size=outer, mode="bilinear", align_corners=True)
    top, left = ((part - size) // 2 for size, part in zip(images.shape[2:], outer, strict=True))
    return large[:, :, top : top + images.shape[2], left : left + images.shape[3]]
