"""Corruptions of images drawn and applied in one step."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from aitest_lib.rng import rng_for
from aitest_lib.transforms.image.base import ImageTransform


def drawn(transform: ImageTransform, images: np.ndarray) -> list[dict[str, Any]]:
    """The parameters of images whose seed ids are their numbers."""
    names = [str(number) for number in range(len(images))]
    return transform.draw(names, images.shape[1:], partial(rng_for, 11, transform.key)).params


def corrupted(transform: ImageTransform, images: np.ndarray) -> np.ndarray:
    return transform.apply(images, drawn(transform, images))


def distances(cls: type[ImageTransform], images: np.ndarray) -> list[float]:
    """How far severities 1 to 5 are from the images: mean absolute difference in grey levels."""
    return [
        float(np.abs(corrupted(cls(severity=severity), images).astype(float) - images).mean()) for severity in (1, 2, 3, 4, 5)
    ]
