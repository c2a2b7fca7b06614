"""What properties of speech need, told before anything is asked or made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from aitest_lib.config.card import load_card
from aitest_lib.config.loading import Location, located
from aitest_lib.config.suite import LoadedSuite, searches_of, transforms_of
from aitest_lib.data.audio import AudioSource
from aitest_lib.data.recordings import NoiseSource, labels_of
from aitest_lib.errors import InputError, unknown
from aitest_lib.properties.catalog import spec
from aitest_lib.transforms.audio.base import AudioTransform
from aitest_lib.transforms.audio.voice import VoiceOver
from aitest_lib.voices.speaking import check_voice
from aitest_tasks.transcripts import SPEAKER
from aitest_tasks.voices import voice_of


def check_speech(loaded: LoadedSuite, source: AudioSource, properties: Sequence[int]) -> None:
    """Raises `InputError`, with its place in the suite, for voices that an engine does not have, recordings that are not there,
    a comparison of groups without groups, and speakers in two groups of one attribute."""
    columns = source.schema.names
    for index in properties:
        item = loaded.suite.properties[index]
        at: Location = ("properties", index)
        made = transforms_of(item, loaded.document, at)
        for place, component in enumerate(made):
            if isinstance(component, VoiceOver):
                _check_voice(loaded, component, (*at, "voices", place))
        for component in (*made, *(one.transform for one in searches_of(item, loaded.document, at))):
            noise = component.noise_source if isinstance(component, AudioTransform) else None
            if noise is not None and noise.folder is not None:
                _check_recordings(loaded, noise, (*at, "transforms"))
        if spec(item.property).by_voices and item.voices is None and not loaded.suite.data.protected:
            problem = (
                f"{item.property} compares groups of speakers: name voices that say the texts (`voices`), or the columns of "
                f"the groups as data.protected (the data have {', '.join(columns)})"
            )
            raise loaded.document.error(at, problem)
        if spec(item.property).by_voices and item.voices is None and SPEAKER in columns:
            for name in loaded.suite.data.protected:
                _check_one_group(loaded, source, name)
        if item.reference_model is not None:
            second = load_card(Path(located(item.reference_model, loaded.base_dir))).card
            if second.type != "speech-to-text":
                raise loaded.document.error((*at, "reference_model"), f"got a {second.type}, expected a second recogniser")


def _check_one_group(loaded: LoadedSuite, source: AudioSource, column: str) -> None:
    if column == SPEAKER or column not in source.schema.names:
        return
    table = pa.concat_tables(source.table.batches([SPEAKER, column])).to_pandas().dropna(subset=[SPEAKER])
    groups = table.groupby(SPEAKER)[column].unique()
    for speaker, found in groups.items():
        if len(found) > 1:
            shown = " and ".join(str(one) for one in found[:2])
            problem = f"got speaker {speaker!r} in two groups, {shown}, expected one group for each; correct {source.url}"
            raise loaded.document.error(("data", "protected", column), problem)


def _check_voice(loaded: LoadedSuite, component: VoiceOver, at: Location) -> None:
    try:
        check_voice(voice_of(component, loaded.base_dir))
    except InputError as error:
        raise loaded.document.error(at, str(error)) from error


def _check_recordings(loaded: LoadedSuite, source: NoiseSource, at: Location) -> None:
    try:
        known = labels_of(located(str(source.folder), loaded.base_dir))
    except InputError as error:
        raise loaded.document.error(at, str(error)) from error
    if source.name is not None and source.name not in known:
        raise loaded.document.error(at, f"{unknown('noise', source.name, list(known))} (of {source.folder})")
