"""What an endpoint is sent, how often, and how its answers are read, against a real HTTP server."""

from __future__ import annotations

import json
import logging
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pandas as pd
import pytest
from model_server import serving
from opening import open_card

from aitest_lib.errors import InputError, ModelUnavailable
from aitest_lib.models.probe import probe


@pytest.fixture
def server():
    with serving(lambda row: int(row[0] or 0) % 2, lambda row: (row[0] or 0) / 1000) as running:
        yield running


def test_order_and_counts_over_parallel_batches(server):
    frame = pd.DataFrame({"a": range(1000), "b": np.linspace(0, 1, 1000)})
    server.slow_s = 0.1  # long enough for calls to overlap on a busy machine
    server.inject("slow", None)
    model = open_card(server.card(batch_size=64, concurrency=4))
    answers = model.predict(frame)
    assert answers.labels.tolist() == [n % 2 for n in range(1000)]
    assert (server.calls, server.rows, len(server.distinct)) == (16, 1000, 1000)
    assert 1 < server.most_at_once <= 4
    model.close()


def test_concurrency_holds_over_all_callers(server):
    server.slow_s = 0.03
    server.inject("slow", None)
    model = open_card(server.card(batch_size=5, concurrency=2))
    with ThreadPoolExecutor(4) as pool:
        frames = [pd.DataFrame({"a": range(start, start + 20)}) for start in range(0, 80, 20)]
        got = [answers.labels.tolist() for answers in pool.map(model.predict, frames)]
    assert got == [[n % 2 for n in range(start, start + 20)] for start in range(0, 80, 20)]
    assert server.most_at_once == 2


def test_rate_limit_spaces_the_calls(server):
    model = open_card(server.card(batch_size=1, rate_per_s=50))
    model.predict(pd.DataFrame({"a": range(11)}))
    assert max(server.times) - min(server.times) >= 0.19  # 10 gaps of 0.02 s; a lower bound, so no load can break it


def test_cells_as_json(server):
    frame = pd.DataFrame(
        {
            "a": [1, 2],
            "miss": [np.nan, 0.5],
            "when": pd.to_datetime(["2024-01-31", None]),
            "text": ['quote " <tag> ü', None],
            "flag": [True, False],
        }
    )
    open_card(server.card()).predict(frame)
    assert json.loads(server.requests[0]["body"]) == {
        "fields": ["a", "miss", "when", "text", "flag"],
        "rows": [[1, None, "2024-01-31T00:00:00", 'quote " <tag> ü', True], [2, 0.5, None, None, False]],
    }


def test_an_infinity_fails_its_row_only(server):
    answers = open_card(server.card()).predict(pd.DataFrame({"a": [1.0, np.inf, 3.0]}))
    assert answers.labels.tolist() == [1, None, 1]
    assert "cannot be made from these inputs" in answers.errors[1]


def test_scores_with_a_threshold(server):
    card = server.card(
        card__classes=["no", "yes"], card__decision={"threshold": 0.25}, response={"scores": "predictions[*].score"}
    )
    answers = open_card(card).predict(pd.DataFrame({"a": [100, 250, 900]}))
    assert answers.labels.tolist() == ["no", "yes", "yes"]
    assert answers.scores.tolist() == pytest.approx(np.array([[0.9, 0.1], [0.75, 0.25], [0.1, 0.9]]))


def test_columns_of_the_card_are_sent_in_its_order(server):
    card = server.card(card__inputs={"columns": ["b", "a"]})
    frame = pd.DataFrame({"a": [1], "extra": ["x"], "b": [2]})
    open_card(card).predict(frame)
    assert json.loads(server.requests[0]["body"]) == {"fields": ["b", "a"], "rows": [[2, 1]]}
    with pytest.raises(InputError, match="no column b"):
        open_card(card).predict(frame[["a"]])


def test_batch_size_one_may_answer_a_scalar(server):
    card = server.card(batch_size=1, response={"labels": "predictions[0].label"})
    assert open_card(card).predict(pd.DataFrame({"a": [3, 4]})).labels.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("auth", "header"),
    [
        ({"type": "bearer", "token": "${T_SECRET}"}, ("Authorization", "Bearer s3cret-value")),
        ({"type": "basic", "username": "me", "password": "${T_SECRET}"}, ("Authorization", "Basic bWU6czNjcmV0LXZhbHVl")),
        ({"type": "api-key", "key": "${T_SECRET}"}, ("X-Api-Key", "s3cret-value")),
        ({"type": "api-key", "key": "${T_SECRET}", "header": "X-K"}, ("X-K", "s3cret-value")),
    ],
)
def test_authentication_headers(server, monkeypatch, auth, header):
    monkeypatch.setenv("T_SECRET", "s3cret-value")
    open_card(server.card(auth=auth)).predict(pd.DataFrame({"a": [1]}))
    assert server.requests[0]["headers"][header[0]] == header[1]


def test_a_key_in_the_query(server, monkeypatch):
    monkeypatch.setenv("T_SECRET", "s3cret/value")
    auth = {"type": "api-key", "key": "${T_SECRET}", "query": "key"}
    open_card(server.card(auth=auth)).predict(pd.DataFrame({"a": [1]}))
    assert parse_qs(urlsplit(server.requests[0]["path"]).query) == {"key": ["s3cret/value"]}


def test_a_secret_is_in_no_message_and_no_log(server, monkeypatch, caplog):
    monkeypatch.setenv("T_WRONG", "wr0ng-t0ken")
    server.token = "the right one"
    caplog.set_level(logging.DEBUG)
    model = open_card(server.card(auth={"type": "bearer", "token": "${T_WRONG}"}))
    with pytest.raises(ModelUnavailable) as caught:
        model.predict(pd.DataFrame({"a": [1]}))
    assert "bad token Bearer ***" in str(caught.value)  # the server quotes what it got
    assert "wr0ng-t0ken" not in str(caught.value) + caplog.text


def test_an_unset_reference_is_the_users_error(server, monkeypatch):
    monkeypatch.delenv("T_UNSET", raising=False)
    with pytest.raises(InputError, match="T_UNSET"):
        open_card(server.card(headers={"X-Team": "${T_UNSET}"})).predict(pd.DataFrame({"a": [1]}))
    assert server.calls == 0


def test_a_secret_in_the_body_but_not_from_a_cell(server, monkeypatch):
    monkeypatch.setenv("T_SECRET", 'quo"te{{x}}')
    request = '{"key": "${T_SECRET}", "rows": {{ rows|tojson }}, "v": {{ model.version|tojson }}}'
    open_card(server.card(request=request)).predict(pd.DataFrame({"a": [1], "b": ["${T_SECRET}"]}))
    assert json.loads(server.requests[0]["body"]) == {"key": 'quo"te{{x}}', "rows": [[1, "${T_SECRET}"]], "v": ""}


def test_private_values_are_masked_in_reasons(server):
    server.label = lambda row: row[1]
    card = server.card(card__classes=["x", "y"])
    frame = pd.DataFrame({"a": [1], "ssn": ["123-45-6789"]})
    shown = open_card(card).predict(frame).errors[0]
    hidden = open_card(card, private=["ssn"]).predict(frame).errors[0]
    assert "123-45-6789" in shown
    assert "123-45-6789" not in hidden
    assert "not quoted" in hidden


def test_probe_of_a_sound_model(server):
    model = open_card(server.card())
    found = probe(model, pd.DataFrame({"a": range(50)}))
    assert (found.rows, found.label_kinds, found.classes) == (20, ("whole number",), (0, 1))
    assert found.deterministic
    assert found.self_flip_rate == 0
    assert found.problems == ()
    assert server.batch_sizes == [1, 20, 20]
    assert found.answers.labels.tolist() == [n % 2 for n in range(20)]
    assert found.seconds_per_row > 0


def test_probe_of_a_model_that_answers_one_row_only(server):
    server.inject("one", None)
    frame = pd.DataFrame({"a": [1, 2], "ssn": ["123-45-6789", "987-65-4321"]})
    found = probe(open_card(server.card(response={"labels": "map(&label, predictions)"})), frame)
    assert any("sent 2 rows, got 1 prediction" in problem for problem in found.problems)


def test_probe_says_what_was_sent_and_masks_private_columns(server):
    server.inject("400", None)
    frame = pd.DataFrame({"a": [1], "ssn": ["123-45-6789"]})
    found = probe(open_card(server.card()), frame, private=["ssn"])
    assert found.problems[0].startswith("sent 1 row, got HTTP 400")
    assert '{"a": 1, "ssn": "***"}' in found.problems[0]
    assert "123-45" not in " ".join(found.problems)


def test_probe_measures_flips(server):
    answers = iter(range(10_000))
    server.label = lambda row: "ab"[next(answers) // 20 % 2] if row[0] < 10 else "a"
    found = probe(open_card(server.card()), pd.DataFrame({"a": range(20)}))
    assert not found.deterministic
    assert 0 < found.self_flip_rate < 1
