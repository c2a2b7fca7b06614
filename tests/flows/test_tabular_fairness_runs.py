"""Fairness of tables as whole runs, on models whose every answer is known."""

from __future__ import annotations

from itertools import pairwise, product
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest
from model_server import serving
from projects import COLUMNS, income, is_calm, new_project, people, property_of

GROUPS, PAIRS, DIRECTIONS = "tabular.group_fairness", "tabular.individual_fairness", "tabular.directional"
ROWS = 300
AGE, HOURS, RATE, JOB, SEX = range(5)
DATA = {"test": "data.csv", "label": "income", "favorable": "high", "protected": ["sex", "job"]}


def biased(row: list[Any]) -> str:
    """Asks more of women, and of cooks."""
    return "high" if row[AGE] + row[HOURS] > 95 + 10 * (row[SEX] == "F") + 5 * (row[JOB] == "cook") else "low"


def bent(row: list[Any]) -> str:
    """More hours help up to 60, and hurt from there on."""
    return "high" if row[AGE] + (row[HOURS] if row[HOURS] <= 60 else 90 - row[HOURS]) > 95 else "low"


def bent_score(row: list[Any]) -> float:
    """The chance of `high`, which rises with the hours but for those from 40 to 45."""
    return min(max((row[HOURS] - 10 * (40 <= row[HOURS] < 45)) / 100, 0.0), 1.0)


def rows_of(frame: pd.DataFrame) -> list[list[Any]]:
    return frame[COLUMNS].to_numpy().tolist()


def metric(found: dict[str, Any], name: str, **where: Any) -> dict[str, Any]:
    [value] = [item for item in found["metrics"] if item["name"] == name and item["slice"] == where]
    return dict(value)


@pytest.fixture(scope="module")
def grouped(tmp_path_factory):
    """A run of group fairness: its project and report."""
    project = new_project(tmp_path_factory.mktemp("groups"))
    with serving(biased) as server:
        gates = {"impact_ratio": {"min": 0.8}, "equal_opportunity_gap": {"max": 0.1}}
        project.fill(server, people(ROWS), properties=[{"property": GROUPS, "gates": gates}], suite={"data": DATA})
        report = project.run()
        assert len(server.distinct) == ROWS
    return project, report


@pytest.fixture(scope="module")
def paired(tmp_path_factory):
    """Two runs of individual fairness: their project, their reports, and the distinct rows that the first has sent."""
    project = new_project(tmp_path_factory.mktemp("pairs"))
    with serving(biased) as server:
        pairs = {"property": PAIRS, "rows": 100, "search": {"queries": 200}, "gates": {"prevalence": {"max": 0.01}}}
        project.fill(server, people(ROWS), properties=[pairs], suite={"data": DATA})
        report = project.run()
        first = len(server.distinct), server.rows
        again = project.run()
        assert again["queries"]["sent"] == 0 and server.rows - first[1] == again["queries"]["sentinel"]
    return project, report, again, first[0]


class TestGroups:
    def test_the_figures_are_those_of_a_count_by_hand(self, grouped):
        _, report = grouped
        found, frame = property_of(report, GROUPS), people(ROWS)
        high = np.array([biased(row) == "high" for row in rows_of(frame)])
        deserving = (frame["income"] == "high").to_numpy()
        rates = {sex: high[frame["sex"] == sex].mean() for sex in "FM"}
        for sex in "FM":
            assert metric(found, "selection_rate", sex=sex)["value"] == pytest.approx(rates[sex], abs=1e-12)
            right = high[(frame["sex"] == sex) & deserving].mean()
            assert metric(found, "true_positive_rate", sex=sex)["value"] == pytest.approx(right, abs=1e-12)
        assert metric(found, "impact_ratio", attribute="sex")["value"] == pytest.approx(rates["F"] / rates["M"], abs=1e-12)
        crossed = frame.assign(high=high).groupby(["sex", "job"])["high"].mean()
        lowest = crossed.min() / crossed.max()
        assert metric(found, "impact_ratio", attribute="sex × job")["value"] == pytest.approx(lowest, abs=1e-12)
        assert metric(found, "selection_rate")["value"] == pytest.approx(high.mean(), abs=1e-12)

    def test_the_report_names_every_attribute_and_every_group(self, grouped):
        _, report = grouped
        groups = property_of(report, GROUPS)["groups"]
        assert [item["name"] for item in groups["attributes"]] == ["sex", "job", "sex × job"]
        assert groups["selection"] == "decision" and groups["labelled"] and not groups["assumed"]
        [sex, job, both] = groups["attributes"]
        assert (sex["reference"], sex["favorable"]) == ("M", "high")
        assert sum(group["rows"] for group in both["groups"]) == ROWS
        assert len(both["pairs"]) == 15 and len(job["pairs"]) == 3
        assert property_of(report, GROUPS)["status"] in ("failed", "inconclusive")

    def test_each_gate_stands_once_for_each_attribute(self, grouped):
        _, report = grouped
        gates = property_of(report, GROUPS)["gates"]
        found = sorted((gate["metric"], gate["slice"]["attribute"]) for gate in gates)
        assert found == sorted(product(("impact_ratio", "equal_opportunity_gap"), ("sex", "job", "sex × job")))

    def test_a_case_is_a_row_and_none_fails_whatever_its_label(self, grouped):
        project, report = grouped
        cases = project.cases(report, GROUPS).to_pandas()
        assert len(cases) == ROWS
        assert (cases["outcome"] == "passed").all() and cases["explanation"].isna().all()
        wrong = cases["expected"] != cases["observed"]
        assert wrong.any()
        found = property_of(report, GROUPS)
        [women] = [one for one in found["slices"] if (one["name"], one["value"]) == ("sex", "F")]
        of = (people(ROWS)["sex"] == "F").sum()
        assert (women["seeds"], women["failing"]) == (of, (wrong & (cases["slice.sex"] == "F")).sum())

    def test_the_bias_audit_and_the_figures_stand_in_mlflow(self, grouped):
        project, _ = grouped
        with project.entered():
            client = mlflow.MlflowClient(f"sqlite:///{project.home / 'mlflow.db'}")
            experiment = client.get_experiment_by_name("people").experiment_id
            [child] = [run for run in client.search_runs([experiment]) if run.data.tags.get("aitest.property") == GROUPS]
            names = {item.path for item in client.list_artifacts(child.info.run_id)}
            figures = {item.path for item in client.list_artifacts(child.info.run_id, "figures")}
            table = pd.read_csv(Path(client.download_artifacts(child.info.run_id, "bias_audit.csv")))
            metrics = child.data.metrics
        assert {"bias_audit.csv", "report.json"} <= names
        assert "failures.json" not in names  # no case of groups fails
        assert any("groups_sex" in name for name in figures)
        frame = people(ROWS)
        high = np.array([biased(row) == "high" for row in rows_of(frame)])
        women = table[(table["attribute"] == "sex") & (table["category"] == "F")].iloc[0]
        assert women["applicants"] == (frame["sex"] == "F").sum()
        assert women["selected"] == high[frame["sex"] == "F"].sum()
        assert metrics["attribute_sex/impact_ratio"] == pytest.approx(women["impact_ratio"], abs=1e-3)


class TestPairs:
    def test_prevalence_is_that_of_every_combination_by_hand(self, paired):
        project, report, _, _ = paired
        cases = project.cases(report, PAIRS).to_pandas()
        assert len(cases) == 100 * 6 and cases["seed_id"].nunique() == 100
        assert (cases[cases["outcome"] == "skipped"]["reason"] == "no_op").all()
        assert (cases["outcome"] == "skipped").sum() == 100  # its own combination
        turned = cases.groupby("seed_id")["outcome"].agg(lambda ends: "failed" in set(ends)).mean()
        found = property_of(report, PAIRS)
        assert metric(found, "prevalence")["value"] == pytest.approx(turned, abs=1e-12)
        assert found["pairs"]["turned"] == round(100 * turned) > 0
        # Over all rows of the data, of which these are a random sample, by the rule itself.
        frame = people(ROWS)
        every = [
            len({biased([*row[:JOB], job, sex]) for job, sex in product(["clerk", "cook", "nurse"], "FM")}) > 1
            for row in rows_of(frame)
        ]
        low, high = found["pairs"]["low"], found["pairs"]["high"]
        assert low - 0.05 <= np.mean(every) <= high + 0.05
        assert found["status"] == "failed"

    def test_every_case_is_what_its_row_says(self, paired):
        project, report, _, _ = paired
        failing = property_of(report, PAIRS)
        shown = project.here("show", "last", "--property", PAIRS, "--failures", "200", "--format", "json")
        assert shown.code == 0 and is_calm(shown.err)
        cases = project.cases(report, PAIRS).to_pandas()
        assert (cases[cases["outcome"] == "failed"]["expected"] != cases[cases["outcome"] == "failed"]["observed"]).all()
        assert (cases[cases["outcome"] == "passed"]["expected"] == cases[cases["outcome"] == "passed"]["observed"]).all()
        assert cases[cases["outcome"] == "failed"]["explanation"].str.contains("turned the decision from").all()
        assert failing["pairs"]["columns"] == ["sex", "job"] and failing["pairs"]["combinations"] == 6

    def test_the_pairs_that_were_found_are_kept_and_are_pairs(self, paired):
        _, report, _, _ = paired
        found = property_of(report, PAIRS)
        pairs = pd.read_parquet(found["artifacts"]["pairs"].removeprefix("file://"))
        size = len(pairs) // 2
        assert size == found["pairs"]["search"]["found"] == metric(found, "pairs_found")["value"] > 0
        first, second = pairs[:size].reset_index(drop=True), pairs[size:].reset_index(drop=True)
        same = ["age", "hours", "rate"]
        pd.testing.assert_frame_equal(first[same], second[same])
        before, after = ([biased(row) for row in rows_of(part)] for part in (first, second))
        assert all(a != b for a, b in zip(before, after, strict=True))
        assert found["pairs"]["search"]["queries"] <= 200
        assert (first["@query"] >= 1).all() and first["@query"].is_monotonic_increasing

    def test_every_query_is_counted_once(self, paired):
        _, report, _, distinct = paired
        assert report["queries"]["planned"] == report["queries"]["sent"] == distinct
        assert distinct <= ROWS + 500 + 200 + 100

    def test_a_second_run_is_the_same(self, paired):
        project, report, again, _ = paired
        one, other = property_of(report, PAIRS), property_of(again, PAIRS)
        assert one["pairs"] == other["pairs"] and one["metrics"] == other["metrics"]
        assert project.cases(report, PAIRS) == project.cases(again, PAIRS)

    def test_a_case_can_be_replayed(self, paired):
        project, report, _, _ = paired
        cases = project.cases(report, PAIRS).to_pandas()
        case = cases[cases["outcome"] == "failed"].iloc[0]["case_id"]
        found = project.here("replay", report["run_id"], case)
        assert found.code in (0, 3)  # the server is gone by now, and that is said in one line
        assert is_calm(found.text)


def test_a_model_that_is_not_told_has_no_pairs(project):
    with serving(lambda row: "high" if row[0] > 50 else "low") as server:
        gates = {"prevalence": {"max": 0.01}}
        columns = {"inputs": {"columns": ["age", "hours", "job"]}}
        data = DATA | {"protected": ["sex"]}
        frame = people(ROWS)
        frame["job"] = np.where(frame["sex"] == "F", "nurse", frame["job"])  # a proxy
        project.fill(server, frame, properties=[{"property": PAIRS, "gates": gates}], card=columns, suite={"data": data})
        found = property_of(project.run(), PAIRS)
    assert found["status"] == "skipped" and found["pairs"]["not_inputs"] == ["sex"]
    assert found["pairs"]["proxies"][0]["column"] == "job"
    assert "job" in found["explanation"] and found["cases"]["total"] == 0


def test_decisions_that_bend_are_found_and_straight_ones_are_not(project):
    directions = {"hours": {"increasing": "decision"}, "age": "never_hurts", "rate": {"never_helps": "decision"}}
    gates = {"violation_rate": {"max": 0.05}}
    with serving(bent) as server:
        item = {"property": DIRECTIONS, "rows": 200, "directions": directions, "gates": gates}
        project.fill(server, people(ROWS), properties=[item], suite={"data": DATA | {"protected": []}})
        report = project.run()
    found = property_of(report, DIRECTIONS)
    verdicts = {gate["slice"]["column"]: gate["verdict"] for gate in found["gates"]}
    assert verdicts == {"hours": "failed", "age": "passed", "rate": "passed"}
    [hours, age, rate] = found["directions"]
    frame = people(ROWS)
    grid = [int(step["value"]) for step in hours["steps"]]
    assert grid == sorted(grid) and grid[0] == frame["hours"].min() and grid[-1] == frame["hours"].max()
    cases = project.cases(report, DIRECTIONS).to_pandas()
    looked_at = set(cases["seed_id"])
    assert set(cases["transform"]) == {"moved hours", "moved age", "moved rate"}
    assert len(looked_at) == 200 == hours["rows"]

    def bends(row: list[Any]) -> bool:
        curve = [bent([row[0], value, *row[2:]]) == "high" for value in sorted({*grid, row[HOURS]})]
        return any(before and not after for before, after in pairwise(curve))

    shares = np.mean([bends(row) for row in rows_of(frame)])
    assert hours["low"] - 0.05 <= shares <= hours["high"] + 0.05  # these rows are a random sample of those
    assert age["violating"] == rate["violating"] == 0
    worst = hours["stretches"][0]
    assert worst["end"] > 60
    failed = cases[cases["outcome"] == "failed"]
    assert len(failed) and failed["explanation"].str.contains("more of it should never|less of it should never").all()


def test_a_dip_in_the_score_is_found_where_it_lies(project):
    with serving(lambda row: "high" if bent_score(row) >= 0.5 else "low", bent_score) as server:
        gates = {"violation_rate": {"max": 0.1}}
        item = {"property": DIRECTIONS, "rows": 100, "directions": {"hours": "increasing"}, "gates": gates}
        response = {"labels": "predictions[*].label", "scores": "predictions[*].score"}
        card, suite = {"classes": ["low", "high"]}, {"data": DATA | {"protected": []}}
        project.fill(server, people(ROWS), properties=[item], card=card, suite=suite, response=response)
        found = property_of(project.run(), DIRECTIONS)
    [hours] = found["directions"]
    assert (hours["on"], hours["favorable"], found["status"]) == ("score", "high", "failed")
    grid = [step["value"] for step in hours["steps"]]
    assert any(40 <= value < 45 for value in grid)
    assert hours["violating"] == hours["rows"] == 100
    assert hours["largest"] == pytest.approx(0.1, abs=0.06)
    assert all(stretch["start"] < 45 and stretch["end"] >= 40 for stretch in hours["stretches"])
    assert "hours" in found["explanation"]


def test_scores_that_the_model_does_not_give_cannot_be_watched(project):
    with serving(income) as server:
        gates = {"violation_rate": {"max": 0.1}}
        item = {"property": DIRECTIONS, "rows": 50, "directions": {"age": {"increasing": "score"}}, "gates": gates}
        project.fill(server, people(100), properties=[item], suite={"data": DATA | {"protected": []}})
        found = property_of(project.run(), DIRECTIONS)
    assert found["status"] == "inconclusive"
    assert "gives no scores" in found["gates"][0]["reason"]
    assert found["cases"]["passed"] == found["cases"]["failed"] == 0
