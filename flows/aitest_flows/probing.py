"""`probe` and `register`: the first questions to a model, and its entry in the registry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from aitest_lib.config.card import LoadedCard, load_card
from aitest_lib.config.inputs import Image, Speech
from aitest_lib.config.templates import modality
from aitest_lib.data.audio import AudioSource
from aitest_lib.data.images import ImageSource
from aitest_lib.data.sources import Source, open_source
from aitest_lib.data.table import to_frame
from aitest_lib.errors import InputError, ModelUnavailable, unknown
from aitest_lib.models.opening import open_model
from aitest_lib.models.probe import ProbeResult, probe
from aitest_lib.types import Clip
from aitest_tasks.audio_seeds import TEXT
from aitest_tasks.model_registry import Registered, register_card, resolve_card
from aitest_tasks.settings import Settings, open_settings
from aitest_tasks.tracking import Tracking

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

T = TypeVar("T")

PROBE_ROWS = 20
MOST_LOOKED_AT = 60


def probe_card(card: Path, data: str | Path | None) -> ProbeResult:
    """Asks the model behind a card about the first rows of `data`."""
    return probe_loaded(load_card(card), data)


def probe_loaded(loaded: LoadedCard, data: str | Path | None) -> ProbeResult:
    """Asks the model behind a loaded card. Without data there is nothing to ask with: an `InputError`."""
    if data is None:
        raise InputError("got no data, expected rows to ask the model with; give --data FILE")
    if loaded.card.mlflow is not None:
        loaded, _ = resolve_card(Tracking(open_settings()), loaded)
    model = open_model(loaded)
    try:
        return probe(model, _sample(loaded, open_source(str(data), modality(loaded.card.type))), PROBE_ROWS)
    finally:
        model.close()


def register_card_file(settings: Settings, card: Path, data: str | Path | None) -> Registered:
    """Probes (where there are data) and registers; a model that gives no usable answer is not registered."""
    loaded = load_card(card)
    if data is not None:
        found = probe_loaded(loaded, data)
        if found.problems:
            raise ModelUnavailable(f"{loaded.card.name} was not registered: {found.problems[0]}")
    return register_card(Tracking(settings), loaded)


def no_scores(card: Path) -> str:
    """Why a model gives no scores, as far as its card knows."""
    loaded = load_card(card).card
    if not loaded.type.endswith("-classifier"):
        return "no"
    if loaded.endpoint is not None:
        return "no" if loaded.endpoint.response.scores else "no (`response.scores` in the card says where they stand)"
    return "no" if loaded.classes else "no (they need `classes` in the card)"


def _sample(loaded: LoadedCard, source: Source) -> pd.DataFrame | NDArray[np.uint8] | list[Clip]:
    """The first rows; of images, some of one shape from all over the data, which are often sorted by class; clips likewise."""
    if isinstance(source, ImageSource):
        return _sample_images(loaded, source)
    if isinstance(source, AudioSource):
        clips = some_clips(source, loaded.card.inputs.speech)
        return [clip for clip in clips if clip.sample_rate == clips[0].sample_rate][:PROBE_ROWS]
    columns = loaded.card.inputs.columns
    names = source.schema.names
    if columns is None:
        raise InputError(
            f"the card {loaded.card.name} does not say which columns the model expects; list them as inputs.columns to probe it"
        )
    for name in columns:
        if name not in names:
            raise InputError(f"the card's inputs.columns: {unknown('column', name, names)} (of {source.url})")
    rows: NDArray[np.int64] = np.arange(min(PROBE_ROWS, source.rows))
    return to_frame(source.take(rows, list(columns)))


def some_images(source: ImageSource, image: Image | None) -> list[NDArray[np.uint8]]:
    """Up to 60 images from all over the data that can be used; `image`: what the card says of them."""
    return _some(source.rows, lambda positions: source.images(positions, image), lambda: source.index(image), source.url)


def some_clips(source: AudioSource, speech: Speech | None) -> list[Clip]:
    """Up to 60 clips from all over the data that can be used; `speech`: what the card says of them."""
    return list(_clips_at(source, speech).values())


def said_and_heard(card: Path, data: str | Path, found: ProbeResult) -> list[tuple[str, str]]:
    """What is said in the clips that a recogniser was probed with, where the data tell, beside what it heard."""
    loaded = load_card(card)
    source = open_source(str(data), modality(loaded.card.type))
    if not isinstance(source, AudioSource) or TEXT not in source.schema.names:
        return []
    clips = _clips_at(source, loaded.card.inputs.speech)
    rate = next(iter(clips.values())).sample_rate
    asked = [position for position, clip in clips.items() if clip.sample_rate == rate][: found.rows]
    said = source.table.take(np.array(asked), [TEXT]).column(TEXT).to_pylist()
    return [(text or "", str(heard or "")) for text, heard in zip(said, found.answers.labels.tolist(), strict=True)]


def _clips_at(source: AudioSource, speech: Speech | None) -> dict[int, Clip]:
    def read(positions: NDArray[np.int64]) -> Iterator[tuple[int, Clip]]:
        return zip(positions.tolist(), source.clips(positions, speech), strict=True)

    return dict(_some(source.rows, read, lambda: source.index(speech), source.url))


def _some(rows: int, read: Callable[[NDArray[np.int64]], Iterator[T]], check: Callable[[], object], url: str) -> list[T]:
    found: list[T] = []
    for position in np.unique(np.linspace(0, rows - 1, MOST_LOOKED_AT).astype(np.int64)):
        with suppress(InputError):  # broken files are listed by a run
            found += read(np.array([position]))
    if not found:
        check()  # says why none can be used
        raise InputError(f"data {url}: none of the files that were tried can be used; look at some of them")
    return found


def _sample_images(loaded: LoadedCard, source: ImageSource) -> NDArray[np.uint8]:
    found = some_images(source, loaded.card.inputs.image)
    return np.stack([image for image in found if image.shape == found[0].shape][:PROBE_ROWS])
