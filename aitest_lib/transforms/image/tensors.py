"""Between uint8 pixels and float tensors, a few megabytes at a time, on the device that `AITEST_DEVICE` names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aitest_lib.device import device
from aitest_lib.transforms.image.base import Pixels, chunks

if TYPE_CHECKING:
    import torch

LEVELS = 255  # the grey level that is 1.0


def to_tensor(images: Pixels) -> torch.Tensor:
    """Pixels (n, height, width, channels) as float32 (n, channels, height, width) in 0 to 1, contiguous, on the device."""
    import torch

    moved = torch.from_numpy(np.ascontiguousarray(images)).to(device()).permute(0, 3, 1, 2)
    return moved.to(torch.float32, memory_format=torch.contiguous_format).mul_(1 / LEVELS)


def to_pixels(tensor: torch.Tensor) -> Pixels:
    """Floats (n, channels, height, width), clipped to 0 to 1, as uint8 pixels; rounded to the nearest level, halves to even."""
    import torch

    levels = tensor.mul(LEVELS).round_().clamp_(0, LEVELS)
    # By way of int16, and the channels put side by side before they are bytes: a third of the time that one copy takes.
    whole = torch.stack(levels.to(torch.int16).unbind(1), dim=-1).to(torch.uint8)
    pixels: Pixels = whole.cpu().numpy()
    return pixels


def split_alpha(images: Pixels) -> tuple[Pixels, Pixels | None]:
    """The colour channels (views), and the alpha channel where there is one."""
    return (images[..., :3], images[..., 3:]) if images.shape[-1] == 4 else (images, None)


def by_params(images: Pixels, params: Sequence[dict[str, Any]], function: Callable[[Pixels, dict[str, Any]], Pixels]) -> Pixels:
    """The results of `function(some images, the parameters they share)`, put back in order."""
    result = np.empty_like(images)
    for one, places in groups(params):
        for chunk in chunks(images[: len(places)]):
            chosen = chunk if len(places) == len(images) else places[chunk]  # slices need no copy
            result[chosen] = function(images[chosen], one)
    return result


def groups(params: Sequence[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], NDArray[np.int64]]]:
    """Each distinct set of parameters with the places that have it, in the order of their first."""
    found: dict[str, list[int]] = {}
    for _, run in groupby(range(len(params)), key=params.__getitem__):
        places = list(run)
        found.setdefault(repr(params[places[0]]), []).extend(places)
    return ((params[places[0]], np.array(places)) for places in found.values())
