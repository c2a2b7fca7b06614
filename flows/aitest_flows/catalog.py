"""Which flow runs which property. Completeness (every spec has a line here) is a test."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from aitest_lib.properties.catalog import spec


def flow_of(property_name: str) -> Any:
    """The flow of a property, imported by its dotted path as a worker would."""
    module, _, name = spec(property_name).flow.rpartition(".")
    return getattr(import_module(module), name)
