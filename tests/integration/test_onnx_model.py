"""ONNX files in real child processes, beside the scikit-learn models they were made from."""

from __future__ import annotations

import numpy as np
import onnx
import pandas as pd
import pytest
from onnx import TensorProto, helper, numpy_helper
from opening import open_card
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType, Int64TensorType, StringTensorType
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

from aitest_lib.config.card import load_card, load_card_data
from aitest_lib.errors import InputError

N = 200


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    return pd.DataFrame({"x": rng.normal(size=N), "y": rng.normal(size=N), "z": rng.integers(0, 5, N).astype(float)})


@pytest.fixture(scope="module")
def mixed():
    rng = np.random.default_rng(1)
    towns = rng.choice(["Ulm", "Bonn", "Köln"], N).astype(object)
    return pd.DataFrame({"rooms": rng.integers(1, 6, N), "rate": rng.normal(10, 3, N), "town": towns})


def saved(path, model, types, **options):
    path.write_bytes(to_onnx(model, initial_types=types, options=options, target_opset=18).SerializeToString())
    return path


def matrix(columns=3):
    return [("input", FloatTensorType([None, columns]))]


def opened(path, type="tabular-classifier", **card):
    return open_card({"name": "m", "type": type, "onnx": str(path), **card})


def labels_of(table, words=("low", "mid", "high")):
    return np.array(words)[np.digitize(table["x"] + table["y"], [-0.5, 0.5])]


def test_labels_and_probabilities_are_scikit_learns(tmp_path, table):
    model = RandomForestClassifier(10, random_state=0).fit(table.to_numpy("float32"), labels_of(table))
    answers = opened(saved(tmp_path / "m.onnx", model, matrix())).predict(table)
    assert answers.labels.tolist() == model.predict(table.to_numpy("float32")).tolist()
    assert np.allclose(answers.scores, model.predict_proba(table.to_numpy("float32")), atol=1e-6)


def test_the_classes_come_from_the_maps_and_the_card_orders_them(tmp_path, table):
    model = LogisticRegression().fit(table.to_numpy("float32"), labels_of(table))
    path = saved(tmp_path / "m.onnx", model, matrix())
    by_model = opened(path)
    by_model.predict(table.head(2))
    assert by_model.info.classes == ("high", "low", "mid")
    by_card = opened(path, classes=["low", "mid", "high"])
    expected = model.predict_proba(table.to_numpy("float32"))[:, [1, 2, 0]]
    assert np.allclose(by_card.predict(table).scores, expected, atol=1e-5)
    with pytest.raises(InputError, match="has the class 'high'"):
        opened(path, classes=["low", "mid", "higher"]).predict(table)


@pytest.fixture(scope="module")
def by_column(tmp_path_factory, mixed):
    """A pipeline with an input for each column, and the pipeline."""
    encode = OneHotEncoder(handle_unknown="ignore")
    columns = make_column_transformer((StandardScaler(), ["rate"]), (encode, ["rooms"]), (encode, ["town"]))
    model = make_pipeline(columns, LogisticRegression()).fit(mixed, (mixed["rooms"] + mixed["rate"] > 13).astype(int))
    types = [
        ("rooms", Int64TensorType([None, 1])),
        ("rate", FloatTensorType([None, 1])),
        ("town", StringTensorType([None, 1])),
    ]
    return saved(tmp_path_factory.mktemp("onnx") / "m.onnx", model, types), model


def test_one_input_for_each_column(mixed, by_column):
    path, model = by_column
    answers = opened(path).predict(mixed[["town", "rate", "rooms"]])  # by name, not by place
    assert answers.labels.tolist() == model.predict(mixed).tolist()
    assert np.allclose(answers.scores, model.predict_proba(mixed), atol=1e-5)


def test_missing_values_of_each_type(by_column):
    gaps = pd.DataFrame(
        {"rooms": [4.0, None, 4.5, 5.0, 1.0], "rate": [1.0] * 4 + [None], "town": ["Ulm", None, "Ulm", None, "Rom"]}
    )
    answers = opened(by_column[0]).predict(gaps)
    assert answers.errors[1] == "ValueError: the column rooms holds a missing value, and the model's input rooms is int64"
    assert "the column rooms holds a number that is no int64" in answers.errors[2]
    assert answers.errors[[0, 3]].tolist() == [None, None]
    assert answers.scores[3].sum() == pytest.approx(1)  # a missing text is an empty one
    assert answers.errors[4]  # NaN reaches the model, whose probabilities are then none


def test_inputs_and_columns_must_match(mixed, by_column):
    path, _ = by_column
    with pytest.raises(InputError, match=r"an input town, and there is no such column \(perhaps towns\?\)"):
        opened(path).predict(mixed.rename(columns={"town": "towns"}))
    with pytest.raises(InputError, match=r"no input for the column id; list those that it takes as `inputs.columns`"):
        opened(path).predict(mixed.assign(id=1))
    assert not opened(path, inputs={"columns": list(mixed)}).predict(mixed.assign(id=1)).errors.any()


def test_names_that_an_exporter_has_changed(tmp_path):
    table = pd.DataFrame({"home town": ["Ulm", "Bonn"] * 10, "x": np.arange(20.0)})
    clean = table.rename(columns={"home town": "home_town"})
    encode = make_column_transformer((OneHotEncoder(), ["home_town"]), (StandardScaler(), ["x"]))
    model = make_pipeline(encode, LogisticRegression()).fit(clean, [0, 1] * 10)
    types = [("home_town", StringTensorType([None, 1])), ("x", FloatTensorType([None, 1]))]
    assert opened(saved(tmp_path / "m.onnx", model, types)).predict(table).labels.tolist() == [0, 1] * 10


def test_a_tensor_of_scores_is_in_the_order_of_the_card(tmp_path, table):
    model = LogisticRegression().fit(table.to_numpy("float32"), labels_of(table))
    path = saved(tmp_path / "m.onnx", model, matrix(), zipmap=False)
    answers = opened(path, classes=["high", "low", "mid"]).predict(table)
    assert np.allclose(answers.scores, model.predict_proba(table.to_numpy("float32")), atol=1e-5)
    assert opened(path).predict(table).scores is None  # nobody says which is whose
    with pytest.raises(
        InputError, match=r"with the label 'high' is always number 1, and `classes` has 'low' there; write `classes`"
    ):
        opened(path, classes=["low", "mid", "high"]).predict(table.sort_values("x", ascending=False))


def test_whole_numbers_are_places_where_the_card_has_words(tmp_path, table):
    codes = np.digitize(table["x"] + table["y"], [-0.5, 0.5])
    model = LogisticRegression().fit(table.to_numpy("float32"), codes)
    words = np.array(["low", "mid", "high"])[model.predict(table.to_numpy("float32"))]
    for zipmap in (True, False):
        path = saved(tmp_path / "m.onnx", model, matrix(), zipmap=zipmap)
        answers = opened(path, classes=["low", "mid", "high"]).predict(table)
        assert answers.labels.tolist() == words.tolist()
        assert np.allclose(answers.scores, model.predict_proba(table.to_numpy("float32")), atol=1e-5)
        assert (
            opened(path, classes=[0, 1, 2]).predict(table).labels.tolist() == model.predict(table.to_numpy("float32")).tolist()
        )
    short = opened(path, classes=["low", "mid"]).predict(table)
    assert any("expected" in str(reason) for reason in short.errors)
    as_texts = opened(saved(tmp_path / "t.onnx", model, matrix(), zipmap=False), classes=["2", "1", "0"]).predict(table)
    assert all("differs from" in reason for reason in as_texts.errors)


def node_model(path, nodes, inputs, outputs, initializers=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, str(path))
    return path


def tensor(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def weights(rng_seed=0, shape=(3, 3)):
    return numpy_helper.from_array(np.random.default_rng(rng_seed).normal(size=shape).astype("float32"), "w")


def softmax(path, batch="n"):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Softmax", ["h"], ["p"], axis=1)]
    return node_model(path, nodes, [tensor("x", [batch, 3])], [tensor("p", [batch, 3])], [weights()])


def expected_softmax(table):
    logits = table.to_numpy("float32") @ numpy_helper.to_array(weights())
    parts = np.exp(logits - logits.max(axis=1, keepdims=True))
    return parts / parts.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("batch", ["n", 1, 64])
def test_scores_alone_name_the_class(tmp_path, table, batch):
    path = softmax(tmp_path / "m.onnx", batch)
    answers = opened(path, classes=["a", "b", "c"]).predict(table)
    assert np.allclose(answers.scores, expected_softmax(table), atol=1e-6)
    assert answers.labels.tolist() == np.array(["a", "b", "c"])[expected_softmax(table).argmax(axis=1)].tolist()
    if batch == "n":
        with pytest.raises(InputError, match="answers scores only; list `classes`"):
            opened(path).predict(table)


def test_one_score_and_a_threshold(tmp_path, table):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Sigmoid", ["h"], ["p"])]
    path = node_model(tmp_path / "m.onnx", nodes, [tensor("x", ["n", 3])], [tensor("p", ["n", 1])], [weights(shape=(3, 1))])
    answers = opened(path, classes=["no", "yes"], decision={"threshold": 0.7}).predict(table)
    scores = 1 / (1 + np.exp(-(table.to_numpy("float32") @ numpy_helper.to_array(weights(shape=(3, 1))))[:, 0]))
    assert np.allclose(answers.scores[:, 1], scores, atol=1e-6)
    assert answers.labels.tolist() == np.where(scores >= 0.7, "yes", "no").tolist()


def test_values_of_a_decision_function_are_no_scores(tmp_path, table):
    model = LinearSVC(random_state=0).fit(table.to_numpy("float32"), labels_of(table))
    answers = opened(saved(tmp_path / "m.onnx", model, matrix()), classes=["high", "low", "mid"]).predict(table)
    assert answers.labels.tolist() == model.predict(table.to_numpy("float32")).tolist()
    assert answers.scores is None


def test_a_regressor(tmp_path, table):
    model = LinearRegression().fit(table.to_numpy("float32"), table["x"] * 2 + table["z"])
    answers = opened(saved(tmp_path / "m.onnx", model, matrix()), "tabular-regressor").predict(table)
    assert np.allclose(answers.labels.astype(float), model.predict(table.to_numpy("float32")), atol=1e-4)
    assert answers.scores is None


def test_what_does_not_fit_is_one_message(tmp_path, table):
    path = softmax(tmp_path / "m.onnx")
    card = {"classes": ["a", "b", "c"]}
    with pytest.raises(InputError, match=r"m: the model's input x takes 3 columns, got 2 \(x, y\); list the ones it takes"):
        opened(path, **card).predict(table[["x", "y"]])
    text = opened(path, **card).predict(table.head(3).assign(z=pd.Series(["1", "two", None], dtype=object)))
    assert text.errors[0] is None
    assert text.errors[1] == "ValueError: the column z holds text, and the model's input x is float32"
    (tmp_path / "broken.onnx").write_bytes(path.read_bytes()[:40] + b"\xff" * 20)
    with pytest.raises(
        InputError, match=r"the model .*broken.onnx cannot be loaded: .*; check that it is a whole ONNX file"
    ) as caught:
        opened(tmp_path / "broken.onnx", **card).predict(table)
    assert "\n" not in str(caught.value)
    picture = [tensor(name, ["n", 1, 8, 8]) for name in "xy"]
    images = node_model(tmp_path / "i.onnx", [helper.make_node("Relu", ["x"], ["y"])], picture[:1], picture[1:])
    with pytest.raises(InputError, match=r"the input x is a tensor\(float\) of shape .*, expected a table's column"):
        opened(images, **card).predict(table)


def test_weights_beside_the_file(tmp_path, table):
    path = softmax(tmp_path / "m.onnx")
    card = {"name": "m", "type": "tabular-classifier", "onnx": "m.onnx", "classes": ["a", "b", "c"]}
    inside = load_card_data(card, tmp_path).digest
    big = onnx.load(str(path))
    onnx.save(big, str(path), save_as_external_data=True, location="m.onnx.data", size_threshold=0)
    outside = load_card_data(card, tmp_path).digest
    assert np.allclose(opened(path, classes=["a", "b", "c"]).predict(table).scores, expected_softmax(table), atol=1e-6)
    data = tmp_path / "m.onnx.data"
    data.write_bytes(bytes(len(data.read_bytes())))
    assert len({inside, outside, load_card_data(card, tmp_path).digest}) == 3
    data.unlink()
    with pytest.raises(InputError, match=r"cannot be loaded: .*External data path does not exist.*m.onnx.data"):
        opened(path, classes=["a", "b", "c"]).predict(table)


def test_a_file_that_is_not_there(tmp_path):
    card = tmp_path / "model.yaml"
    card.write_text("name: m\ntype: tabular-classifier\nonnx: model.onnx\n")
    with pytest.raises(InputError, match=r"model.yaml:3: onnx: model.onnx cannot be read: No such .* path of an ONNX"):
        load_card(card)


def test_without_the_runtime_the_extra_is_named(tmp_path, table, monkeypatch):
    from aitest_lib.models.processes import programs

    monkeypatch.setattr(programs, "find_spec", lambda name: None)
    model = opened(softmax(tmp_path / "m.onnx"))
    with pytest.raises(InputError, match=r"needs onnxruntime, which is not installed; pip install 'aitest\[onnx\]'"):
        model.predict(table)
