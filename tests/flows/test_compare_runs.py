"""Real runs compared: another model, other gates, other data; and cases that are damaged or gone."""

import json
from pathlib import Path

import pytest
from model_server import serving
from projects import COLUMNS, income, is_calm, new_project, people, property_of, suite_data, wage

from aitest_flows import api

SUITE = {"data": {"test": "data.csv", "label": "income", "protected": {"sex": {}}}}


def worse(row):
    """Wrong about cooks that work long."""
    return "low" if row[3] == "cook" and row[1] > 60 else income(row)


@pytest.fixture(scope="module")
def changed(tmp_path_factory):
    """A project with three runs: as it is, with a worse model and a looser gate, and with half of the rows new."""
    with serving(income) as server:
        project = new_project(tmp_path_factory.mktemp("compared"))
        project.fill(server, people(300), suite=SUITE)
        reports = [project.run()]
        server.label = worse
        project.change("card.yaml", revision="2")
        looser = suite_data()["properties"]
        looser[1]["gates"] = {"pass_rate": {"min": 0.3}}
        project.change("suite.yaml", properties=looser)
        reports.append(project.run())
        data = people(300)
        data[150:] = people(150, seed=5)
        data.to_csv(project.folder / "data.csv", index=False)
        reports.append(project.run())
        yield project, [report["run_id"] for report in reports]


def compare(project, *args):
    found = project.here("compare", *args, "--format", "json")
    assert found.code == 0, found.text
    return json.loads(found.out)


def test_a_worse_model_behind_a_looser_gate(changed):
    project, (base, candidate, _) = changed
    found = compare(project, base, candidate)
    assert (found["verdict"], found["base"]["status"], found["candidate"]["status"]) == ("regression", "passed", "passed")
    [gate] = [change for change in found["changes"] if change["area"] == "gates"]
    assert gate == found["changes"][0]
    assert (gate["base"], gate["candidate"], gate["weaker"]) == ("at least 0.5", "at least 0.3", True)
    assert {change["name"] for change in found["changes"] if change["area"] == "model"} == {"revision", "digest"}
    assert found["notices"] == []
    for item in found["properties"]:
        assert item["shared_seeds"] == 300
        assert item["cases"]["new"] == item["cases"]["gone"] == 0
        assert item["verdict"] == "regression"
    labels = property_of(found, "tabular.generalization")
    assert any(one["name"] == "job" and one["value"] == "cook" and one["flagged"] for one in labels["slices"])
    assert {case["candidate_observed"] for case in labels["newly_failing"]} == {"low"}
    robustness = property_of(found, "tabular.robustness")
    assert [part["transform"] for part in robustness["components"]] == ["numeric_noise", "category_swap"]
    shown = [case for case in robustness["newly_failing"] if case["shown"]]
    assert shown
    assert all(case["shown"]["case_id"] == case["case_id"] and case["shown"]["changed"] for case in shown)


def test_the_counts_are_those_of_the_cases(changed):
    project, (base, candidate, _) = changed
    item = property_of(compare(project, base, candidate), "tabular.robustness")
    reports = []
    for run_id in (base, candidate):
        found = project.here("show", run_id, "--format", "json")
        reports.append(json.loads(found.out))
    before, after = (
        {row["case_id"]: row for row in project.cases(report).select(["case_id", "outcome", "reason"]).to_pylist()}
        for report in reports
    )
    bad = [
        {key for key, row in rows.items() if row["outcome"] == "failed" or row["reason"] == "misclassified_seed"}
        for rows in (before, after)
    ]
    good = [{key for key, row in rows.items() if row["outcome"] == "passed"} for rows in (before, after)]
    counts = item["cases"]
    assert counts["newly_failing"] == len(good[0] & bad[1]) > 0
    assert counts["fixed"] == len(bad[0] & good[1])
    assert counts["still_failing"] == len(bad[0] & bad[1])
    assert counts["still_passing"] == len(good[0] & good[1])
    assert sum(counts[key] for key in ("newly_failing", "fixed", "still_failing", "still_passing", "not_comparable")) == len(
        before
    )


def test_other_data(changed):
    project, (_, base, candidate) = changed
    found = compare(project, base, candidate)
    assert [notice for notice in found["notices"] if "seeds are in both runs (base 300, candidate 300)" in notice]
    assert found["changes"][0]["name"] == "content of test"
    for item in found["properties"]:
        assert item["shared_seeds"] == 150
        assert item["cases"]["new"] == item["cases"]["gone"] > 0
    item = property_of(found, "tabular.generalization")
    assert item["cases"]["newly_failing"] == item["cases"]["fixed"] == 0
    assert (item["verdict"], item["cases"]["new"]) == ("no_evidence", 150)


def test_exit_status_and_formats(changed):
    project, (base, candidate, _) = changed
    assert project.here("compare", base, candidate, "--fail-on-regression").code == 1
    assert project.here("compare", base, candidate).code == 0
    assert project.here("compare", candidate, base, "--fail-on-regression").code == 0
    assert project.here("compare", base, base, "--fail-on-regression", "--margin", "0.1").code == 4
    assert project.here("compare", base, base, "--fail-on-regression", "--margin", "50").code == 0
    table = project.here("compare", base[:10], candidate[:10])
    assert is_calm(table.text)
    for words in ("REGRESSION", "WEAKER", "What changed", "newly failing", "aitest replay"):
        assert words in table.out
    written = project.here("compare", base, candidate, "-o", "page.html")
    assert (written.code, written.out.splitlines()[0][:13]) == (0, "Regression in")
    assert (project.folder / "page.html").read_text().startswith("<!doctype html>")
    assert project.here("compare", base, candidate, "--format", "md").out.startswith("# Regression")
    project.here("compare", base, candidate, "-o", "table.txt")
    assert "What changed" in (project.folder / "table.txt").read_text()


def test_in_python_and_the_same_every_time(changed):
    project, (base, candidate, _) = changed
    with project.entered():
        found = api.compare(base, candidate, margin=1)
        assert found == api.compare(base, candidate, margin=1)
    assert (found.verdict, found.margin) == ("regression", 1)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("nothing", "last"), "got RUN 'nothing', but no run"),
        (("last", "last", "--format", "pdf"), "--format: unknown format 'pdf'"),
        (("last", "last", "--margin", "-1"), "--margin: got -1, expected points above 0"),
        (("last", "last", "-o", "nowhere/page.html"), "cannot write nowhere/page.html"),
    ],
)
def test_bad_arguments(changed, args, message):
    found = changed[0].here("compare", *args)
    assert (found.code, found.out) == (2, "")
    assert message in found.err
    assert is_calm(found.err.replace("error:", ""))


def test_a_run_that_has_not_ended(changed):
    project, (base, candidate, _) = changed
    path = project.store / "runs" / candidate / "report.json"
    content = path.read_bytes()
    path.unlink()
    try:
        found = project.here("compare", base, candidate)
    finally:
        path.write_bytes(content)
    assert found.code == 2
    assert f"run {candidate[:8]} has not ended" in found.err


@pytest.mark.parametrize("damage", ["gone", "torn", "other bytes"])
def test_damaged_cases_are_one_message(changed, damage):
    project, (base, candidate, _) = changed
    report = json.loads(project.here("show", base, "--format", "json").out)
    path = Path(property_of(report, "tabular.robustness")["artifacts"]["cases"].removeprefix("file://"))
    content = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(content[:-50] if damage == "torn" else b"PAR1")
    try:
        found = project.here("compare", base, candidate)
    finally:
        path.write_bytes(content)
    assert (found.code, found.out) == (3, "")
    assert f"the cases of tabular.robustness in run {base[:8]} are gone or damaged" in found.err
    assert found.err.count("\n") == 1
    assert project.here("compare", base, candidate).code == 0


def test_a_regressor(project):
    data = people(200).drop(columns="income")
    data["pay"] = [wage(row) for row in data[COLUMNS].to_numpy().tolist()]
    with serving(wage) as server:
        suite = {"data": {"test": "data.csv", "label": "pay"}}
        project.fill(server, data, suite=suite, card={"type": "tabular-regressor"})
        base = project.run()["run_id"]
        server.label = lambda row: wage(row) + (20.0 if row[3] == "cook" else 0.0)
        project.change("card.yaml", revision="2")
        candidate = project.run()["run_id"]
    item = property_of(compare(project, base, candidate), "tabular.generalization")
    assert (item["verdict"], item["test"]["metric"]) == ("regression", "mean absolute error")
    assert item["test"]["base"] == pytest.approx(0, abs=1e-3)
    cooks = int((data["job"] == "cook").sum())
    assert item["test"]["candidate"] == pytest.approx(20 * cooks / 200, rel=1e-3)
    assert item["cases"]["newly_failing"] == cooks


def test_groups_are_compared_by_their_figures(project):
    gates = {"impact_ratio": {"min": 0.5}, "statistical_parity_gap": {"max": 0.3}}
    groups = [{"property": "tabular.group_fairness", "gates": gates}]
    with serving(income) as server:
        project.fill(server, people(400), properties=groups, suite={"data": {**SUITE["data"], "favorable": "high"}})
        base, again = project.run(), project.run()
        server.label = lambda row: "low" if row[4] == "F" else income(row)
        project.change("card.yaml", revision="2")
        candidate = project.run()
    assert property_of(base, "tabular.group_fairness")["status"] == "passed"
    assert property_of(candidate, "tabular.group_fairness")["cases"]["failed"] == 0
    runs = [report["run_id"] for report in (base, again, candidate)]
    item = property_of(compare(project, runs[0], runs[2]), "tabular.group_fairness")
    assert (item["verdict"], item["test"], item["cases"]["newly_failing"]) == ("regression", None, 0)
    ratio = next(gate for gate in item["gates"] if gate["metric"] == "impact_ratio")
    assert (ratio["base"]["verdict"], ratio["candidate"]["verdict"], ratio["moved"]) == ("passed", "failed", "worse")
    assert ratio["base_figure"]["low"] > 0.5 and ratio["candidate_figure"]["value"] == 0
    assert project.here("compare", runs[0], runs[2], "--fail-on-regression").code == 1
    assert project.here("compare", runs[2], runs[0], "--fail-on-regression").code == 0
    same = compare(project, runs[0], runs[1])
    assert same["verdict"] == "no_evidence" and "every figure is the same" in same["headline"]
    assert project.here("compare", runs[0], runs[1], "--fail-on-regression").code == 0
