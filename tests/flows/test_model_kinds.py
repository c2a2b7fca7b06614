"""Whole runs on regressors, computed answers, scores only, and models that do not answer the same way twice."""

import random

import numpy as np
import pytest
from model_server import serving
from projects import COLUMNS, people, property_of, wage

GENERALIZATION = {"property": "tabular.generalization"}
ROBUSTNESS = {
    "property": "tabular.robustness",
    "transforms": [{"name": "numeric_noise", "epsilon": 0.1}],
    "gates": {"pass_rate": {"min": 0.5}},
}


def metric(report, name, metric_name, where=None):
    [found] = [
        item
        for item in property_of(report, name)["metrics"]
        if item["name"] == metric_name and (where is None or item["slice"] == where)
    ]
    return found


def test_a_regressor(project):
    frame = people(300).drop(columns="income")
    truth = np.array([wage(row) for row in frame.to_numpy().tolist()])
    errors = np.random.default_rng(5).normal(0, 4, len(frame))
    data = frame.assign(wage=truth + errors)
    suite = {"data": {"test": "data.csv", "label": "wage"}}
    with serving(wage) as server:
        project.fill(server, data, card={"type": "tabular-regressor"}, suite=suite, properties=[GENERALIZATION, ROBUSTNESS])
        report = project.run()
    assert report["queries"]["sent"] == len(server.distinct)
    assert metric(report, "tabular.generalization", "rmse")["value"] == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-6)
    assert metric(report, "tabular.generalization", "mae")["value"] == pytest.approx(np.mean(np.abs(errors)), rel=1e-6)
    r2 = 1 - np.sum(errors**2) / np.sum((data.wage - data.wage.mean()) ** 2)
    assert metric(report, "tabular.generalization", "r2")["value"] == pytest.approx(r2, rel=1e-6)
    robustness = property_of(report, "tabular.robustness")
    counts = robustness["cases"]
    assert counts["total"] == 300
    assert counts["error"] == 0
    assert counts["passed"] + counts["failed"] == 300 - robustness["skipped"].get("misclassified_seed", 0)
    assert robustness["skipped"]["misclassified_seed"] == pytest.approx(30, abs=1)  # the 90th percentile of clean errors


def test_computed_answers_serve_what_asks_nothing_new(project):
    data = people(300)
    answers = data[COLUMNS].assign(prediction=["high" if row.age > 50 else "low" for row in data.itertuples()])
    answers.to_csv(project.folder / "answers.csv", index=False)
    card = {"name": "computed", "type": "tabular-classifier", "predictions": "answers.csv", "inputs": {"columns": COLUMNS}}
    with serving(lambda row: "low") as server:
        project.fill(server, data, properties=[GENERALIZATION, ROBUSTNESS])
        project.write("card.yaml", card)
        report = project.run()
        assert server.calls == 0
    expected = np.mean(answers.prediction == data.income)
    assert metric(report, "tabular.generalization", "accuracy", {})["value"] == pytest.approx(expected)
    robustness = property_of(report, "tabular.robustness")
    assert robustness["status"] == "skipped"
    assert "computed answers" in robustness["reason"]
    assert report["status"] == "unjudged"


def test_scores_only_with_a_threshold(project):
    data = people(300)
    with serving(lambda row: "ignored", lambda row: (row[0] - 17) / 73) as server:
        project.fill(
            server,
            data,
            card={"classes": ["low", "high"], "decision": {"threshold": 0.6}},
            response={"scores": "predictions[*].score"},
            properties=[GENERALIZATION],
        )
        report = project.run()
    answer = np.where((data.age - 17) / 73 >= 0.6, "high", "low")
    assert metric(report, "tabular.generalization", "accuracy", {})["value"] == pytest.approx(np.mean(answer == data.income))
    from sklearn.metrics import roc_auc_score

    auc = roc_auc_score(data.income == "high", (data.age - 17) / 73)
    assert metric(report, "tabular.generalization", "roc_auc", {})["value"] == pytest.approx(auc)


def test_a_model_that_flips_by_itself_is_judged_by_the_excess(project):
    chance = random.Random(0)

    def flipping(row):
        high = row[0] > 50
        return "high" if high != (chance.random() < 0.03) else "low"

    data = people(600, wrong=0)
    data["income"] = np.where(data.age > 50, "high", "low")
    gate = {"pass_rate": {"min": 0.95}}
    same = [{"name": "category_swap"}]  # changes nothing that this model looks at: all flips are its own
    with serving(flipping) as server:
        project.fill(server, data, properties=[ROBUSTNESS | {"transforms": same, "gates": gate}])
        report = project.run()
    model = report["model"]
    assert model["deterministic"] is False
    assert 0 < model["self_flip_rate"] < 0.25
    [judged] = property_of(report, "tabular.robustness")["gates"]
    assert judged["verdict"] != "failed"
    assert report["queries"]["sent"] == report["queries"]["planned"] == len(server.distinct)


def test_a_deterministic_model_is_called_so(project, server):
    project.fill(server, people(120), properties=[GENERALIZATION])
    model = project.run()["model"]
    assert model["deterministic"] is True
    assert model["self_flip_rate"] is None
