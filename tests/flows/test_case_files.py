"""`cases.parquet`: its columns, its order, its words; and artifacts that are damaged or gone between two runs."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from projects import people, property_of

COLUMNS = [
    "case_id",
    "seed_id",
    "property",
    "transform",
    "params",
    "strength",
    "expected",
    "observed",
    "score",
    "outcome",
    "reason",
    "explanation",
    "distance",
    "input_uri",
    "query_cost",
]
SKIPS = {"no_op", "misclassified_seed", "invalid", "not_applicable", "budget"}
SWEEP = [{"name": "numeric_noise", "epsilon": [0.05, 0.5]}, {"name": "category_swap"}]


@pytest.fixture
def finished(project, server):
    suite = {"data": {"test": "data.csv", "label": "income", "protected": {"sex": {}}}}
    properties = [{"property": "tabular.generalization"}, {"property": "tabular.robustness", "transforms": SWEEP}]
    project.fill(server, people(250), suite=suite, properties=properties)
    return project, project.run()


def test_columns_order_and_words(finished):
    project, report = finished
    for name in ("tabular.generalization", "tabular.robustness"):
        item = property_of(report, name)
        path = item["artifacts"]["cases"].removeprefix("file://")
        schema = pq.read_schema(path)
        assert schema.names[: len(COLUMNS)] == COLUMNS
        assert all(column.startswith("slice.") for column in schema.names[len(COLUMNS) :])
        assert {"slice.sex", "slice.job", "slice.label"} <= set(schema.names)
        assert schema.metadata[b"schema_version"] == b"1"
        table = project.cases(report, name)
        assert table.num_rows == item["cases"]["total"]
        assert len(set(table["case_id"].to_pylist())) == table.num_rows
        counted = {key: table["outcome"].to_pylist().count(key) for key in ("passed", "failed", "skipped", "error")}
        assert counted == {key: item["cases"][key] for key in counted}
        for outcome, reason, why in zip(
            table["outcome"].to_pylist(), table["reason"].to_pylist(), table["explanation"].to_pylist(), strict=True
        ):
            assert (reason in SKIPS) if outcome == "skipped" else (reason is None)
            assert bool(why) == (outcome == "failed")
        numbers = table["score"].drop_null().to_numpy()
        assert not np.isnan(numbers).any()
        assert not np.isnan(table["distance"].to_numpy()).any()
        assert all(isinstance(json.loads(text), dict) for text in table["params"].to_pylist())


def test_ordered_by_transform_strength_and_seed_rank(finished):
    project, report = finished
    table = project.cases(report)
    seeds = project.cases(report, "tabular.generalization")["seed_id"].to_pylist()
    blocks = [("numeric_noise", 0.05), ("numeric_noise", 0.5), ("category_swap", None)]
    expected = [(transform, strength, seed) for transform, strength in blocks for seed in seeds]
    found = zip(*(table[name].to_pylist() for name in ("transform", "strength", "seed_id")), strict=True)
    assert list(found) == expected


def test_the_input_of_a_case_is_found_by_its_uri(finished):
    project, report = finished
    table = project.cases(report).to_pylist()
    case = next(row for row in table if row["outcome"] == "failed" and row["transform"] == "category_swap")
    uri, _, place = case["input_uri"].partition("#")
    stored = pq.read_table(uri.removeprefix("file://")).slice(int(place), 1).to_pylist()[0]
    for name, value in json.loads(case["params"])["set"].items():
        assert stored[name] == value


def test_failures_that_are_shown_are_failed_cases(finished):
    project, report = finished
    item = property_of(report, "tabular.robustness")
    shown = json.loads(Path(item["artifacts"]["failures"].removeprefix("file://")).read_text())
    failed = {row["case_id"] for row in project.cases(report).to_pylist() if row["outcome"] == "failed"}
    own = [case for case in shown if case["transform"] in ("numeric_noise", "category_swap")]
    assert own
    assert {case["case_id"] for case in own} <= failed
    for case in own:
        assert {name for name in case["seed"] if case["seed"][name] != case["case"][name]} == set(case["changed"])


@pytest.mark.parametrize("damage", ["delete", "truncate", "garble"])
def test_damaged_artifacts_are_noticed_and_made_again(finished, damage, server):
    project, first = finished
    # Lists of digests are written anew by every run, and are nobody's cached result.
    objects = sorted(path for path in (project.store / "objects").rglob("*") if path.suffix in (".parquet", ".json"))
    for path in objects:
        if damage == "delete":
            path.unlink()
        elif damage == "truncate":
            path.write_bytes(path.read_bytes()[:-7])
        else:
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 0xFF
            path.write_bytes(bytes(data))
    second = project.run()
    assert second["status"] == first["status"]
    assert second["queries"]["sent"] == 0
    assert [item["metrics"] for item in second["properties"]] == [item["metrics"] for item in first["properties"]]
    assert project.cases(second)["case_id"] == project.cases(first)["case_id"]


def test_one_damaged_shard_of_cases_is_made_again(finished):
    project, first = finished
    uri = project.cases(first)["input_uri"][0].as_py().partition("#")[0].removeprefix("file://")
    Path(uri).write_bytes(Path(uri).read_bytes()[:100])
    second = project.run()
    assert second["status"] == first["status"]
    assert second["queries"]["sent"] == 0
