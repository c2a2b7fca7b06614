"""`aitest list` and `aitest schema`: what there is, from the registry and the models themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aitest_flows.ready_cards import ready_cards
from aitest_lib.config.card import Card
from aitest_lib.config.suite import Suite
from aitest_lib.parameters import describe, parameter_model
from aitest_lib.properties.catalog import SPECS
from aitest_lib.registry import components
from aitest_lib.transforms.base import Transform

Listing = list[tuple[str, list[str]]]  # head line, and what stands below it


def transforms() -> Listing:
    """Every transform, with a line for each parameter: default, range, unit, meaning."""
    entries: Listing = []
    for name, cls in components().items():
        if not issubclass(cls, Transform):
            continue
        lines = [" ".join((cls.__doc__ or "").strip().split("\n\n")[0].split())]
        for item in describe(cls):
            facts = [f"default {item['default']}" if item["default"] else "", item["range"], item["unit"], item["help"]]
            lines.append(f"{item['name']}: {'; '.join(fact for fact in facts if fact)}")
        entries.append((f"{name} ({cls.modality})", lines))
    return entries


def properties() -> Listing:
    """Every property, with the model types it fits, its metrics and default gates."""
    entries: Listing = []
    for spec in SPECS.values():
        gates = [
            f"{metric} {'>=' if 'min' in gate else '<='} {next(iter(gate.values())):g}"
            for metric, gate in spec.default_gates.items()
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


def suite_schema() -> dict[str, Any]:
    """JSON Schema of a suite file, the parameters of every transform included."""
    schema = Suite.model_json_schema(by_alias=True)
    choices = []
    for name, cls in components().items():
        if not issubclass(cls, Transform):
            continue
        own = parameter_model(cls).model_json_schema()
        fields = own.get("properties", {})
        if cls.strength in fields:
            fields[cls.strength] = {"anyOf": [fields[cls.strength], {"type": "array", "items": fields[cls.strength]}]}
        choices.append(
            {
                "type": "object",
                "properties": {"name": {"const": name}, **fields},
                "required": ["name"],
                "additionalProperties": False,
            }
        )
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


LISTS: dict[str, Callable[[], Listing]] = {"properties": properties, "transforms": transforms}
SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {"suite": suite_schema, "model": card_schema}
