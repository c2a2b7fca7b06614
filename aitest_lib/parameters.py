"""Typed parameters of components: declared once on the dataclass, then validated, listed and published as JSON Schema."""

from __future__ import annotations

import dataclasses
import typing
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, create_model

from aitest_lib.component import Component


def parameter(default: Any = dataclasses.MISSING, *, help: str, unit: str | None = None, **limits: Any) -> Any:
    """A dataclass field with what a user must know of it: unit, help, and limits (`gt`, `ge`, `lt`, `le`)."""
    metadata = {"help": help, "unit": unit, "limits": limits}
    if default is dataclasses.MISSING:
        return dataclasses.field(metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def parameter_model(cls: type[Component]) -> type[BaseModel]:
    """A pydantic model of a component's parameters: strict about types, limits and unknown names."""
    hints = typing.get_type_hints(cls)
    fields: dict[str, Any] = {}
    for item in dataclasses.fields(cls):
        default = ... if item.default is dataclasses.MISSING else item.default
        limits = item.metadata.get("limits", {})
        fields[item.name] = (hints[item.name], Field(default, description=item.metadata.get("help"), **limits))
    return create_model(cls.name, __config__=ConfigDict(extra="forbid", strict=True, allow_inf_nan=False), **fields)


def describe(cls: type[Component]) -> list[dict[str, str]]:
    """Name, type, unit, range, default and help of every parameter, as text."""
    rows = []
    for item in dataclasses.fields(cls):
        limits = item.metadata.get("limits", {})
        signs = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}
        rows.append(
            {
                "name": item.name,
                "unit": item.metadata.get("unit") or "",
                "range": ", ".join(f"{signs[key]} {value}" for key, value in limits.items() if key in signs),
                "default": "" if item.default in (dataclasses.MISSING, None) else _text(item.default),
                "help": item.metadata.get("help", ""),
            }
        )
    return rows


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
