"""The `inputs` of a card: what the model takes, apart from how it is asked."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from aitest_lib.config.loading import Document, StrictModel

Positive = Annotated[float, Field(gt=0)]
Pixels = Annotated[int, Field(ge=1, le=65_536)]


class Image(StrictModel):
    """How pixels become numbers: 0..255 is mapped to `range`, then `(value - mean) / std` is taken for each channel.

    `size`: height and width in pixels, and `channels`: both must fit the images where they are given. With `channels`, grey
    images have an axis of channels in the `images` of a request. PNG bytes (`raw`, `images_b64`) are the images as they are.

    A `python` model gets uint8 N×H×W×C (N×C×H×W with `layout: CHW`), and float32 where the card itself gives `range: [0, 1]`,
    `mean` or `std`. An `onnx` model gets what its input takes: bytes as they are, or floats as said here; without `layout` in
    the card, channels stand where the shape of the input shows them, else first.
    """

    size: tuple[Pixels, Pixels] | None = None
    channels: Literal[1, 3] | None = None
    layout: Literal["HWC", "CHW"] = "HWC"
    range: tuple[Literal[0], Literal[1, 255]] = (0, 1)
    mean: tuple[float, ...] | None = None
    std: tuple[Positive, ...] | None = None


class Speech(StrictModel):
    """Clips as mono PCM16 with `sample_rate` samples per second; `language` as the service names it (en-US)."""

    sample_rate: int = Field(ge=1000, le=384_000)
    encoding: Literal["pcm16"] = "pcm16"
    language: str | None = None


class Inputs(StrictModel):
    """What the model expects: tables by `columns`, in the order in which they are sent; pixels; clips."""

    columns: tuple[str, ...] | None = None
    image: Image | None = None
    speech: Speech | None = None


def check_inputs(document: Document, model_type: str, inputs: Inputs) -> None:
    """What is said about inputs must be about inputs of the model's type."""
    for key, modality in (("columns", "tabular"), ("image", "image"), ("speech", "speech")):
        if getattr(inputs, key) is not None and not model_type.startswith(modality):
            raise document.error(("inputs", key), f"is for {modality} models, but the type is {model_type}; leave it out")
    image = inputs.image
    if image is None:
        return
    for name, values in (("mean", image.mean), ("std", image.std)):
        if values is not None and len(values) != (image.channels or len(values)):
            expected = f"{image.channels}, one for each channel"
            raise document.error(("inputs", "image", name), f"got {len(values)} numbers, expected {expected}")
    if image.mean is not None and image.std is not None and len(image.mean) != len(image.std):
        got = f"{len(image.mean)} means and {len(image.std)} stds"
        raise document.error(("inputs", "image"), f"got {got}, expected as many of both")
