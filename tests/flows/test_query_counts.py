"""What a run asks, counted at the model: everything once, nothing twice, and what that means for revisions and versions."""

import json

import pytest
from projects import COLUMNS, people

from aitest_lib.transforms.tabular import NumericNoise
from aitest_tasks import generation

SEEDS = 300


@pytest.fixture
def generated(monkeypatch):
    """Which components generated cases."""
    seen = []
    write = generation.write_cases

    def noted(store, job):
        seen.append(job["component"])
        return write(store, job)

    monkeypatch.setattr(generation, "write_cases", noted)
    return seen


def test_a_first_run_asks_everything_once_and_a_second_one_only_sentinels(project, server, generated):
    project.fill(server, people(SEEDS))
    first = project.run()
    distinct = len(server.distinct)
    assert first["queries"]["planned"] == first["queries"]["sent"] == distinct > 2.5 * SEEDS
    assert first["queries"]["cached"] == 0
    assert sorted(generated) == ["category_swap", "numeric_noise"]
    assert sum(item["queries"]["sent"] for item in first["properties"]) == distinct
    rows = server.rows
    second = project.run()
    assert second["queries"] == {"planned": distinct, "sent": 0, "cached": distinct, "sentinel": 50, "retries": 0, "errors": 0}
    assert server.rows - rows == 50
    assert len(server.distinct) == distinct
    assert len(generated) == 2
    assert second["provenance"]["previous_looks"] == 1
    assert [item["metrics"] for item in second["properties"]] == [item["metrics"] for item in first["properties"]]


def test_a_new_revision_asks_everything_again_and_generates_nothing(project, server, generated):
    project.fill(server, people(SEEDS))
    first = project.run()
    generated.clear()
    server.distinct.clear()
    project.change("card.yaml", revision="2")
    again = project.run()
    assert again["queries"]["sent"] == again["queries"]["planned"] == first["queries"]["planned"] == len(server.distinct)
    assert again["model"]["digest"] != first["model"]["digest"]
    assert not generated
    assert project.cases(again)["case_id"] == project.cases(first)["case_id"]


def test_a_new_version_of_a_transform_asks_only_its_own_cases(project, server, generated, monkeypatch):
    project.fill(server, people(SEEDS))
    project.run()
    before = set(server.distinct)
    generated.clear()
    monkeypatch.setattr(NumericNoise, "version", 2)
    again = project.run()
    new = server.distinct - before
    assert generated == ["numeric_noise"]
    assert again["queries"]["sent"] == len(new)
    assert SEEDS * 0.9 < len(new) <= SEEDS
    texts = {tuple(json.loads(row)[3:]) for row in new}
    assert texts <= {tuple(json.loads(row)[3:]) for row in before}
    assert len(COLUMNS) == 5


def test_without_a_revision_nothing_is_reused(project, server):
    project.fill(server, people(SEEDS), card={"revision": None})
    first = project.run()
    server.distinct.clear()
    second = project.run()
    assert second["queries"]["sent"] == second["queries"]["planned"] == first["queries"]["planned"] == len(server.distinct)
    assert second["queries"]["cached"] == 0


def test_fresh_opens_a_new_epoch(project, server):
    project.fill(server, people(SEEDS))
    project.run()
    server.distinct.clear()
    again = project.run("--fresh")
    assert again["model"]["epoch"] == 2
    assert again["model"]["changed"] is False
    assert again["queries"]["sent"] == again["queries"]["planned"] == len(server.distinct)
    assert project.run()["queries"]["sent"] == 0


def test_equal_rows_are_asked_once(project, server):
    frame = people(SEEDS)
    project.fill(server, frame.sample(2 * SEEDS, replace=True, random_state=0, ignore_index=True))
    report = project.run()
    assert report["queries"]["planned"] == report["queries"]["sent"] == len(server.distinct)
    assert report["properties"][0]["cases"]["total"] == 2 * SEEDS


def test_a_changed_model_is_noticed_and_asked_anew(project, server):
    project.fill(server, people(SEEDS))
    first = project.run()
    server.label = lambda row: "low" if row[0] + row[1] > 95 else "high"
    server.distinct.clear()
    second = project.run()
    assert second["model"]["changed"] is True
    assert second["model"]["epoch"] == 2
    assert any("model_changed" in warning for warning in second["warnings"])
    assert len(server.distinct) == second["queries"]["planned"]
    assert second["queries"]["sent"] + second["queries"]["sentinel"] >= second["queries"]["planned"]
    assert second["properties"][0]["metrics"] != first["properties"][0]["metrics"]
    rows = server.rows
    third = project.run()
    assert third["model"] == second["model"] | {"changed": False}
    assert third["queries"]["sent"] == 0
    assert server.rows - rows == third["queries"]["sentinel"] == 50


def test_dry_run_plans_what_the_run_sends_and_asks_nothing(project, server):
    project.fill(server, people(SEEDS), properties=[{"property": "tabular.generalization"}])
    planned = project.here("run", "suite.yaml", "--dry-run")
    assert planned.code == 0
    assert server.calls == 0
    assert not list((project.store / "runs").iterdir())
    report = project.run()
    assert f"{report['queries']['planned']}" in planned.out.replace(",", "")
