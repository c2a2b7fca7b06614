"""Whole runs on models of the MLflow registry: the version is settled once, kept answers serve it, verdicts go on it."""

import pytest
from mlflow_models import Registry, adults, pipeline
from projects import is_calm, property_of, suite_data

GENERALIZATION = [{"property": "tabular.generalization", "gates": {"accuracy": {"min": 0.6}}}]
ROBUSTNESS = {
    "property": "tabular.robustness",
    "transforms": [{"name": "numeric_noise", "epsilon": 0.05}],
    "gates": {"pass_rate": {"min": 0.5}},
}
CARD = {"name": "adult-model", "type": "tabular-classifier", "mlflow": "models:/adult@champion", "info": {"tier": "high"}}


@pytest.fixture
def data():
    return adults(240, seed=3)


@pytest.fixture
def registry(project, data):
    """Two versions of `adult`, the first of which is the champion."""
    made = Registry(project.folder)
    train = adults(300)
    for columns in (["age", "rate", "job"], ["age", "rate", "job"]):
        made.log(pipeline().fit(train[columns], train["income"]), train[columns], "adult")
        train = train.iloc[:200]
    made.client.set_registered_model_alias("adult", "champion", "1")
    return made


def written(project, data, model, properties=None):
    data.assign(id=range(len(data))).to_csv(project.folder / "data.csv", index=False)
    project.write("card.yaml", CARD)
    project.write("suite.yaml", suite_data(properties or GENERALIZATION) | {"model": model})
    return project


def test_a_card_file_with_an_alias(project, registry, data):
    written(project, data, {"card": "card.yaml"}, [*GENERALIZATION, ROBUSTNESS])
    report = project.run()
    assert report["status"] == "passed"
    model = report["model"]
    assert (model["name"], model["version"], model["revision"]) == ("adult-model", "1", None)
    assert report["queries"]["sent"] == report["queries"]["planned"] > 240
    assert report["queries"]["errors"] == 0
    shown = {metric["name"] for metric in property_of(report, "tabular.generalization")["metrics"]}
    assert "roc_auc" in shown  # the scores came along
    tags = registry.client.get_model_version("adult", "1").tags
    assert tags["aitest.people"] == "passed"
    assert tags["aitest.people.run_id"] == report["run_id"]
    again = project.run()
    assert (again["queries"]["sent"], again["queries"]["cached"]) == (0, report["queries"]["planned"])
    assert again["queries"]["sentinel"] > 0
    assert again["model"]["digest"] == model["digest"]
    registry.client.set_registered_model_alias("adult", "champion", "2")
    moved = project.run()
    assert moved["model"]["version"] == "2"
    assert moved["queries"]["sent"] == moved["queries"]["planned"]
    assert moved["model"]["digest"] != model["digest"]


def test_registering_attaches_the_card_and_suites_find_it_by_name(project, registry, data):
    written(project, data, {"name": "adult", "version": "latest"})
    refused = project.here("run", "suite.yaml")
    assert refused.code == 2
    assert "model adult version 2 has no card; register one with `aitest register CARD`" in refused.text
    done = project.here("register", "card.yaml", "--data", "data.csv")
    assert done.code == 0, done.text
    assert is_calm(done.text)
    assert len(registry.client.search_model_versions("name='adult'")) == 2
    report = project.run()
    assert (report["model"]["name"], report["model"]["version"]) == ("adult-model", "2")
    assert registry.client.get_model_version("adult", "2").tags["aitest.people"] == "passed"
    assert "aitest.people" not in registry.client.get_model_version("adult", "1").tags
    project.change("suite.yaml", model={"name": "adult", "version": "@champion"})
    assert project.run()["model"]["version"] == "1"
    listed = project.here("models")
    assert "adult" in listed.out
    assert "high" in listed.out
    probed = project.here("probe", "card.yaml", "--data", "data.csv")
    assert probed.code == 0, probed.text


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("models:/adult@chmpion", "card.yaml:3: mlflow: unknown alias of the model adult 'chmpion'; did you mean champion?"),
        ("models:/adlt", "card.yaml:3: mlflow: unknown registered model 'adlt'; did you mean adult?"),
        ("models:/adult/7", "card.yaml:3: mlflow: the model adult has no version '7'; it has 1, 2"),
        ("models:/adult/1/2", "card.yaml:3: mlflow: got 'models:/adult/1/2', expected models:/NAME"),
    ],
)
def test_what_is_not_there_is_told_before_anything_starts(project, registry, data, uri, said):
    written(project, data, {"card": "card.yaml"})
    project.change("card.yaml", mlflow=uri)
    ended = project.here("run", "suite.yaml")
    assert ended.code == 2
    assert said in ended.text
    assert not project.store.exists() or not list(project.store.glob("runs/*"))


def test_data_without_a_column_of_the_signature(project, registry, data):
    written(project, data.drop(columns="job"), {"card": "card.yaml"})
    ended = project.here("run", "suite.yaml")
    assert ended.code == 2
    assert "the data have no column 'job'" in ended.text
