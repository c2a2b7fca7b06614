"""Answers that were computed before, matched by content or by position."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from aitest_lib.config.card import load_card_data
from aitest_lib.errors import InputError
from aitest_lib.models.opening import open_model

INPUTS = pd.DataFrame(
    {
        "age": [39, 50, 38],
        "gain": [0.5, np.nan, 2.0],
        "job": ["x", None, "z"],
        "day": pd.to_datetime(["2024-01-01", "2024-01-02", None]),
    }
)


@pytest.fixture(params=["csv", "parquet"])
def opened(tmp_path, request):
    def opener(table, **card):
        path = tmp_path / f"p.{request.param}"
        table.to_csv(path, index=False) if request.param == "csv" else table.to_parquet(path)
        return open_model(
            load_card_data({"name": "m", "type": "tabular-classifier", "predictions": path.name, **card}, tmp_path)
        )

    return opener


def test_by_content_whatever_the_order_and_the_storage(opened):
    model = opened(INPUTS.assign(prediction=["a", "b", "c"]))
    turned = INPUTS.iloc[[2, 0, 1]].astype({"age": "float64"})
    assert model.predict(turned).labels.tolist() == ["c", "a", "b"]
    unknown = INPUTS.assign(age=[39, 51, 38])
    answers = model.predict(unknown)
    assert answers.labels.tolist() == ["a", None, "c"]
    assert answers.errors[1] == "not among the computed answers"


def test_by_position_when_inputs_are_absent(opened):
    model = opened(pd.DataFrame({"prediction": ["a", "b", "c"]}))
    answers = model.predict(INPUTS.iloc[[1, 0]])
    assert answers.labels.tolist() == ["b", "a"]
    assert model.predict(INPUTS.set_index(pd.Index([2, 9, -1]))).labels.tolist() == ["c", None, None]
    with pytest.raises(InputError, match="carry no positions"):
        model.predict(INPUTS.set_index(pd.Index(["u", "v", "w"])))


def test_equal_rows_with_different_answers_have_none(opened):
    twice = pd.concat([INPUTS, INPUTS.iloc[[0, 1]]]).assign(prediction=["a", "b", "c", "z", "b"])
    answers = opened(twice).predict(INPUTS)
    assert answers.labels.tolist() == [None, "b", "c"]
    assert "different computed answers" in answers.errors[0]


def test_scores(opened):
    classes = {"classes": ["0", "1"]}
    one = opened(pd.DataFrame({"prediction": ["0", "1"], "score": [0.25, 1.0]}), **classes)
    assert one.predict(INPUTS.head(2)).scores.tolist() == [[0.75, 0.25], [0.0, 1.0]]
    assert one.predict(INPUTS.head(2)).labels.tolist() == ["0", "1"]
    each = opened(pd.DataFrame({"prediction": ["0", "1"], "score.1": [0.25, 1.0], "score.0": [0.75, 0.0]}), **classes)
    assert each.predict(INPUTS.head(2)).scores.tolist() == [[0.75, 0.25], [0.0, 1.0]]


def test_files_that_are_not_answers(opened, tmp_path):
    with pytest.raises(InputError, match="got the columns label, expected one named prediction"):
        opened(pd.DataFrame({"label": ["a"]}))
    (tmp_path / "broken.parquet").write_text("not parquet")
    card = {"name": "m", "type": "tabular-classifier", "predictions": "broken.parquet"}
    with pytest.raises(InputError, match="cannot be read as Parquet or CSV"):
        open_model(load_card_data(card, tmp_path))
