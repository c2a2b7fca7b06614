"""`aitest init`: a card and a suite to start from, each guess commented."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from aitest_flows.probing import some_clips, some_images
from aitest_flows.ready_cards import ReadyCard, ready_card
from aitest_lib.config.secrets import references
from aitest_lib.config.start import (
    CurlRequest,
    card_like,
    guess_classes,
    guess_protected,
    guess_type,
    parse_curl,
    slug,
    starting_card,
    starting_suite,
    waits,
)
from aitest_lib.config.start_image import image_card, image_card_like, image_suite
from aitest_lib.config.start_speech import speech_card, speech_card_like, speech_suite
from aitest_lib.data.audio import AudioSource
from aitest_lib.data.images import ImageSource
from aitest_lib.data.schema import Profile, build_profile
from aitest_lib.data.sources import holds_audio, holds_images
from aitest_lib.data.table import TableSource
from aitest_lib.errors import InputError, unknown
from aitest_lib.properties.base import PropertySpec
from aitest_lib.properties.catalog import specs_for
from aitest_lib.types import Scalar
from aitest_tasks.audio_seeds import TEXT
from aitest_tasks.seed_tables import seen_labels

CARD, SUITE = "model.yaml", "suite.yaml"
MOST_CLASSES = 50

Notes = list[tuple[str, str]]  # each file with what to know of it


def write_start(
    folder: Path, data: Path, label: str | None, name: str, *, curl: str | None = None, like: str | None = None
) -> Notes:
    """Writes `model.yaml` and `suite.yaml` into `folder`: from a curl command, from a ready card, or from the data alone.

    A type of model without properties gets a card only. Existing files are not overwritten: an `InputError`, before anything
    is written.
    """
    if curl is not None and like is not None:
        raise InputError("got --from-curl and --like, expected one of them; leave one out")
    ready = ready_card(like) if like is not None else None
    if ready.card.type == "speech-to-text" if ready is not None else holds_audio(data):
        call = parse_curl(curl, sends_file=True) if curl is not None else None
        return _write_speech_start(folder, data, label, name, call, ready)
    if ready.card.type.startswith("image-") if ready is not None else holds_images(data):
        return _write_image_start(folder, data, label, name, parse_curl(curl) if curl is not None else None, ready)
    if ready is not None and not ready.card.type.startswith("tabular-"):
        return _write_card_only(folder, data, name, ready)
    _check_free(folder, CARD, SUITE)
    source = TableSource(str(data.resolve()))
    names = source.schema.names
    if label is not None and label not in names:
        raise InputError(f"--label: {unknown('column', label, names)} (of {data})")
    request = parse_curl(curl) if curl is not None else None
    kind, classes = _guessed(source, label)
    columns = [column for column in names if column != label]
    if not columns:
        raise InputError(f"{data}: got no column but the label {label}, expected those that the model is asked with")
    if classes is not None and len(classes) < 2:
        raise InputError(f"{data}: got one class only ({classes[0]!r}) in {label}, expected rows of every class")
    if ready is not None:
        card, about = card_like(ready.text, slug(name), columns, kind, classes), _about(ready)
    else:
        card, about = _plain_card(name, kind or "tabular-classifier", columns, classes, request)
    kind = kind or (ready.card.type if ready else "tabular-classifier")
    profile = build_profile(source, None, {}, [], {label} if label else set())
    file = str(data)  # the suite stands in the current folder, which the path is relative to
    specs = [_applicable(spec, profile) for spec in specs_for(kind) if label is not None or not spec.needs_labels]
    suite = starting_suite(slug(name), CARD, file, label, profile, guess_protected(columns), specs, classes)
    _write(folder, {CARD: card, SUITE: suite})
    waiting = sum(waits(spec) for spec in specs)
    later = f", {waiting} of them as comments: they need what only you know" if waiting else ""
    notes = [*about, (SUITE, f"{len(columns)} columns, {len(specs)} properties{later}; look through its comments")]
    return [*notes, ("next", f"aitest probe {CARD} --data {data}, then aitest run {SUITE}")]


def _write_image_start(
    folder: Path, data: Path, label: str | None, name: str, curl: CurlRequest | None, ready: ReadyCard | None
) -> Notes:
    _check_free(folder, CARD, SUITE)
    source = ImageSource(str(data.resolve()))
    names = source.schema.names
    if label is not None and label not in names:
        raise InputError(f"--label: {unknown('column', label, names)} (of {data})")
    column = label or ("label" if "label" in names else None)
    seen = seen_labels(source.table, column, classifier=True)
    classes = seen if 0 < len(seen) <= MOST_CLASSES else None
    shapes = {image.shape for image in some_images(source, None)}
    shape = shapes.pop() if len(shapes) == 1 else None
    if ready is not None:
        card, notes = image_card_like(ready.text, name, classes, shape), _about(ready)
    else:
        card = image_card(name, classes, shape, curl)
        notes = [
            (CARD, "an image-classifier at an endpoint; every guess is commented"),
            *((CARD, note) for note in (curl.notes if curl else ())),
        ]
    specs = [spec for spec in specs_for("image-classifier") if column is not None or not spec.needs_labels]
    if shape is not None and shape[2] == 1:  # a grey image has no saturation
        specs = [
            replace(spec, default_transforms=tuple(item for item in spec.default_transforms if item["name"] != "saturation"))
            for spec in specs
        ]
    _write(folder, {CARD: card, SUITE: image_suite(name, CARD, str(data), label, specs)})
    found = f"{source.rows:,} images{f' of {len(seen)} classes' if seen else ', without labels'}, {len(specs)} properties"
    return [*notes, (SUITE, found), ("next", f"aitest probe {CARD} --data {data}, then aitest run {SUITE}")]


def _write_speech_start(
    folder: Path, data: Path, label: str | None, name: str, curl: CurlRequest | None, ready: ReadyCard | None
) -> Notes:
    _check_free(folder, CARD, SUITE)
    source = AudioSource(str(data.resolve()))
    names = source.schema.names
    if label is not None and label not in names:
        raise InputError(f"--label: {unknown('column', label, names)} (of {data})")
    column = label or (TEXT if TEXT in names else None)
    rates = {clip.sample_rate for clip in some_clips(source, None)}
    rate = rates.pop() if len(rates) == 1 else None
    if ready is not None:
        card, notes = speech_card_like(ready.text, name), _about(ready)
    else:
        card = speech_card(name, rate, curl)
        notes = [
            (CARD, "a speech-to-text model at an endpoint; every guess is commented"),
            *((CARD, note) for note in (curl.notes if curl else ())),
        ]
    specs = [spec for spec in specs_for("speech-to-text") if column is not None or not spec.needs_labels]
    groups = [one for one in guess_protected(names) if one != column]
    _write(folder, {CARD: card, SUITE: speech_suite(name, CARD, str(data), label, groups, specs)})
    found = f"{source.rows:,} clips{'' if column else ', without transcripts'}, {len(specs)} properties"
    return [*notes, (SUITE, found), ("next", f"aitest probe {CARD} --data {data}, then aitest run {SUITE}")]


def _write_card_only(folder: Path, data: Path, name: str, ready: ReadyCard) -> Notes:
    _check_free(folder, CARD)
    if not data.exists():
        raise InputError(f"{data}: there is no such file or folder; give the data that the model is to be asked with")
    _write(folder, {CARD: card_like(ready.text, slug(name))})
    return [*_about(ready), (SUITE, f"not written: there is no property for models of type {ready.card.type} yet")]


def _write(folder: Path, files: dict[str, str]) -> None:
    """All files or none of them."""
    try:
        for file, text in files.items():
            (folder / file).write_text(text, encoding="utf-8")
    except OSError as error:
        for file in files:
            (folder / file).unlink(missing_ok=True)
        raise InputError(
            f"cannot write into {folder.resolve()}: {error.strerror}; make room or choose another folder"
        ) from error


def _check_free(folder: Path, *files: str) -> None:
    for file in files:
        if (folder / file).exists():
            raise InputError(f"{folder / file} is there already; move it away or run `aitest init` in another folder")


def _guessed(source: TableSource, label: str | None) -> tuple[str | None, list[Scalar] | None]:
    """Type of model and classes as the label column has them; None where there is nothing to go by."""
    if label is None or not source.rows:
        return None, None
    values = next(source.batches([label])).column(label).to_pandas()
    kind = guess_type(values)
    classes = guess_classes(values) if kind == "tabular-classifier" else []
    return kind, classes if 0 < len(classes) <= MOST_CLASSES else None


def _plain_card(
    name: str, kind: str, columns: list[str], classes: list[Scalar] | None, request: CurlRequest | None
) -> tuple[str, Notes]:
    notes = [
        (CARD, f"a {kind} at an endpoint; every guess is commented"),
        *((CARD, note) for note in (request.notes if request else ())),
    ]
    return starting_card(slug(name), kind, columns, classes, request), notes


def _about(ready: ReadyCard) -> Notes:
    """What is left to do with a copy of a ready card."""
    secrets = dict.fromkeys(references(ready.card.model_dump_json()))
    notes = [(CARD, f"like {ready.name}: {ready.service}; its comments say what to set, every guess is commented")]
    if secrets:
        notes.append((CARD, f"set in the environment or as secret files: {', '.join(secrets)}"))
    return notes


def _applicable(spec: PropertySpec, profile: Profile) -> PropertySpec:
    """The property without the transforms that no column of these data allows."""
    if any(column.missing for column in profile.columns):
        return spec
    return replace(spec, default_transforms=tuple(item for item in spec.default_transforms if item["name"] != "missing_value"))
