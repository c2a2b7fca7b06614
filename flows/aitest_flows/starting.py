"""`aitest init`: a card and a suite to start from, each guess commented."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from aitest_lib.config.start import guess_classes, guess_protected, guess_type, parse_curl, slug, starting_card, starting_suite
from aitest_lib.data.schema import Profile, build_profile
from aitest_lib.data.table import TableSource
from aitest_lib.errors import InputError, unknown
from aitest_lib.properties.base import PropertySpec
from aitest_lib.properties.catalog import specs_for

CARD, SUITE = "model.yaml", "suite.yaml"
MOST_CLASSES = 50


def write_start(folder: Path, data: Path, label: str | None, curl: str | None, name: str) -> list[tuple[str, str]]:
    """Writes `model.yaml` and `suite.yaml` into `folder`; returns each file with what to know of it.

    Existing files are not overwritten: an `InputError`, before anything is written.
    """
    for file in (CARD, SUITE):
        if (folder / file).exists():
            raise InputError(f"{folder / file} is there already; move it away or run `aitest init` in another folder")
    source = TableSource(str(data.resolve()))
    names = source.schema.names
    if label is not None and label not in names:
        raise InputError(f"--label: {unknown('column', label, names)} (of {data})")
    request = parse_curl(curl) if curl is not None else None
    kind, classes = "tabular-classifier", None
    if label is not None:
        values = next(source.batches([label])).column(label).to_pandas() if source.rows else None
        kind = guess_type(values) if values is not None else kind
        if kind == "tabular-classifier" and values is not None:
            found = guess_classes(values)
            classes = found if len(found) <= MOST_CLASSES else None
    columns = [column for column in names if column != label]
    card = starting_card(slug(name), kind, columns, classes, request)
    profile = build_profile(source, None, {}, [], {label} if label else set())
    file = str(data)  # the suite stands in the current folder, which the path is relative to
    specs = [_applicable(spec, profile) for spec in specs_for(kind) if label is not None or not spec.needs_labels]
    suite = starting_suite(slug(name), CARD, file, label, profile, guess_protected(columns), specs, classes)
    (folder / CARD).write_text(card, encoding="utf-8")
    (folder / SUITE).write_text(suite, encoding="utf-8")
    notes = [
        (CARD, f"a {kind} at an endpoint; every guess is commented"),
        *((CARD, note) for note in (request.notes if request else [])),
    ]
    notes.append((SUITE, f"{len(columns)} columns, {len(specs)} properties; look through its comments"))
    return [*notes, ("next", f"aitest probe {CARD} --data {data}, then aitest run {SUITE}")]


def _applicable(spec: PropertySpec, profile: Profile) -> PropertySpec:
    """The property without the transforms that no column of these data allows."""
    if any(column.missing for column in profile.columns):
        return spec
    return replace(spec, default_transforms=tuple(item for item in spec.default_transforms if item["name"] != "missing_value"))
