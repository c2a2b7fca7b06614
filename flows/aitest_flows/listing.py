"""`aitest list` and `aitest schema`: what there is, from the registry and the models themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aitest_lib.config.card import Card
from aitest_lib.config.suite import Suite
from aitest_lib.parameters import describe, parameter_model
from aitest_lib.properties.catalog import SPECS
from aitest_lib.registry import components
from aitest_lib.transforms.base import Transform

Listing = tuple[list[str], list[tuple[str, ...]]]


def transforms() -> Listing:
    """Every transform, a line for each parameter."""
    rows: list[tuple[str, ...]] = []
    for name, cls in components().items():
        if not issubclass(cls, Transform):
            continue
        summary = (cls.__doc__ or "").strip().splitlines()[0]
        rows.append((name, cls.modality, "", "", "", summary))
        rows += [
            ("", "", item["name"], item["unit"], f"{item['default']} {item['range']}".strip(), item["help"])
            for item in describe(cls)
        ]
    return ["transform", "modality", "parameter", "unit", "default, range", ""], rows


def properties() -> Listing:
    """Every property, with the model types it fits, its metrics and default gates."""
    rows: list[tuple[str, ...]] = []
    for spec in SPECS.values():
        gates = ", ".join(
            f"{metric} {'>=' if 'min' in gate else '<='} {next(iter(gate.values())):g}"
            for metric, gate in spec.default_gates.items()
        )
        metrics = ", ".join(dict.fromkeys(name for names in spec.metrics.values() for name in names))
        rows.append((spec.name, ", ".join(spec.types), gates or "none: unjudged", metrics, spec.summary))
    return ["property", "model types", "default gates", "metrics", ""], rows


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


LISTS: dict[str, Callable[[], Listing]] = {"properties": properties, "transforms": transforms}
SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {"suite": suite_schema, "model": card_schema}
