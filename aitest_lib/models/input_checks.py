"""What a model is asked must be of the kind that its type takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from aitest_lib.config.inputs import Inputs
from aitest_lib.config.templates import modality
from aitest_lib.errors import InputError
from aitest_lib.models.base import select_columns
from aitest_lib.models.batches import Batch
from aitest_lib.models.pixels import fitting_images
from aitest_lib.types import Clip

EXPECTED = {
    "tabular": "a DataFrame",
    "text": "a list of texts",
    "conversation": "a list of conversations, each a list of turns {role, text}",
    "image": "a uint8 array N×H×W×C, or N×H×W of grey images",
    "speech": "a list of clips",
}


def checked_inputs(inputs: Any, name: str, model_type: str, wanted: Inputs) -> Batch:
    """The inputs for the model `name`: tables with the columns that are `wanted`, images as N×H×W×C, lists as they are.

    `InputError` where they are not of the kind that the model's type takes, or not as `wanted` says.
    """
    kind = modality(model_type)
    if kind == "tabular" and isinstance(inputs, pd.DataFrame):
        return select_columns(inputs, name, wanted.columns)
    if kind == "image" and isinstance(inputs, np.ndarray) and inputs.dtype == np.uint8 and inputs.ndim in (3, 4):
        return fitting_images(inputs, name, wanted.image)
    if kind in ("text", "conversation", "speech") and isinstance(inputs, (list, tuple)):
        member = {"text": str, "conversation": (list, tuple), "speech": Clip}[kind]
        if all(isinstance(one, member) for one in inputs):  # type: ignore[arg-type]
            return _fitting_clips(inputs, name, wanted) if kind == "speech" else inputs
    got = f"a {type(inputs).__name__}"
    if isinstance(inputs, np.ndarray):
        got = f"an array of {inputs.dtype} with {inputs.ndim} axes"
    elif isinstance(inputs, (list, tuple)) and inputs:
        got += f" that holds a {type(inputs[0]).__name__}"
    raise InputError(f"{name} ({model_type}): got {got} as inputs, expected {EXPECTED[kind]}")


def _fitting_clips(clips: Sequence[Clip], name: str, wanted: Inputs) -> Sequence[Clip]:
    speech = wanted.speech
    for clip in clips:
        if speech is not None and clip.sample_rate != speech.sample_rate:
            got, expected = f"{clip.sample_rate} samples per second", speech.sample_rate
            raise InputError(f"{name}: got a clip of {got}, but inputs.speech.sample_rate is {expected}; resample the clips")
        if clip.samples.ndim != 1:
            raise InputError(f"{name}: got a clip with {clip.samples.ndim} axes, expected mono samples (one axis)")
    return clips
