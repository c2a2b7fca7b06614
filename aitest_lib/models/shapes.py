"""Inputs that cannot go into one call: images of several shapes, clips of several rates. Nothing is padded or resized."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from aitest_lib.errors import Interrupted, ModelUnavailable
from aitest_lib.models.answers import joined
from aitest_lib.models.base import Model
from aitest_lib.models.batches import Batch, in_turn, parts_of
from aitest_lib.models.clips import are_clips, by_rate
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
    return _by_group(by_shape(images), lambda group: model.predict(np.stack([images[place] for place in group])))


def in_calls(inputs: Batch, ask: Callable[[Batch], Predictions]) -> Predictions:
    """The answers of a model on this machine, in the order of the inputs, asked call by call: clips as `by_rate` groups them,
    everything else as `parts_of` cuts it. What was answered before an exception as in `predict_images`."""
    if not len(inputs):
        return joined([])
    if are_clips(inputs):
        return _by_group(by_rate(inputs), lambda group: ask([inputs[place] for place in group]))
    return in_turn(parts_of(inputs), ask, len(inputs))


def _by_group(groups: Sequence[Sequence[int]], ask: Callable[[Sequence[int]], Predictions]) -> Predictions:
    """The answers in the order of the inputs, whose places stand in the groups."""
    back = np.argsort(np.array([place for group in groups for place in group], dtype=np.intp))
    try:
        return in_turn(groups, ask, len(back)).take(back)
    except (ModelUnavailable, Interrupted) as error:
        error.answers = error.answers.take(back)
        raise
