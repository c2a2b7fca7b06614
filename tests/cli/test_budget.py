"""The budget is a hard stop: never more distinct inputs than it pays for, and what it leaves out is said."""

import pytest
from projects import NOISE_AND_SWAP, is_calm, people, property_of

ROBUSTNESS = {"property": "tabular.robustness", "transforms": NOISE_AND_SWAP, "gates": {"pass_rate": {"min": 0.5}}}
BOTH = [{"property": "tabular.generalization", "gates": {"accuracy": {"min": 0.5}}}, ROBUSTNESS]


@pytest.mark.parametrize("budget", [0, 1, 30, 200, 450])
def test_a_small_budget(project, server, budget):
    project.fill(server, people(200), properties=BOTH)
    found = project.here("run", "suite.yaml", "--budget", str(budget), "--json", "r.json", "--junit", "r.xml")
    assert found.code == 4, found.text
    assert is_calm(found.text)
    report = project.report("r.json")
    assert report["status"] == "inconclusive"
    assert len(server.distinct) == report["queries"]["sent"] <= budget
    assert report["queries"]["sent"] >= min(budget, 200)
    robustness = property_of(report, "tabular.robustness")
    assert robustness["status"] == "inconclusive"
    assert robustness["skipped"]["budget"] > 0
    assert "budget" in robustness["reason"]
    table = project.cases(report)
    reasons = table["reason"].to_pylist()
    assert reasons.count("budget") == robustness["skipped"]["budget"]
    if budget < 200:
        generalization = property_of(report, "tabular.generalization")
        assert generalization["skipped"]["budget"] == 200 - budget
        assert generalization["status"] == "inconclusive"


def test_inconclusive_may_be_allowed(project, server):
    project.fill(server, people(200), properties=BOTH)
    found = project.here("run", "suite.yaml", "--budget", "50", "--allow-inconclusive")
    assert found.code == 0, found.text


def test_a_second_run_goes_on_where_the_budget_ended(project, server):
    project.fill(server, people(200), properties=BOTH)
    first = project.run("--budget", "300")
    whole = project.run()
    assert whole["queries"]["sent"] == whole["queries"]["planned"] - first["queries"]["sent"]
    assert len(server.distinct) == whole["queries"]["planned"]
    assert whole["status"] == "passed"


def test_the_budget_of_the_suite(project, server):
    project.fill(server, people(200), properties=BOTH, suite={"budget": {"queries": 120, "cost_per_query": 0.01}})
    report = project.run()
    assert report["queries"]["sent"] == len(server.distinct) == 120


def test_exit_statuses_of_verdicts(project, server):
    generalization = {"property": "tabular.generalization"}
    project.fill(server, people(200), properties=[generalization | {"gates": {"accuracy": {"min": 0.99}}}])
    assert project.here("run", "suite.yaml").code == 1
    project.fill(server, people(200), properties=[generalization])
    assert project.here("run", "suite.yaml").code == 0
    assert project.here("run", "suite.yaml", "--require-gates").code == 4
