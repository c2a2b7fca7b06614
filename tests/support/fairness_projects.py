"""Whole runs of tabular fairness on models in this process: small suites, rules as models, and what the reports say."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from planted_models import applicants, merit
from planted_pairs import DIRECTIONS, GROUPS, INPUTS, PAIRS
from projects import Project, property_of

from aitest_flows import api
from aitest_flows.runner import Options
from aitest_lib.config.loading import Document
from aitest_lib.config.suite import suite_of
from aitest_lib.types import ModelInfo

RATIO: dict[str, Any] = {"property": GROUPS, "gates": {"impact_ratio": {"min": 0.8}}}
FLIPS: dict[str, Any] = {
    "property": PAIRS,
    "rows": 400,
    "search": {"queries": 100},
    "gates": {"prevalence": {"max": 0.01}},
}
MOVES: dict[str, Any] = {
    "property": DIRECTIONS,
    "rows": 50,
    "directions": {"hours": "increasing"},
    "gates": {"violation_rate": {"max": 0.01}},
}
DATA: dict[str, Any] = {"label": "outcome", "favorable": "approved", "protected": {"sex": {}, "race": {}}}
OWN = {"run_id", "started", "seconds", "model", "provenance", "artifacts", "sent", "cached"}


class Model:
    """A rule on the applicants' columns; counts the rows that it is asked."""

    def __init__(self, rule: Callable[[pd.DataFrame], Any], inputs: Sequence[str] = INPUTS) -> None:
        self.rule, self.feature_names_in_, self.asked = rule, np.array(inputs), 0
        self._lock = threading.Lock()

    def predict(self, frame: pd.DataFrame) -> Any:
        with self._lock:
            self.asked += len(frame)
            return self.rule(frame)


def by_merit(frame: pd.DataFrame) -> NDArray[np.object_]:
    """The sound rule."""
    return named(merit(frame) >= 0)


def named(good: NDArray[np.bool_]) -> NDArray[np.object_]:
    return np.where(good, "approved", "refused").astype(object)


def plain(rows: int = 400, **more: Any) -> pd.DataFrame:
    """Applicants with the label of the loan only."""
    return applicants(rows).drop(columns=["offer", "wage"]).assign(**more)


def asked(
    project: Project,
    model: Model,
    data: pd.DataFrame,
    *properties: dict[str, Any],
    given: dict[str, Any] | None = None,
    classes: tuple[str, ...] | None = ("refused", "approved"),
    **top: Any,
) -> dict[str, Any]:
    """The report of these properties, as JSON data. `given` goes over the suite's data, None leaves a key out; `top` are
    further keys of the suite."""
    about = {key: value for key, value in (DATA | (given or {})).items() if value is not None}
    suite = {
        "suite": "traps",
        "random_seed": 3,
        "model": {"card": "in-memory"},
        "data": {"test": "in-memory"} | about,
        "properties": list(properties),
    }
    info = ModelInfo(name="rule", type="tabular-classifier", digest=f"object-{id(model)}", classes=classes)
    with project.entered():
        loaded = suite_of(Document(suite | top), Path.cwd())
        report = api.run_suite(api.open_settings(), loaded, Options(), model=model, info=info, data=data)
    found: dict[str, Any] = json.loads(report.model_dump_json())
    return found


def attribute(report: dict[str, Any], name: str) -> dict[str, Any]:
    """The groups of a protected column."""
    [found] = [one for one in property_of(report, GROUPS)["groups"]["attributes"] if one["name"] == name]
    return dict(found)


def group_of(report: dict[str, Any], attribute_name: str, group: str) -> dict[str, Any]:
    [found] = [one for one in attribute(report, attribute_name)["groups"] if one["name"] == group]
    return dict(found)


def gate(report: dict[str, Any], name: str, metric: str, **where: str) -> dict[str, Any]:
    """The gate of a property on a metric and slice."""
    [found] = [one for one in property_of(report, name)["gates"] if one["metric"] == metric and one["slice"] == where]
    return dict(found)


def settled(value: Any) -> Any:
    """A report without what no two runs have in common."""
    if isinstance(value, dict):
        return {key: settled(item) for key, item in value.items() if key not in OWN}
    return [settled(item) for item in value] if isinstance(value, list) else value


def cases_of(report: dict[str, Any], name: str) -> pa.Table:
    return pq.read_table(property_of(report, name)["artifacts"]["cases"].removeprefix("file://"))
