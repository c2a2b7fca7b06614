"""Pixels as a card says that its model takes them: checked, scaled, standardised, laid out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from aitest_lib.config.inputs import Image
from aitest_lib.errors import InputError

Pixels = NDArray[np.uint8]  # N×H×W×C; C: 1 grey, 3 RGB, 4 RGB and alpha
AS_THEY_ARE = (0, 255)


def fitting_images(images: Pixels, name: str, image: Image | None) -> Pixels:
    """The images N×H×W×C (grey ones may come as N×H×W); `InputError` where the card `name` expects others."""
    images = images[..., np.newaxis] if images.ndim == 3 else images
    *shape, channels = images.shape[1:]
    if image is None:
        return images
    if image.size is not None and tuple(shape) != image.size:
        got, expected = (f"{height}×{width}" for height, width in (shape, image.size))
        raise InputError(f"{name}: got images of {got} pixels, but inputs.image.size is {expected} (height × width)")
    if image.channels not in (None, channels):
        raise InputError(f"{name}: got images of {channels} channels, but inputs.image.channels is {image.channels}")
    for key, values in (("mean", image.mean), ("std", image.std)):
        if values is not None and len(values) not in (1, channels):
            raise InputError(f"{name}: inputs.image.{key}: got {len(values)} numbers for images of {channels} channels")
    return images


def prepared_images(images: Pixels, image: Image, dtype: DTypeLike) -> NDArray[Any]:
    """Images as a card says: 0..255 mapped to its range, `(value - mean) / std` for each channel, laid out.

    Returns N×H×W×C or N×C×H×W of `dtype`, a float type; uint8, and a view, where nothing is scaled.
    """
    values: NDArray[Any] = images
    if image.range != AS_THEY_ARE or image.mean is not None or image.std is not None:
        values = images.astype(dtype)
        if image.range != AS_THEY_ARE:
            values /= 255
        if image.mean is not None:
            values -= np.array(image.mean, dtype)
        if image.std is not None:
            values /= np.array(image.std, dtype)
    return values.transpose(0, 3, 1, 2) if image.layout == "CHW" else values


def images_for_python(images: Pixels, image: Image | None) -> NDArray[Any]:
    """What a Python model gets, an array of its own: uint8, or float32 where the card asks for a range, mean or std."""
    image = image or Image()
    if not asks_for_scaling(image):
        image = image.model_copy(update={"range": AS_THEY_ARE})
    return np.array(prepared_images(images, image, np.float32), order="C")


def asks_for_scaling(image: Image) -> bool:
    """Does a card say itself, and not by default, that the pixels are to be scaled."""
    in_range = "range" in image.model_fields_set and image.range != AS_THEY_ARE
    return in_range or image.mean is not None or image.std is not None
