"""A column of the data that is called `label`, and is none."""

from __future__ import annotations

import numpy as np
from fairness_projects import FLIPS, MOVES, RATIO, Model, asked, attribute, by_merit, cases_of, plain
from planted_pairs import INPUTS
from projects import property_of

ROBUSTNESS = {"property": "tabular.robustness", "transforms": [{"name": "category_swap", "columns": ["label"]}]}
BY_CLASS = "label (outcome)"


def test_such_a_column_is_sliced_beside_the_label(project):
    data = plain(300, label=np.where(np.arange(300) % 3, "x", "y"))
    gated = {"property": "tabular.generalization", "gates": {"accuracy": {"min": 0.5, "slice": {"label": "x"}}}}
    given = {"protected": {"label": {}, "sex": {}}}
    report = asked(project, Model(by_merit, [*INPUTS, "label"]), data, RATIO, FLIPS, MOVES, gated, ROBUSTNESS, given=given)
    assert not any(item["status"] in ("error", "skipped") for item in report["properties"]), report["warnings"]
    assert [group["name"] for group in attribute(report, "label")["groups"]] in (["x", "y"], ["y", "x"])
    for name in ("tabular.group_fairness", "tabular.generalization", "tabular.directional", "tabular.robustness"):
        cases = cases_of(report, name)
        assert set(cases["slice.label"].to_pylist()) == {"x", "y"}
        assert set(cases[f"slice.{BY_CLASS}"].to_pylist()) == {"approved", "refused"}
    found = property_of(report, "tabular.generalization")
    [gate] = found["gates"]
    [rows] = [item["n"] for item in found["metrics"] if item["slice"] == {"label": "x"} and item["name"] == "accuracy"]
    assert gate["slice"] == {"label": "x"} and gate["verdict"] == "passed" and rows == 200
    sliced = {item["name"] for item in found["slices"]}
    assert {"label", BY_CLASS} <= sliced
    assert BY_CLASS not in {item["column"] for item in property_of(report, "tabular.group_fairness")["groups"]["segments"]}
