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
from aitest_lib.models.batches import Batch
from aitest_lib.models.pixels import Pixels, prepared_images
from aitest_lib.types import Clip

PNG_LEVEL = 3  # thrice as fast as Pillow's 6, for a tenth more bytes


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


def plain_rows(inputs: pd.DataFrame) -> list[list[Any]]:
    """The rows as lists of Python values; missing values of every kind are None."""
    columns = [_plain_column(inputs.iloc[:, n]) for n in range(inputs.shape[1])]
    return [list(row) for row in zip(*columns, strict=True)] if columns else [[] for _ in range(len(inputs))]


def nested_images(images: Pixels, image: Image | None) -> list[Any]:
    """Pixels as the model takes them, as nested lists; grey ones have an axis of channels if the card says `channels`."""
    image = image or Image()
    values = prepared_images(images, image, np.float64)
    if images.shape[3] == 1 and image.channels is None:
        values = values.squeeze(axis=1 if image.layout == "CHW" else 3)
    nested: list[Any] = values.tolist()
    return nested


def png_bytes(image: NDArray[np.uint8]) -> bytes:
    """One image (H×W×C, uint8) as PNG: grey, RGB or RGBA."""
    try:
        from PIL import Image as Pillow
    except ImportError as error:
        raise InputError("images as PNG need Pillow, which is not installed; run pip install 'aitest[image]'") from error
    plain = image[..., 0] if image.shape[2] == 1 else image
    out = io.BytesIO()
    Pillow.fromarray(plain).save(out, format="PNG", compress_level=PNG_LEVEL)
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


def _of_images(inputs: Pixels, used: set[str], card: Card) -> dict[str, Any]:
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


def _plain_column(column: pd.Series[Any]) -> list[Any]:
    values: list[Any] = column.tolist()
    missing = column.isna().to_numpy()
    if missing.any():
        values = [None if absent else value for value, absent in zip(values, missing, strict=True)]
    return values


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
