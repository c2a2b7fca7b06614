"""What MLflow holds after a run, read with its own client; and the registry."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from fairness_projects import RATIO, Model, asked, by_merit, plain
from planted_pairs import INPUTS
from projects import is_calm, people, property_of

LEGAL = re.compile(r"[A-Za-z0-9_\-./]+")


def client(project):
    from mlflow import MlflowClient

    return MlflowClient(f"sqlite:///{project.home / 'mlflow.db'}")


@pytest.fixture
def recorded(project, server):
    project.fill(server, people(200), suite={"data": {"test": "data.csv", "label": "income", "protected": {"sex": {}}}})
    report = project.run()
    return project, report, client(project)


def test_experiment_runs_and_artifacts(recorded):
    project, report, mlflow = recorded
    experiment = mlflow.get_experiment_by_name("people")
    assert experiment.tags["mlflow.experimentKind"] == "custom_model_development"
    assert experiment.artifact_location.startswith((project.home / "mlartifacts").as_uri())
    runs = mlflow.search_runs([experiment.experiment_id])
    parent = next(run for run in runs if run.info.run_id == report["run_id"])
    children = [run for run in runs if run.data.tags.get("mlflow.parentRunId") == report["run_id"]]
    assert len(runs) == 3
    assert {run.data.tags["aitest.property"] for run in children} == {item["property"] for item in report["properties"]}
    assert all(run.info.status == "FINISHED" for run in runs)
    for run in runs:
        assert run.data.tags["aitest.suite"] == "people"
        assert run.data.tags["aitest.model"] == "served"
        assert "aitest.model_version" in run.data.tags
        assert all(LEGAL.fullmatch(name) for name in run.data.metrics), run.data.metrics
    assert parent.data.tags["aitest.status"] == report["status"]
    assert parent.data.params["data.label"] == "income"
    assert parent.data.params["random_seed"] == "7"
    [data] = parent.inputs.dataset_inputs
    assert data.dataset.name == "data.csv"
    assert {"report.html", "report.json", "failures.json"} <= {item.path for item in mlflow.list_artifacts(report["run_id"])}
    assert not (project.folder / "mlruns").exists()


def test_metrics_with_bounds_and_the_report_as_it_is(recorded, tmp_path):
    _, report, mlflow = recorded
    stored = json.loads(Path(mlflow.download_artifacts(report["run_id"], "report.json", str(tmp_path))).read_text())
    assert stored == report
    [child] = mlflow.search_runs(
        [mlflow.get_experiment_by_name("people").experiment_id], "tags.`aitest.property` = 'tabular.robustness'"
    )
    item = property_of(report, "tabular.robustness")
    assert child.data.tags["aitest.cases"] == item["artifacts"]["cases"]
    assert child.data.tags["aitest.status"] == item["status"]
    [noise] = [
        metric
        for metric in item["metrics"]
        if metric["name"] == "pass_rate" and metric["slice"].get("transform") == "numeric_noise"
    ]
    for suffix, value in (("", noise["value"]), ("_low", noise["low"]), ("_high", noise["high"])):
        assert child.data.metrics[f"numeric_noise_0.1/pass_rate{suffix}"] == pytest.approx(value)
    assert {"report.json", "figures"} <= {artifact.path for artifact in mlflow.list_artifacts(child.info.run_id)}


def test_groups_of_any_name_have_their_own_metrics(project):
    data = plain(300).assign(性别=np.tile(["男", "女"], 150), car=np.tile(["w/", "w/o", "../x" * 60], 100))
    protected = {"age": {"cut_at": [40]}, "性别": {}, "car": {}}
    report = asked(project, Model(by_merit, [*INPUTS, "性别", "car"]), data, RATIO, given={"protected": protected})
    mlflow = client(project)
    [child] = mlflow.search_runs(
        [mlflow.get_run(report["run_id"]).info.experiment_id], "tags.`aitest.property` = 'tabular.group_fairness'"
    )
    [found] = report["properties"]
    rates = {str(item["slice"]): item for item in found["metrics"] if item["name"] == "selection_rate"}
    logged = {name: value for name, value in child.data.metrics.items() if name.endswith("/selection_rate")}
    assert sorted(logged.values()) == pytest.approx(sorted(item["value"] for item in rates.values() if item["slice"]))
    assert logged["age_lt_40/selection_rate"] == pytest.approx(rates["{'age': '< 40'}"]["value"])
    assert logged["age_ge_40/selection_rate"] == pytest.approx(rates["{'age': '>= 40'}"]["value"])
    drawn = [item.path for item in mlflow.list_artifacts(child.info.run_id, "figures")]
    assert len(drawn) == len(set(drawn)) and drawn


def test_failures_are_an_mlflow_table(recorded, tmp_path):
    _, report, mlflow = recorded
    table = json.loads(Path(mlflow.download_artifacts(report["run_id"], "failures.json", str(tmp_path))).read_text())
    assert {"case_id", "explanation", "seed", "changed"} <= set(table["columns"])
    assert table["data"]


def test_a_registered_version_carries_the_verdict(project, server):
    project.fill(server, people(150))
    first = project.here("register", "card.yaml", "--data", "data.csv")
    assert first.code == 0, first.text
    assert is_calm(first.text)
    assert "version 1" in first.out
    project.change("card.yaml", revision="2")
    assert "version 2" in project.here("register", "card.yaml").out
    assert "never audited" in project.here("models").out
    project.change("suite.yaml", model={"name": "served", "version": "latest"})
    report = project.run()
    assert report["model"]["version"] == "2"
    assert report["model"]["revision"] == "2"
    version = client(project).get_model_version("served", "2")
    assert version.tags["aitest.people"] == report["status"]
    assert version.tags["aitest.people.run_id"] == report["run_id"]
    assert version.tags["aitest.type"] == "tabular-classifier"
    assert "aitest.people" not in client(project).get_model_version("served", "1").tags
    assert f"people: {report['status']}" in project.here("models").out
    project.change("suite.yaml", model={"name": "served", "version": 7})
    wrong = project.here("run", "suite.yaml")
    assert wrong.code == 2
    assert "aitest models" in wrong.err


def test_an_alias_names_a_version(project, server):
    project.fill(server, people(60), properties=[{"property": "tabular.generalization"}])
    project.here("register", "card.yaml")
    project.here("register", "card.yaml")
    client(project).set_registered_model_alias("served", "champion", "1")
    project.change("suite.yaml", model={"name": "served", "version": "@champion"})
    assert project.run()["model"]["version"] == "1"
