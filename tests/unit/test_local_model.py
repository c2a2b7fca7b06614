"""Objects in memory: real scikit-learn pipelines, callables, exceptions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

from aitest_lib.errors import InputError, Interrupted
from aitest_lib.models.local import LocalModel
from aitest_lib.types import ModelInfo

X = pd.DataFrame({"a": np.linspace(-1, 1, 40), "b": np.tile([0.0, 1.0], 20)})
Y = np.where(X["a"] > 0, "yes", "no")


def info(type="tabular-classifier", classes=None):
    return ModelInfo(name="m", type=type, digest="d", classes=classes)


def test_a_classifier_gives_labels_and_scores():
    fitted = LogisticRegression().fit(X, Y)
    model = LocalModel(fitted, info())
    answers = model.predict(X)
    assert model.info.classes == ("no", "yes")
    assert answers.labels.tolist() == fitted.predict(X).tolist()
    assert np.allclose(answers.scores, fitted.predict_proba(X))
    turned = LocalModel(fitted, info(classes=("yes", "no"))).predict(X)
    assert np.allclose(turned.scores, fitted.predict_proba(X)[:, ::-1])


def test_a_class_the_model_never_saw_has_score_zero():
    answers = LocalModel(LogisticRegression().fit(X, Y), info(classes=("maybe", "yes", "no"))).predict(X)
    assert (answers.scores[:, 0] == 0).all()
    assert np.allclose(answers.scores.sum(axis=1), 1)


def test_a_regressor():
    answers = LocalModel(LinearRegression().fit(X, X[["a"]]), info("tabular-regressor")).predict(X)
    assert np.allclose(answers.labels.astype(float), X["a"])


def test_the_object_gets_a_copy():
    def spoils(table):
        table["a"] = 0
        return ["x"] * len(table)

    frame = X.copy()
    assert not LocalModel(spoils, info()).predict(frame).errors.any()
    assert frame.equals(X)


def test_an_exception_fails_its_row_only():
    def picky(table):
        if (table["a"] == X["a"][7]).any():
            raise KeyError("seven")
        return [1] * len(table)

    model = LocalModel(picky, info())
    answers = model.predict(X)
    assert np.flatnonzero(answers.errors.astype(bool)).tolist() == [7]
    assert answers.errors[7] == "KeyError: 'seven'"
    assert model.usage.splits > 0


def test_private_values_stay_out_of_reasons():
    def leaks(table):
        raise ValueError(f"cannot use {table['name'][0]}")

    answers = LocalModel(leaks, info(), private=["name"]).predict(pd.DataFrame({"name": ["Maria Muster"]}))
    assert answers.errors.tolist() == ["(not quoted, since private columns were sent)"]
    answers = LocalModel(leaks, info()).predict(pd.DataFrame({"name": ["Maria Muster"]}))
    assert answers.errors.tolist() == ["ValueError: cannot use Maria Muster"]  # once no private column is under way


@pytest.mark.parametrize("value", ["John  Doe", 'a "b" c', "two\nlines", "x" * 80, pd.Timestamp("1980-05-17")])
def test_private_values_stay_out_of_labels_that_repeat_them(value):
    def echoes(table):
        return [str(item) for item in table["name"]]

    answers = LocalModel(echoes, info(classes=("no", "yes")), private=["name"]).predict(pd.DataFrame({"name": [value]}))
    for form in {str(value), repr(str(value))[1:-1], str(value)[:40]}:
        assert form not in answers.errors[0]


def test_stopped():
    model = LocalModel(lambda table: [1] * len(table), info())
    model.stop()
    with pytest.raises(Interrupted):
        model.predict(X)


@pytest.mark.parametrize("obj", [5, LogisticRegression])
def test_what_is_no_model(obj):
    with pytest.raises(InputError, match="expected a callable or an object with `predict`"):
        LocalModel(obj, info())
