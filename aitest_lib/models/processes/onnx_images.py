"""The inputs and answers of an ONNX model of images: pixels to one tensor, logits to probabilities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aitest_lib.config.inputs import Image
from aitest_lib.models.pixels import Pixels, asks_for_scaling, prepared_images
from aitest_lib.models.processes.python_child import MisfitError

DTYPES = {"tensor(uint8)": "uint8", "tensor(float)": "float32", "tensor(double)": "float64", "tensor(float16)": "float16"}
CHANNELS = (1, 3, 4)
TRIALS = 8  # images that tell logits from probabilities
TOLERANCE = 0.05  # quantised probabilities sum to 1 only roughly


class ImageFeed:
    """Makes the one input tensor: n x channels x height x width, n x height x width x channels, or n x height x width (grey).

    `image`: what the card sets of `inputs.image`. Floats get the pixels as it says, in [0, 1] where it says nothing; uint8
    gets them as they are. Without `layout` in the card, the axes are those of the input's shape where just one of them can be
    the channels, else channels first.
    """

    def __init__(self, inputs: Sequence[Any], image: dict[str, Any]) -> None:
        if len(inputs) != 1:
            raise ValueError(f"the model has the inputs {', '.join(item.name for item in inputs)}, expected one for the images")
        [self._item] = inputs
        shape = self._item.shape or []
        if self._item.type not in DTYPES or len(shape) not in (3, 4):
            raise ValueError(
                f"the input {self._item.name} is a {self._item.type} of shape {shape}, "
                "expected images: uint8 or floats of 4 axes (3 for grey ones)"
            )
        known = Image.model_validate(image)
        layout = known.layout if "layout" in image or len(shape) == 3 else layout_of(shape)
        self._image = known.model_copy(update={"layout": layout})

    def tensors(self, images: Pixels) -> dict[str, NDArray[Any]]:
        """The tensor by its name."""
        item, dtype = self._item, DTYPES[self._item.type]
        if dtype == "uint8" and asks_for_scaling(self._image):
            raise MisfitError(
                f"the model's input {item.name} takes the bytes of the pixels, "
                "and `inputs.image` asks for a range, mean or std; leave these out"
            )
        scaling = {"range": (0, 255)} if dtype == "uint8" else {}
        values = prepared_images(images, self._image.model_copy(update=scaling), "float64" if dtype == "float64" else "float32")
        if len(item.shape) == 3 and images.shape[3] == 1:
            values = values.reshape(images.shape[:3])
        fits = len(item.shape) == values.ndim and all(
            got == expected for got, expected in zip(values.shape[1:], item.shape[1:], strict=True) if isinstance(expected, int)
        )
        if not fits:
            raise MisfitError(
                f"the model's input {item.name} takes images as {_shown(item.shape)}, got {_shown(('n', *values.shape[1:]))}; "
                "give images of that size and number of channels, and check `inputs.image.layout`"
            )
        return {item.name: np.ascontiguousarray(values, dtype)}


class ImageAnswers:
    """Answers to images. `ask`: those of the model as they are; `decides`: the card has a `decision`.

    A model that answers one row of k numbers an image and nothing else answers probabilities or logits (softmax makes them
    probabilities; of one number, for a card with `decision`, the logistic function). Which, is told from a few images of noise
    before the first answer, so that it depends on the model alone.
    """

    def __init__(self, ask: Callable[[Any], tuple[Any, Any]], classes: list[Any] | None, *, decides: bool) -> None:
        self._ask = ask
        self._classes = classes
        self._decides = decides
        self._is_logits: bool | None = None

    def answer(self, images: Pixels) -> tuple[Any, Any]:
        """Labels and scores as the model has them; probabilities (n, k) and None for one that has nothing but scores."""
        labels, scores = self._ask(images)
        if scores is not None or not isinstance(labels, np.ndarray) or labels.dtype.kind != "f":
            return labels, scores
        self._check(labels)
        if self._is_logits is None:
            trial, _ = self._ask(_noise(images.shape[1:]))
            self._is_logits = not are_nearly_probabilities(np.asarray(trial, "float64"))
        return (probabilities(labels.astype("float64")) if self._is_logits else labels), None

    def _check(self, scores: NDArray[Any]) -> None:
        if scores.ndim > 2:
            raise MisfitError(
                f"the model's output has the shape {_shown(('n', *scores.shape[1:]))}, expected n×k: k scores an image"
            )
        if scores.ndim == 1:
            if not self._decides:
                raise MisfitError("the model answers one score an image; add `classes` (two) and `decision: {threshold: 0.5}`")
            return
        width = scores.shape[1]
        if self._classes is None:
            raise MisfitError(
                f"the model answers {width} scores an image; list the {width} `classes` in the card, in their order"
            )
        if len(self._classes) != width:
            raise MisfitError(f"the model answers {width} scores an image, but the card has {len(self._classes)} `classes`")


def layout_of(shape: Sequence[Any]) -> str:
    """HWC where only the last of the four axes can be the channels, else CHW, which is what most exporters make."""
    return "HWC" if shape[3] in CHANNELS and shape[1] not in CHANNELS else "CHW"


def are_nearly_probabilities(scores: NDArray[Any]) -> bool:
    """Do all rows (n, k), or numbers (n,), that are finite look like probabilities."""
    rows = scores[:, np.newaxis] if scores.ndim == 1 else scores
    rows = rows[np.isfinite(rows).all(axis=1)]
    in_range = (rows >= -TOLERANCE) & (rows <= 1 + TOLERANCE)
    sums_to_one = rows.shape[1] == 1 or bool((abs(rows.sum(axis=1) - 1) <= TOLERANCE).all())
    return bool(in_range.all()) and sums_to_one


def probabilities(logits: NDArray[Any]) -> NDArray[Any]:
    """Softmax of rows (n, k); the logistic function of numbers (n,). float64."""
    if logits.ndim == 1:
        return 0.5 + 0.5 * np.tanh(0.5 * logits)  # the same, and no overflow
    parts: NDArray[Any] = np.exp(logits - logits.max(axis=1, keepdims=True))
    parts /= parts.sum(axis=1, keepdims=True)
    return parts


def _noise(shape: tuple[int, ...]) -> Pixels:
    """Some images of one shape: black, white, and noise that is always the same."""
    images = np.random.default_rng(0).integers(0, 256, (TRIALS, *shape), np.uint8)
    images[0], images[1] = 0, 255
    return images


def _shown(shape: Sequence[Any]) -> str:
    return "×".join(str(size) if isinstance(size, int) else "n" if place == 0 else "?" for place, size in enumerate(shape))
