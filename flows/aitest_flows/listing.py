"""`aitest list` and `aitest schema`: what there is, from the registry and the models themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from aitest_flows.ready_cards import ready_cards
from aitest_lib.component import Component
from aitest_lib.config.card import Card
from aitest_lib.config.searches import image_searches
from aitest_lib.config.suite import Suite
from aitest_lib.config.transforms import BREAKING_POINT, COMPOSE
from aitest_lib.config.voices import ENGINES
from aitest_lib.errors import InputError
from aitest_lib.parameters import describe, parameter_model
from aitest_lib.properties.catalog import SPECS
from aitest_lib.registry import components
from aitest_lib.transforms.audio.noises import NOISES
from aitest_lib.transforms.base import Transform
from aitest_lib.transforms.image.base import DEFAULT_SEVERITY, LARGE, ImageTransform
from aitest_lib.voices.programs import list_voices

Listing = list[tuple[str, list[str]]]  # head line, and what stands below it


def transforms() -> Listing:
    """Every transform, with a line for each parameter: default, range, unit, meaning."""
    entries: Listing = []
    for name, cls in components().items():
        if not issubclass(cls, Transform):
            continue
        lines = [_summary(cls)]
        if name == COMPOSE:
            entries.append(
                (f"{name} ({cls.modality})", [*lines, "write it as {compose: [rotate, {name: brightness, delta: 0.2}]}"])
            )
            continue
        severities = severity_lines(cls) if issubclass(cls, ImageTransform) else []
        for item in describe(cls):
            if item["name"] == "severity":
                lines += severities
                continue
            lines.append(_parameter_line(item))
        entries.append((f"{name} ({cls.modality})", lines))
    return entries


def searches() -> Listing:
    """Every adversarial search of images, with its parameters; a suite sets `delta`, `queries` and `labels_only`."""
    entries: Listing = []
    for name, cls in image_searches().items():
        needs = ["needs a model that gives scores"] if cls.needs_scores else []
        entries.append((name, [_summary(cls), *needs, *(_parameter_line(item) for item in describe(cls))]))
    return entries


def noises() -> Listing:
    """Every synthesized noise; any folder of recordings is one, too."""
    known: Listing = [(name, [noise.description]) for name, noise in NOISES.items()]
    layouts = "a folder for each label, labels.csv (path, label), ESC-50, MUSAN, DEMAND, UrbanSound8K"
    own = ["write it as {name: interference, recordings: FOLDER, noise: LABEL}", f"layouts: {layouts}"]
    return [*known, ("recordings of your own", own)]


def voices() -> Listing:
    """The voices of every engine that is installed; any program, service or function can be one, too."""
    entries: Listing = []
    for engine in ENGINES:
        try:
            found = list_voices(engine)
        except InputError as error:
            entries.append((engine, [str(error)]))
            continue
        entries.append((engine, [" ".join(filter(None, (one.name, one.language, one.gender))) for one in found]))
    own = "{voice: NAME, command: [program, --voice, '{voice}', --out, '{out}', '{text}']}; http and callable are other ways"
    return [*entries, ("voices of your own", [own])]


def _summary(cls: type[Component]) -> str:
    """The first paragraph of a component's docstring."""
    return " ".join((cls.__doc__ or "").strip().split("\n\n")[0].split())


def _parameter_line(item: dict[str, str]) -> str:
    facts = [f"default {item['default']}" if item["default"] else "", item["range"], item["unit"], item["help"]]
    return f"{item['name']}: {'; '.join(fact for fact in facts if fact)}"


def severity_lines(cls: type[ImageTransform]) -> list[str]:
    """What the severities of a transform are, for large images and for small ones; none where it has none."""
    try:
        made = [cls(severity=severity) for severity in range(1, 6)]
    except InputError:
        return []
    usual = f"severity: 1 to 5, {DEFAULT_SEVERITY} where nothing is said"
    if cls.strength is None:
        return [usual]
    found = []
    for pixels in (LARGE, LARGE - 1):
        drawn = [one.draw_one((pixels, pixels, 3), np.random.default_rng(0))[str(cls.strength)] for one in made]
        found.append(", ".join(f"{value:.3g}" for value in drawn))
    if found[0] == found[1]:
        return [f"{usual}: {cls.strength} {found[0]}"]
    return [f"{usual}: {cls.strength} {found[0]}; below {LARGE} pixels {found[1]}"]


def properties() -> Listing:
    """Every property, with the model types it fits, its metrics and default gates."""
    entries: Listing = []
    for spec in SPECS.values():
        gates = [
            _gate(metric, one)
            for metric, gate in spec.default_gates.items()
            for one in (gate if isinstance(gate, tuple) else (gate,))
        ]
        metrics = dict.fromkeys(name for names in spec.metrics.values() for name in names)
        lines = [
            f"{spec.summary[0].upper()}{spec.summary[1:]}.",
            f"model types: {', '.join(spec.types)}",
            f"metrics: {', '.join(metrics)}",
            f"default gates: {', '.join(gates) or 'none, so it is unjudged'}",
        ]
        entries.append((spec.name, lines))
    return entries


def _gate(metric: str, gate: Mapping[str, Any]) -> str:
    where = ", ".join(str(value) for value in gate.get("slice", {}).values())
    bound = f">= {gate['min']:g}" if "min" in gate else f"<= {gate['max']:g}"
    return f"{metric} {bound}{f' ({where})' if where else ''}"


def suite_schema() -> dict[str, Any]:
    """JSON Schema of a suite file, the parameters of every transform included."""
    schema = Suite.model_json_schema(by_alias=True)
    choices = []
    for name, cls in components().items():
        if not issubclass(cls, Transform) or name == COMPOSE:
            continue
        own = parameter_model(cls).model_json_schema()
        fields = own.get("properties", {})
        for swept in set(cls.sweepable()) & set(fields):
            fields[swept] = {"anyOf": [fields[swept], {"type": "array", "items": fields[swept]}]}
        if getattr(cls, "strongest", None) is not None:
            fields["strength"] = {"const": BREAKING_POINT}
        choices.append(
            {
                "type": "object",
                "properties": {"name": {"const": name}, **fields},
                "required": ["name"],
                "additionalProperties": False,
            }
        )
    link = {"anyOf": [{"type": "string"}, *choices]}
    chain = {"type": "array", "items": link, "minItems": 2}
    choices = [
        *choices,
        {"type": "object", "properties": {COMPOSE: chain}, "required": [COMPOSE], "additionalProperties": False},
    ]
    items = {"anyOf": choices}
    schema["$defs"]["PropertyConfig"]["properties"]["transforms"] = {"type": "array", "items": items, "minItems": 1}
    schema["$defs"]["PropertyConfig"]["properties"]["property"]["enum"] = list(SPECS)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def card_schema() -> dict[str, Any]:
    """JSON Schema of a model card."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Card.model_json_schema(by_alias=True)}


def cards() -> list[tuple[str, str, str, str]]:
    """Every ready card: name, type of model, service, backend."""
    return [(ready.name, ready.card.type, ready.service, ready.backend) for ready in ready_cards()]


LISTS: dict[str, Callable[[], Listing]] = {
    "properties": properties,
    "transforms": transforms,
    "searches": searches,
    "noises": noises,
    "voices": voices,
}
SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {"suite": suite_schema, "model": card_schema}
