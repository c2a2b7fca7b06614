"""MLflow models in real child processes, and how their URIs are settled against a real registry."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from mlflow_models import Registry, adults, pipeline
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeClassifier

from aitest_lib.config.card import load_card, load_card_data, model_info
from aitest_lib.errors import InputError, UnavailableError
from aitest_lib.models.opening import open_model
from aitest_lib.models.probe import probe
from aitest_tasks.model_registry import find_version, list_models, register_card, resolve_card
from aitest_tasks.settings import Settings
from aitest_tasks.tracking import Tracking


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    return Registry(tmp_path_factory.mktemp("mlflow"))


@pytest.fixture(scope="module")
def data():
    return adults(300)


@pytest.fixture(scope="module")
def adult(registry, data):
    """A registered pipeline with a signature: version 1."""
    model = pipeline().fit(data.drop(columns="income"), data["income"])
    registry.log(model, data.drop(columns="income"), "adult", code_paths=None)
    return model


@pytest.fixture
def tracking(registry, monkeypatch):
    monkeypatch.chdir(registry.folder)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return Tracking(Settings(registry.home))


@pytest.fixture
def opened(tracking):
    models = []

    def opener(uri, type="tabular-classifier", **card):
        loaded, _ = resolve_card(tracking, load_card_data({"name": "m", "type": type, "mlflow": uri, **card}, "."))
        models.append(open_model(loaded))
        return models[-1]

    yield opener
    for model in models:
        model.close()


def card_of(uri, **card):
    return load_card_data({"name": "m", "type": "tabular-classifier", "mlflow": uri, **card}, ".")


def test_labels_and_scores_are_the_pipelines(opened, adult, data):
    model = opened("models:/adult")
    answers = model.predict(data)
    inputs = data.drop(columns="income")
    assert answers.labels.tolist() == adult.predict(inputs).tolist()
    assert np.allclose(answers.scores, adult.predict_proba(inputs))
    assert model.info.classes == ("high", "low")
    assert probe(model, data).problems == ()
    ordered = opened("models:/adult/1", classes=["low", "high"])
    assert np.allclose(ordered.predict(data).scores[:, 1], adult.predict_proba(inputs)[:, 0])


def test_a_uri_is_settled_once(registry, tracking, adult, data):
    registry.log(DecisionTreeClassifier(max_depth=1).fit(data[["age", "rate"]], data["income"]), data[["age", "rate"]], "adult")
    registry.client.set_registered_model_alias("adult", "champion", "1")
    run = registry.client.get_model_version("adult", "1").run_id
    cases = {
        "models:/adult": ("models:/adult/2", {"name": "adult", "version": "2"}, ["age", "rate"]),
        "models:/adult/latest": ("models:/adult/2", {"name": "adult", "version": "2"}, ["age", "rate"]),
        "models:/adult@champion": ("models:/adult/1", {"name": "adult", "version": "1"}, ["age", "rate", "job"]),
        "models:/adult/1": ("models:/adult/1", {"name": "adult", "version": "1"}, ["age", "rate", "job"]),
        f"runs:/{run}/model": (f"runs:/{run}/model", None, ["age", "rate", "job"]),
    }
    digests = {}
    for uri, (settled, registered, columns) in cases.items():
        loaded, found = resolve_card(tracking, card_of(uri))
        assert (loaded.card.mlflow, found, list(loaded.card.inputs.columns)) == (settled, registered, columns), uri
        assert model_info(loaded).reusable
        digests[uri] = loaded.digest
    assert not model_info(card_of("models:/adult@champion")).reusable
    assert digests["models:/adult"] == digests["models:/adult/latest"]
    assert digests["models:/adult@champion"] == digests["models:/adult/1"]
    assert len(set(digests.values())) == 3


def test_a_number_used_again_is_another_model(registry, tracking, data):
    inputs = data[["age"]]
    digests = []
    for depth in (1, 2):
        registry.log(DecisionTreeClassifier(max_depth=depth).fit(inputs, data["income"]), inputs, "short-lived")
        digests.append(resolve_card(tracking, card_of("models:/short-lived/1"))[0].digest)
        registry.client.delete_registered_model("short-lived")
    assert digests[0] != digests[1]


def test_an_unsettled_card_is_not_opened(adult, data):
    with pytest.raises(InputError, match="moving reference models:/adult"):
        open_model(card_of("models:/adult")).predict(data)


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("models:/adlt", "model.yaml:3: mlflow: unknown registered model 'adlt'; did you mean adult?"),
        ("models:/adult/99", "model.yaml:3: mlflow: the model adult has no version '99'; it has 1"),
        ("models:/adult@chmpion", "mlflow: unknown alias of the model adult 'chmpion'; "),
        ("runs:/" + "0" * 32 + "/model", "mlflow: there is no MLflow model at runs:/000"),
        ("runs:/RUN/modl", "mlflow: there is no MLflow model at runs:/"),
        ("models:/m-" + "0" * 32, "mlflow: there is no MLflow model at models:/m-"),
        ("model:/adult", "model.yaml:3: mlflow: got 'model:/adult', expected models:/NAME, models:/NAME/VERSION, "),
        ("models:/adult/1/2", "expected models:/NAME"),
        ("models:/adult/Production", "expected models:/NAME"),
        ("models:/adult/0", "expected models:/NAME"),
        ("runs:/abc", "or runs:/RUN/PATH"),
        ("adult", "or runs:/RUN/PATH"),
        ("models:adult", "expected models:/NAME"),
    ],
)
def test_what_is_not_there(tmp_path, registry, tracking, adult, uri, said):
    run = registry.client.get_model_version("adult", "1").run_id
    path = tmp_path / "model.yaml"
    path.write_text(f"name: m\ntype: tabular-classifier\nmlflow: {uri.replace('RUN', run)}\n")
    with pytest.raises(InputError) as caught:
        resolve_card(tracking, load_card(path))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_columns_must_be_the_signatures(tmp_path, tracking, adult):
    path = tmp_path / "model.yaml"
    head = "name: m\ntype: tabular-classifier\nmlflow: models:/adult/1\ninputs:\n  columns:\n"
    path.write_text(f"{head}  - age\n  - jbo\n")
    with pytest.raises(
        InputError, match=r"model.yaml:7: inputs.columns\[1\]: unknown input 'jbo'; did you mean job\? \(of the signature"
    ):
        resolve_card(tracking, load_card(path))
    path.write_text(f"{head}  - age\n  - job\n")
    with pytest.raises(InputError, match=r"model.yaml:5: inputs.columns: the signature .* also has the input 'rate'"):
        resolve_card(tracking, load_card(path))


def test_types_are_cast_without_loss(opened, adult, data):
    """The signature says age: long, rate: double, job: string."""
    inputs = data.drop(columns="income").head(6)
    expected = adult.predict(inputs).tolist()
    model = opened("models:/adult/1")
    same = {
        "whole numbers as floats": inputs.assign(age=inputs["age"].astype(float)),
        "small integers": inputs.assign(age=inputs["age"].astype("int32")),
        "nullable": inputs.astype({"age": "Int64", "rate": "Float64", "job": "string"}),
        "category": inputs.assign(job=inputs["job"].astype("category")),
        "extra and reordered": inputs.assign(id=1)[["job", "id", "rate", "age"]],
    }
    for name, table in same.items():
        assert model.predict(table).labels.tolist() == expected, name
    whole_rates = inputs.assign(rate=[1, 2, 3, 4, 5, 6])
    assert model.predict(whole_rates).labels.tolist() == adult.predict(whole_rates.astype({"rate": float})).tolist()


def test_what_a_signature_forbids_is_an_error_of_its_row(opened, adult, data):
    inputs = data.drop(columns="income").head(4).reset_index(drop=True)
    model = opened("models:/adult/1")
    gaps = inputs.assign(age=[30.0, None, 40.5, 50.0], rate=[1.0, 2.0, 3.0, None])
    answers = model.predict(gaps)
    assert answers.errors[0] is None
    for reason in answers.errors[1:3]:
        assert reason.startswith(
            "ValueError: Incompatible input types for column age. Can not safely convert float64 to int64."
        )
    assert "NaN" in answers.errors[3]  # the model's own refusal
    text = model.predict(inputs.assign(rate="much"))
    assert set(text.errors) == {"ValueError: the column rate holds text, and the model's signature says double"}


def test_texts_numbers_dates_and_truth(registry, opened):
    import mlflow.pyfunc

    class Echo(mlflow.pyfunc.PythonModel):
        def predict(self, context, model_input, params=None):
            return [repr(row) for row in model_input.to_dict(orient="records")]

    example = pd.DataFrame(
        {"zip": ["01234"], "when": pd.to_datetime(["2024-01-01"]), "flag": [True], "small": np.array([1], "int32")}
    )
    registry.log_python(Echo(), example, "echo")
    table = pd.DataFrame({"zip": [1234], "when": ["2024-05-06T07:08:09"], "flag": [True], "small": [7]})
    [label] = opened("models:/echo/1").predict(table).labels
    assert label == "{'zip': '1234', 'when': Timestamp('2024-05-06 07:08:09'), 'flag': True, 'small': 7}"
    [reason] = opened("models:/echo/1").predict(table.assign(when="soon")).errors
    assert "soon" in reason


def test_other_kinds_of_models(registry, opened, data):
    numbers = data[["age", "rate"]].astype(float)
    regressor = LinearRegression().fit(numbers, data["age"] * 2)
    registry.log(regressor, numbers, "wage")
    answers = opened("models:/wage/1", "tabular-regressor").predict(data)
    assert np.allclose(answers.labels.astype(float), data["age"] * 2)
    assert answers.scores is None
    tree = DecisionTreeClassifier(max_depth=2, random_state=0).fit(numbers.to_numpy(), data["income"])
    registry.log(tree, numbers.to_numpy(), "tensors")
    by_array = opened("models:/tensors/1", inputs={"columns": ["age", "rate"]}).predict(data)
    assert by_array.labels.tolist() == tree.predict(numbers.to_numpy()).tolist()
    assert np.allclose(by_array.scores, tree.predict_proba(numbers.to_numpy()))
    registry.log(tree, None, "scores-only", pyfunc_predict_fn="predict_proba")
    assert opened("models:/scores-only/1").predict(data[["age", "rate"]]).labels.tolist() == by_array.labels.tolist()


def test_a_model_whose_code_is_not_there(registry, opened, tmp_path, monkeypatch, data):
    module = tmp_path / "gone_tomorrow.py"
    module.write_text("from sklearn.tree import DecisionTreeClassifier\nclass Tree(DecisionTreeClassifier):\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    import gone_tomorrow

    registry.log(gone_tomorrow.Tree().fit(data[["age"]], data["income"]), data[["age"]], "homeless")
    module.unlink()
    with pytest.raises(
        InputError, match=r"models:/homeless/1 cannot be loaded: .*No module named 'gone_tomorrow'; install what it needs"
    ):
        opened("models:/homeless/1").predict(data)


def test_a_registry_that_is_away(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with (
        warnings.catch_warnings(),
        pytest.raises(UnavailableError, match=r"MLflow at http://127.0.0.1:9 could not be used to find"),
    ):
        warnings.simplefilter("ignore")
        resolve_card(Tracking(Settings(tmp_path)), card_of("models:/adult"))


def test_a_card_is_attached_to_its_model(tracking, adult):
    card = card_of("models:/adult@champion", info={"tier": "high", "note": "${NOT_SHOWN}"})
    tracking.client.set_registered_model_alias("adult", "champion", "1")
    before = len(tracking.client.search_model_versions("name='adult'"))
    found = register_card(tracking, card)
    assert (found.name, found.version, found.card.card.mlflow) == ("adult", "1", "models:/adult/1")
    assert len(tracking.client.search_model_versions("name='adult'")) == before
    text = tracking.client.get_registered_model("adult").tags["aitest.card"]
    assert "mlflow: models:/adult@champion" in text
    assert "${NOT_SHOWN}" in text
    for asked, version in (("1", "1"), ("@champion", "1"), ("latest", str(before))):
        audited = find_version(tracking, "adult", asked)
        assert (audited.version, audited.card.card.mlflow) == (version, f"models:/adult/{version}")
    [row] = [row for row in list_models(tracking) if row["name"] == "adult"]
    assert (row["versions"], row["latest"], row["type"], row["tier"]) == (before, str(before), "tabular-classifier", "high")
    assert row["overdue"]


def test_a_card_of_a_run_is_a_version_of_its_own(registry, tracking, adult):
    run = registry.client.get_model_version("adult", "1").run_id
    found = register_card(tracking, card_of(f"runs:/{run}/model"))
    assert (found.name, found.version) == ("m", "1")
    audited = find_version(tracking, "m", "latest")
    assert audited.card.card.mlflow == f"runs:/{run}/model"
    assert audited.card.card.inputs.columns == ("age", "rate", "job")
    assert audited.card.digest == found.card.digest


def test_a_version_that_is_a_card_is_no_model(tracking, adult):
    endpoint = {
        "name": "remote",
        "type": "tabular-classifier",
        "endpoint": {"url": "http://127.0.0.1:9/", "request": "{{ rows|tojson }}", "response": {"labels": "[*]"}},
    }
    register_card(tracking, load_card_data(endpoint, "."))
    with pytest.raises(InputError, match="mlflow: there is no MLflow model at models:/remote/1"):
        resolve_card(tracking, card_of("models:/remote"))
