"""Kept answers and epochs that somebody else has changed: removed and asked again, never a wrong number and never a defect."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from model_server import serving
from projects import income, people

from aitest_tasks.runs import _open

ROWS = 60


def figures(report):
    return [(item["name"], item["value"]) for part in report["properties"] for item in part["metrics"]]


def changed(table, name, values):
    place = table.column_names.index(name)
    return table.set_column(place, name, pa.array(values, table.schema.field(name).type))


def test_planted_segments_change_no_figure(project):
    with serving(income, lambda row: 0.7 if income(row) == "high" else 0.3) as server:
        response = {"labels": "predictions[*].label", "scores": "predictions[*].score"}
        project.fill(server, people(ROWS), card={"classes": ["low", "high"]}, response=response)
        first = project.run()
        segments = sorted((project.store / "answers").glob("*/*/*.parquet"))
        whole = pq.read_table(segments[0])
        n = whole.num_rows
        plants = {
            "label": ["{"] * n,
            "digest": [None] * n,
            "scores": [[0.1, 0.2, 0.7]] * n,
            "run": [None] * n,
        }
        for number, (name, values) in enumerate(plants.items()):
            pq.write_table(changed(whole, name, values), segments[0].with_name(f"0-{number}.parquet"))
        pq.write_table(changed(whole, "scores", [[0.5, float("nan")]] * n), segments[0].with_name("0-nan.parquet"))
        foreign = whole.replace_schema_metadata({"aitest.model": "other/1"})
        pq.write_table(changed(foreign, "label", ['"low"'] * n), segments[0].with_name("0-other.parquet"))
        second = project.run()
        assert second["queries"]["sent"] == 0
        assert not second["model"]["changed"]
        assert figures(second) == figures(first)
        assert sorted((project.store / "answers").glob("*/*/*.parquet")) == segments


def test_a_changed_segment_is_asked_again(project, server):
    project.fill(server, people(ROWS))
    first = project.run("--only", "tabular.generalization")
    segments = sorted((project.store / "answers").glob("*/*/*.parquet"))
    table = pq.read_table(segments[-1])
    pq.write_table(changed(table, "label", ["[1]"] * table.num_rows), segments[-1])
    second = project.run("--only", "tabular.generalization")
    assert second["queries"]["sent"] == table.num_rows
    assert figures(second) == figures(first)


WRONG = [
    ("epoch", "1"),
    ("epoch", None),
    ("epoch", 1.5),
    ("epoch", True),
    ("epoch", 0),
    ("deterministic", None),
    ("deterministic", 1),
    ("self_flip_rate", "x"),
    ("self_flip_rate", 7),
    ("self_flip_rate", float("nan")),
    ("seconds_per_row", None),
    ("seconds_per_row", "a"),
    ("seconds_per_row", 0),
    ("seconds_per_row", float("inf")),
]


def test_an_epoch_of_wrong_types_is_followed_by_a_new_one(project, server):
    project.fill(server, people(ROWS))
    project.run("--only", "tabular.generalization")
    [path] = (project.store / "answers").glob("*/epoch.json")
    right = json.loads(path.read_text())
    for key, value in WRONG:
        path.write_text(json.dumps({**right, key: value}))
        dry = project.here("run", "suite.yaml", "--only", "tabular.generalization", "--dry-run")
        assert dry.code == 0, (key, value, dry.text)
    for number, (key, value) in enumerate([WRONG[0], WRONG[5], WRONG[7], WRONG[10]], start=2):
        path.write_text(json.dumps({**right, key: value}))
        found = project.run("--only", "tabular.generalization")
        assert found["model"]["epoch"] == number, (key, value)
        assert found["queries"]["sent"] == ROWS


@pytest.mark.parametrize("interrupted", [False, True])
def test_sentinels_of_a_changed_model_are_not_paid_from_the_budget(project, server, interrupted):
    project.fill(server, people(200), batch_size=20, concurrency=1)
    project.run("--only", "tabular.generalization")
    label, seen = server.label, []

    def changed_label(row):
        seen.append(row)
        if interrupted and len(seen) == 230:
            server.inject("drop", None)
        return "low" if label(row) == "high" else "high"

    server.label = changed_label
    server.distinct.clear()
    found = project.here("run", "suite.yaml", "--budget", "300", "--json", "r.json")
    if interrupted:
        assert found.code == 3, found.text
        server._always = None
        _open.cache_clear()
        found = project.here("resume", "last", "--json", "r.json")
    report = project.report("r.json")
    assert report["model"]["changed"]
    assert report["queries"]["sent"] == 300
    assert len(server.distinct) == 300, "the sentinels are inputs that the probe asks, too"
