"""Images of several shapes, asked shape by shape: a batch is one array, and nothing is padded or resized."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from aitest_lib.errors import Interrupted, ModelUnavailable
from aitest_lib.models.base import Model
from aitest_lib.models.batches import in_turn
from aitest_lib.types import Predictions


def by_shape(images: Sequence[NDArray[np.uint8]]) -> list[list[int]]:
    """The places of the images of each shape, in the order in which the shapes appear."""
    places: dict[tuple[int, ...], list[int]] = {}
    for place, image in enumerate(images):
        places.setdefault(image.shape, []).append(place)
    return list(places.values())


def predict_images(model: Model, images: Sequence[NDArray[np.uint8]]) -> Predictions:
    """The answers to images (uint8 H×W×C, of any shapes), in their order.

    One call of `predict` for each shape, in the order in which the shapes appear. A `ModelUnavailable` or `Interrupted` that
    passes through carries what was answered before, in the order of the images.
    """
    groups = by_shape(images)
    back = np.argsort(np.array([place for group in groups for place in group], dtype=np.intp))
    batches = (np.stack([images[place] for place in group]) for group in groups)
    try:
        return in_turn(batches, model.predict, len(images)).take(back)
    except (ModelUnavailable, Interrupted) as error:
        error.answers = error.answers.take(back)
        raise
