"""What properties of speech need, told before anything is asked or made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from aitest_lib.config.card import load_card
from aitest_lib.config.loading import Location, located
from aitest_lib.config.suite import LoadedSuite, PropertyConfig, searches_of, transforms_of
from aitest_lib.data.audio import AudioSource
from aitest_lib.data.recordings import NoiseSource, labels_of
from aitest_lib.errors import InputError, unknown
from aitest_lib.properties.catalog import spec
from aitest_lib.transforms.audio.base import AudioTransform
from aitest_lib.transforms.audio.voice import VoiceOver
from aitest_lib.voices.service import Service
from aitest_lib.voices.speaking import check_voice
from aitest_tasks.seed_tables import SPEAKER
from aitest_tasks.voices import voice_of


def check_speech(loaded: LoadedSuite, source: AudioSource, properties: Sequence[int]) -> None:
    """Raises `InputError`, with its place in the suite, for voices that an engine does not have, recordings that are not there,
    a comparison of groups without groups, and speakers in two groups of one attribute."""
    columns, label = source.schema.names, loaded.suite.data.label
    if label is not None and label in loaded.suite.data.columns and loaded.suite.data.columns[label].private:
        problem = "what is said stands in every report, so it cannot be private; leave it out of the manifest"
        raise loaded.document.error(("data", "schema", label), problem)
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
        if spec(item.property).by_voices and item.voices is None:
            for name in loaded.suite.data.protected:
                _check_groups(loaded, source, name)
        if item.voices is not None:
            _check_voiced_groups(loaded, item, at)
        if item.reference_model is not None:
            second = load_card(Path(located(item.reference_model, loaded.base_dir))).card
            if second.type != "speech-to-text":
                raise loaded.document.error((*at, "reference_model"), f"got a {second.type}, expected a second recogniser")


def _check_groups(loaded: LoadedSuite, source: AudioSource, column: str) -> None:
    """At least two groups, the privileged one among them, and every speaker in one of them."""
    at: Location = ("data", "protected", column)
    given = [SPEAKER] if SPEAKER in source.schema.names and column != SPEAKER else []
    table = pa.concat_tables(source.table.batches([column, *given])).to_pandas().dropna()
    known = [str(one) for one in table[column].unique()]
    if len(known) < 2:
        raise loaded.document.error(at, f"got {len(known)} groups in the column {column}, expected at least two to compare")
    _check_privileged(loaded, column, known)
    for speaker, found in table.groupby(SPEAKER)[column].unique().items() if given else ():
        if len(found) > 1:
            private = any(name in loaded.suite.data.columns and loaded.suite.data.columns[name].private for name in given)
            who = "a speaker" if private else f"speaker {speaker!r}"
            shown = " and ".join(str(one) for one in found[:2])
            raise loaded.document.error(at, f"got {who} in two groups, {shown}, expected one for each; correct {source.url}")


def _check_voiced_groups(loaded: LoadedSuite, item: PropertyConfig, at: Location) -> None:
    """Gates on gaps between groups need an attribute by which the voices are in at least two."""
    groups: dict[str, set[str]] = {}
    for voice in item.voices or []:
        for attribute, group in voice.groups.items():
            groups.setdefault(attribute, set()).add(group)
    for attribute in loaded.suite.data.protected:
        if len(groups.get(attribute, ())) > 1:
            _check_privileged(loaded, attribute, sorted(groups[attribute]))
    if {"wer_gap", "wer_ratio"} & set(item.gates) and not any(len(found) > 1 for found in groups.values()):
        problem = "a gap is one between groups: give the voices `groups`, e.g. {gender: female} and {gender: male}"
        raise loaded.document.error((*at, "voices"), problem)


def _check_privileged(loaded: LoadedSuite, attribute: str, known: Sequence[str]) -> None:
    given = loaded.suite.data.protected.get(attribute)
    for key in ("privileged", "cut_at"):
        if given is not None and isinstance(getattr(given, key), list):
            where: Location = ("data", "protected", attribute, key)
            raise loaded.document.error(where, "got a list, expected one group of speakers, named as the data name it")
    if given is not None and given.privileged is not None and str(given.privileged) not in known:
        at: Location = ("data", "protected", attribute, "privileged")
        raise loaded.document.error(at, unknown("group", str(given.privileged), known))


def _check_voice(loaded: LoadedSuite, component: VoiceOver, at: Location) -> None:
    voice = voice_of(component, loaded.base_dir)
    try:
        if voice.engine.name == Service.name:
            voice.engine.check(voice.voice)  # to let it speak may cost money: the first text will show
        else:
            check_voice(voice)
    except InputError as error:
        raise loaded.document.error(at, str(error)) from error


def _check_recordings(loaded: LoadedSuite, source: NoiseSource, at: Location) -> None:
    try:
        known = labels_of(located(str(source.folder), loaded.base_dir))
    except InputError as error:
        raise loaded.document.error(at, str(error)) from error
    if source.name is not None and source.name not in known:
        raise loaded.document.error(at, f"{unknown('noise', source.name, list(known))} (of {source.folder})")
