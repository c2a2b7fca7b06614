"""Synthesized seeds in whole runs: what is asked, which properties take them, and what is said of them."""

from __future__ import annotations

import pandas as pd
import pytest
from model_server import serving
from projects import COLUMNS, NOISE_AND_SWAP, income, is_calm, people, property_of

from aitest_lib.data.rules import parse_rule

ROWS = 500
TREE = {"property": "tabular.tree_simulatability"}
ROBUST = {"property": "tabular.robustness", "transforms": NOISE_AND_SWAP}
GENERAL = {"property": "tabular.generalization"}


def synthesized(project, server, config, properties=(GENERAL, ROBUST, TREE), rows=300, data=None, **fill):
    suite = {"data": {"test": "data.csv", "label": "income", "synthesize": {"rows": ROWS, **config}, **(data or {})}}
    return project.fill(server, people(rows), properties=list(properties), suite=suite, **fill)


def seeds_of(project, report, name="tabular.generalization"):
    """The seeds as the run stored them."""
    cases = project.cases(report, name).to_pandas()
    parts = {uri.partition("#")[0] for uri in cases["input_uri"]}
    return pd.concat([pd.read_parquet(part.removeprefix("file://")) for part in sorted(parts)]), cases


def test_every_property_takes_them(project, server):
    report = synthesized(
        project, server, {"rules": ["job != 'cook' or hours <= 60"]}, data={"schema": {"sex": {"tied": "job"}}}
    )
    report = report.run()
    seeds, cases = seeds_of(project, report)
    assert len(seeds) == ROWS == property_of(report, "tabular.generalization")["cases"]["total"]
    assert property_of(report, "tabular.robustness")["cases"]["total"] == 2 * ROWS
    assert property_of(report, "tabular.tree_simulatability")["cases"]["total"] == ROWS // 5
    assert cases["seed_id"].is_unique
    assert report["provenance"]["seeds"] == ROWS
    real = people(300)
    assert parse_rule("job != 'cook' or hours <= 60", COLUMNS).holds(seeds[COLUMNS]).all()
    for name in COLUMNS:
        assert set(seeds[name]) <= set(real[name])
    assert not seeds[COLUMNS].merge(real[COLUMNS], how="left", indicator=True)["_merge"].eq("both").all()
    told = report["synthesis"]
    assert told["rows"] == ROWS
    assert told["method"] == "swap"
    assert told["from_rows"] == 300
    assert told["rule_violations"] == told["tied_violations"] == 0
    assert told["auc_low"] <= told["auc"] <= told["auc_high"]
    assert report["queries"]["planned"] == report["queries"]["sent"] == len(server.distinct)
    page = project.here("report", "last", "-o", "page.html")
    assert page.code == 0
    assert "ynthesized" in (project.folder / "page.html").read_text()


def test_a_second_run_makes_the_same_and_asks_nothing(project, server):
    synthesized(project, server, {})
    first = project.run()
    rows = server.rows
    second = project.run("--workers", "1")
    assert second["queries"]["sent"] == 0
    assert server.rows - rows == 50
    assert second["synthesis"] == first["synthesis"]
    for name in ("tabular.generalization", "tabular.robustness", "tabular.tree_simulatability"):
        assert project.cases(second, name)["case_id"] == project.cases(first, name)["case_id"]


def test_rows_for_every_path(project, server):
    synthesized(project, server, {"method": "coverage"}, properties=(ROBUST, TREE))
    told = project.run()["synthesis"]
    assert told["paths"] >= told["feasible"] == told["reached"] > 1
    assert not told["labels"]


def test_drift(project, server):
    drift = {"ranges": {"age": {"min": 60, "max": 80}}, "distributions": {"sex": {"F": 0.9, "M": 0.1}}}
    synthesized(project, server, drift, properties=(ROBUST, TREE))
    report = project.run()
    seeds, _ = seeds_of(project, report, "tabular.tree_simulatability")
    assert seeds["age"].between(60, 80).all()
    assert (seeds["sex"] == "F").mean() == pytest.approx(0.9, abs=0.05)
    shifts = {item["column"]: item for item in report["synthesis"]["shifts"]}
    assert shifts["age"]["asked"]
    assert shifts["age"]["distance"] > 0.5
    assert not shifts["rate"]["asked"]


def test_private_columns_stay_with_their_row(project):
    pairs = set()

    def noted(row):
        pairs.add(row[2])
        return income(row)

    with serving(noted) as server:
        synthesized(project, server, {}, data={"schema": {"rate": {"private": True}}})
        report = project.run()
    assert pairs <= set(people(300)["rate"])
    seeds, _ = seeds_of(project, report)
    assert "rate" not in seeds


def test_what_cannot_be_is_told(project, server):
    synthesized(project, server, {"method": "marginal"})
    found = project.here("run", "suite.yaml")
    assert found.code == 2
    assert "tabular.generalization needs" in found.err
    synthesized(project, server, {"ranges": {"age": {"min": 30}}})
    assert "rows whose numbers drift have no labels" in project.here("run", "suite.yaml").err
    private = {"schema": {"rate": {"private": True}}}
    synthesized(project, server, {"rules": ["rate > 4"]}, data=private)
    assert "it is about rate, which is private" in project.here("run", "suite.yaml").err
    synthesized(project, server, {"ranges": {"agee": {"min": 3}}}, properties=[ROBUST])
    found = project.here("run", "suite.yaml")
    assert found.code == 2
    assert "did you mean age" in found.err
    assert is_calm(found.text)


def test_a_dry_run_plans_as_many(project, server):
    synthesized(project, server, {}, properties=[GENERAL])
    found = project.here("run", "suite.yaml", "--dry-run")
    assert found.code == 0
    assert not server.calls
    assert "500" in found.out
