"""From a card to the model behind it."""

from __future__ import annotations

from collections.abc import Sequence

from aitest_lib.config.card import LoadedCard, model_info
from aitest_lib.models.base import Model
from aitest_lib.models.endpoint.model import EndpointModel
from aitest_lib.models.predictions import PredictionsModel
from aitest_lib.models.processes.model import ChildModel
from aitest_lib.types import ModelInfo


def open_model(loaded: LoadedCard, info: ModelInfo | None = None, *, private: Sequence[str] = ()) -> Model:
    """The model behind a card.

    `info`: what is known beyond the card (registry version, probed classes). `private`: columns whose values appear in
    no message. A card whose references are not set, or whose code cannot be imported, raises when it is first used.
    """
    info = info or model_info(loaded)
    if loaded.card.endpoint:
        return EndpointModel(loaded, info, private=private)
    if loaded.card.predictions is None:
        return ChildModel(loaded, info, private=private)
    return PredictionsModel(loaded, info)
