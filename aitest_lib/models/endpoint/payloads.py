"""What one call carries: the inputs of a batch as template variables and as bytes, for every type of model."""

from __future__ import annotations

import base64
import io
import secrets
import wave
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aitest_lib.config.card import Card
from aitest_lib.config.inputs import Image
from aitest_lib.config.templates import modality
from aitest_lib.errors import InputError, ModelAnswerError
from aitest_lib.models.base import select_columns
from aitest_lib.models.batches import Batch
from aitest_lib.types import Clip

EXPECTED = {
    "tabular": "a DataFrame",
    "text": "a list of texts",
    "conversation": "a list of conversations, each a list of turns {role, text}",
    "image": "a uint8 array N×H×W or N×H×W×C",
    "speech": "a list of clips",
}


class Payload:
    """The inputs of one call. Only what the templates use is made, and made once for all attempts."""

    def __init__(self, card: Card, inputs: Batch, used: set[str]) -> None:
        self._card = card
        self._inputs = inputs
        self._used = used

    @cached_property
    def variables(self) -> dict[str, Any]:
        """The template variables (contract, section 1), as JSON data. `ModelAnswerError` where an input has no such form."""
        about = {"n": len(self._inputs), "session": secrets.token_hex(16)}
        return about | _MAKERS[modality(self._card.type)](self._inputs, self._used, self._card)

    @cached_property
    def file(self) -> tuple[bytes, str]:
        """The bytes of the one input, and their media type: PNG or WAV."""
        if modality(self._card.type) == "image":
            return png_bytes(np.asarray(self._inputs)[0]), "image/png"
        clip: Clip = self._inputs[0]  # type: ignore[assignment]
        return wav_bytes(clip), "audio/wav"


def checked_inputs(inputs: Any, card: Card) -> Batch:
    """The inputs, columns selected; `InputError` where they are not of the kind that the card's type takes."""
    kind = modality(card.type)
    if kind == "tabular" and isinstance(inputs, pd.DataFrame):
        return select_columns(inputs, card)
    if kind == "image" and isinstance(inputs, np.ndarray) and inputs.dtype == np.uint8 and inputs.ndim in (3, 4):
        return _fitting_images(inputs, card)
    if kind in ("text", "conversation", "speech") and isinstance(inputs, (list, tuple)):
        wanted = {"text": str, "conversation": (list, tuple), "speech": Clip}[kind]
        if all(isinstance(one, wanted) for one in inputs):  # type: ignore[arg-type]
            return _fitting_clips(inputs, card) if kind == "speech" else inputs
    got = f"a {type(inputs).__name__}"
    if isinstance(inputs, np.ndarray):
        got = f"an array of {inputs.dtype} with {inputs.ndim} axes"
    elif isinstance(inputs, (list, tuple)) and inputs:
        got += f" that holds a {type(inputs[0]).__name__}"
    raise InputError(f"{card.name} ({card.type}): got {got} as inputs, expected {EXPECTED[kind]}")


def plain_rows(inputs: pd.DataFrame) -> list[list[Any]]:
    """The rows as lists of Python values; missing values of every kind are None."""
    columns = [_plain_column(inputs.iloc[:, n]) for n in range(inputs.shape[1])]
    return [list(row) for row in zip(*columns, strict=True)] if columns else [[] for _ in range(len(inputs))]


def nested_images(images: NDArray[np.uint8], image: Image | None) -> list[Any]:
    """Pixels as the model takes them, as nested lists: scaled, standardised and laid out as the card says."""
    image = image or Image()
    values: NDArray[Any] = images
    if image.channels is not None and images.ndim == 3:
        values = images[..., np.newaxis]
    if image.range[1] == 1:
        values = values / 255
    channels = values.shape[3] if values.ndim == 4 else 1
    for name, parameter in (("mean", image.mean), ("std", image.std)):
        if parameter is not None and len(parameter) not in (1, channels):
            raise InputError(f"inputs.image.{name}: got {len(parameter)} numbers for images of {channels} channels")
    if image.mean is not None:
        values = values - np.array(image.mean)
    if image.std is not None:
        values = values / np.array(image.std)
    if image.layout == "CHW" and values.ndim == 4:
        values = values.transpose(0, 3, 1, 2)
    nested: list[Any] = values.tolist()
    return nested


def png_bytes(image: NDArray[np.uint8]) -> bytes:
    """One image (H×W or H×W×C, uint8) as PNG."""
    try:
        from PIL import Image as Pillow
    except ImportError as error:
        raise InputError("images as PNG need Pillow, which is not installed; run pip install 'aitest[image]'") from error
    plain = image[..., 0] if image.ndim == 3 and image.shape[2] == 1 else image
    out = io.BytesIO()
    Pillow.fromarray(plain).save(out, format="PNG")
    return out.getvalue()


def pcm_bytes(clip: Clip) -> bytes:
    """The samples as PCM16 (little-endian); what was read as `sample / 32768` comes back exactly."""
    samples = np.asarray(clip.samples, dtype=np.float64)
    if not np.isfinite(samples).all():
        raise ModelAnswerError("the request cannot be made from this clip: it holds samples that are not finite")
    return np.clip(np.round(samples * 32768), -32768, 32767).astype("<i2").tobytes()


def wav_bytes(clip: Clip) -> bytes:
    """The clip as a mono WAV file of PCM16."""
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(clip.sample_rate)
        file.writeframes(pcm_bytes(clip))
    return out.getvalue()


def _of_table(inputs: pd.DataFrame, used: set[str], card: Card) -> dict[str, Any]:
    fields = [str(name) for name in inputs.columns]
    if not used & {"rows", "records", "flat"}:
        return {"fields": fields}
    rows = plain_rows(inputs)
    variables: dict[str, Any] = {"fields": fields, "rows": rows}
    if "records" in used:
        variables["records"] = [dict(zip(fields, row, strict=True)) for row in rows]
    if "flat" in used:
        variables["flat"] = [cell for row in rows for cell in row]
    return variables


def _of_texts(inputs: Sequence[str], used: set[str], card: Card) -> dict[str, Any]:
    return {"texts": list(inputs), "text": inputs[0]}


def _of_turns(inputs: Sequence[Any], used: set[str], card: Card) -> dict[str, Any]:
    """The one conversation, up to and with its last turn of the user."""
    turns = [turn if isinstance(turn, Mapping) else {} for turn in inputs[0]]
    users = [n for n, turn in enumerate(turns) if turn.get("role") == "user"]
    if not users or not all({"role", "text"} <= set(turn) for turn in turns):
        raise ModelAnswerError("the request cannot be made: expected turns {role, text} with at least one of the role user")
    last = users[-1]
    return {"turns": [{"role": turn["role"], "text": turn["text"]} for turn in turns[: last + 1]], "text": turns[last]["text"]}


def _of_images(inputs: NDArray[np.uint8], used: set[str], card: Card) -> dict[str, Any]:
    variables: dict[str, Any] = {}
    if "images" in used:
        variables["images"] = nested_images(inputs, card.inputs.image)
    if used & {"images_b64", "image_b64"}:
        variables["images_b64"] = [_base64(png_bytes(image)) for image in inputs]
        variables["image_b64"] = variables["images_b64"][0]
    return variables


def _of_clip(inputs: Sequence[Clip], used: set[str], card: Card) -> dict[str, Any]:
    clip, speech = inputs[0], card.inputs.speech
    variables: dict[str, Any] = {"sample_rate": clip.sample_rate}
    if speech is not None and speech.language is not None:
        variables["language"] = speech.language
    if "audio_b64" in used:
        variables["audio_b64"] = _base64(wav_bytes(clip))
    if "pcm_b64" in used:
        variables["pcm_b64"] = _base64(pcm_bytes(clip))
    return variables


_MAKERS: dict[str, Callable[[Any, set[str], Card], dict[str, Any]]] = {
    "tabular": _of_table,
    "text": _of_texts,
    "conversation": _of_turns,
    "image": _of_images,
    "speech": _of_clip,
}


def _fitting_images(images: NDArray[np.uint8], card: Card) -> NDArray[np.uint8]:
    image = card.inputs.image
    channels = images.shape[3] if images.ndim == 4 else 1
    if image is not None and image.size is not None and images.shape[1:3] != image.size:
        got, expected = (f"{height}×{width}" for height, width in (images.shape[1:3], image.size))
        raise InputError(f"{card.name}: got images of {got} pixels, but inputs.image.size is {expected} (height × width)")
    if image is not None and image.channels not in (None, channels):
        raise InputError(f"{card.name}: got images of {channels} channels, but inputs.image.channels is {image.channels}")
    return images


def _fitting_clips(clips: Sequence[Clip], card: Card) -> Sequence[Clip]:
    speech = card.inputs.speech
    for clip in clips:
        if speech is not None and clip.sample_rate != speech.sample_rate:
            got, expected = f"{clip.sample_rate} samples per second", speech.sample_rate
            raise InputError(
                f"{card.name}: got a clip of {got}, but inputs.speech.sample_rate is {expected}; resample the clips"
            )
        if clip.samples.ndim != 1:
            raise InputError(f"{card.name}: got a clip with {clip.samples.ndim} axes, expected mono samples (one axis)")
    return clips


def _plain_column(column: pd.Series[Any]) -> list[Any]:
    values: list[Any] = column.tolist()
    missing = column.isna().to_numpy()
    if missing.any():
        values = [None if absent else value for value, absent in zip(values, missing, strict=True)]
    return values


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
