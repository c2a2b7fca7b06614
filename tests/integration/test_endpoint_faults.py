"""The endpoint backend against a real HTTP server that misbehaves."""

from __future__ import annotations

import email.utils
import socket
import threading
import time

import pandas as pd
import pytest
from model_server import ModelServer, serving
from opening import open_card

from aitest_lib.errors import Interrupted, ModelUnavailable
from aitest_lib.models.base import Model
from aitest_lib.models.endpoint import transport


@pytest.fixture(autouse=True)
def short_backoff(monkeypatch):
    monkeypatch.setattr(transport, "BACKOFF_S", 0.01)


@pytest.fixture
def server():
    with serving(lambda row: "yes" if row[0] >= 3 else "no") as running:
        yield running


@pytest.fixture
def frame():
    return pd.DataFrame({"a": range(8), "b": [f"t{n}" for n in range(8)]})


WANTED = ["no"] * 3 + ["yes"] * 5


def opened(server: ModelServer, **endpoint) -> Model:
    return open_card(server.card(**endpoint))


@pytest.mark.parametrize("fault", ["429", "503", "502", "drop"])
def test_passing_failures_are_retried(server, frame, fault):
    server.inject(fault, 2)
    model = opened(server)
    answers = model.predict(frame)
    assert answers.labels.tolist() == WANTED
    assert (server.calls, model.usage.calls, model.usage.retries, model.usage.rows) == (3, 3, 2, 24)


def test_no_retries_means_none(server, frame):
    server.inject("503", 1)
    model = opened(server, retries=0)
    answers = model.predict(frame)
    assert server.calls == 1
    assert all("HTTP 503" in reason and "sent 8 rows" in reason for reason in answers.errors)
    assert model.predict(frame).labels.tolist() == WANTED


@pytest.mark.parametrize(("fault", "wait"), [("seconds", 7.0), ("date", 7.0), ("huge", 60.0), ("broken", None)])
def test_retry_after_is_read_in_both_forms_and_capped(fault, wait):
    date = email.utils.formatdate(time.time() + 7.5, usegmt=True)
    value = {"seconds": "7", "date": date, "huge": "86400", "broken": "soon"}[fault]
    got = transport._retry_after(value)
    assert got == wait if wait is None else got == pytest.approx(wait, abs=1)


def test_retry_after_is_waited_for(server, frame, monkeypatch):
    waits = []
    model = opened(server)
    monkeypatch.setattr(model._stop, "pause", waits.append)
    monkeypatch.setattr(transport, "_retry_after", lambda value: 12.5)
    server.inject("429", 2)
    assert model.predict(frame).labels.tolist() == WANTED
    assert waits == [12.5, 12.5]


def test_one_lost_call_is_error_rows_and_three_in_a_row_open_the_circuit(server, frame):
    server.inject("503", None)
    model = opened(server, retries=1)
    for _ in range(2):
        assert model.predict(frame.head(2)).errors.all()
    with pytest.raises(ModelUnavailable, match="3 calls in a row failed"):
        model.predict(frame)
    calls = server.calls
    with pytest.raises(ModelUnavailable):
        model.predict(frame)
    assert server.calls == calls == 6


def test_a_refusal_is_not_retried(server, frame):
    server.inject("401", None)
    with pytest.raises(ModelUnavailable, match=r"HTTP 401.*auth"):
        opened(server, batch_size=2).predict(frame)
    assert server.calls <= 4


DENIED = [("403", "check that the credentials may use this model"), ("404", "check `endpoint.url`")]


@pytest.mark.parametrize(("fault", "todo"), DENIED)
def test_a_model_that_denies_every_input_is_given_up(server, fault, todo):
    server.inject(fault, None)
    with pytest.raises(ModelUnavailable, match=f"no input usably, the last: sent 1 row, got HTTP {fault}.*; {todo}$"):
        opened(server, batch_size=1, concurrency=1).predict(pd.DataFrame({"a": range(200)}))
    assert server.calls == 21


@pytest.mark.parametrize(("fault", "todo"), DENIED)
def test_one_denied_input_says_nothing_about_the_model(server, frame, fault, todo):
    """A firewall blocks one row: alone and first, as `resume` may meet it, and within a batch."""
    server.bad_row, server.bad_status = (lambda row: row[0] == 2), int(fault)
    model = opened(server, concurrency=1)
    alone = model.predict(frame[2:3])
    assert alone.errors[0].startswith(f"sent 1 row, got HTTP {fault}")
    assert todo in alone.errors[0]
    answers = model.predict(frame)
    assert answers.labels.tolist() == [*WANTED[:2], None, *WANTED[3:]]
    assert answers.errors[2].startswith(f"sent 1 row, got HTTP {fault}")
    assert todo not in answers.errors[2]  # the others were let in
    assert opened(server, concurrency=1).predict(frame).labels.tolist() == answers.labels.tolist()


def test_a_model_that_denies_everything_by_now_is_given_up(server):
    server.bad_row, server.bad_status = (lambda row: row[0] >= 10), 403
    model = opened(server, batch_size=1, concurrency=1)
    with pytest.raises(
        ModelUnavailable, match=r"refuses every input by now, the last: .*HTTP 403.*may use this model"
    ) as caught:
        model.predict(pd.DataFrame({"a": range(200)}))
    assert server.calls == 10 + 41
    assert [reason is None for reason in caught.value.answers.errors] == [True] * 10 + [False] * 190


def test_denied_inputs_among_answered_ones_do_not_add_up(server):
    server.bad_row, server.bad_status = (lambda row: row[0] % 2), 403
    answers = opened(server, batch_size=1, concurrency=1).predict(pd.DataFrame({"a": range(100)}))
    assert [reason is None for reason in answers.errors] == [True, False] * 50


def test_nobody_listens():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = ModelServer(lambda row: 0)
    card = server.card(url=f"http://127.0.0.1:{port}/x", retries=1)
    server._server.server_close()
    with pytest.raises(ModelUnavailable, match=r"cannot be reached.*2 times.*ConnectError"):
        open_card(card).predict(pd.DataFrame({"a": [1]}))


@pytest.mark.parametrize("fault", ["short", "invalid_json", "nan", "null", "error", "empty", "500", "400", "one"])
def test_a_malformed_answer_is_asked_once_more(server, frame, fault):
    server.inject(fault, 1)
    answers = opened(server).predict(frame)
    assert answers.labels.tolist() == WANTED
    assert not answers.errors.any()
    assert server.calls == 2


def test_a_bad_row_ends_up_alone(server, frame):
    server.bad_row = lambda row: row[0] == 5
    model = opened(server)
    answers = model.predict(frame)
    assert answers.labels.tolist() == [*WANTED[:5], None, *WANTED[6:]]
    assert [n for n, reason in enumerate(answers.errors) if reason] == [5]
    assert answers.errors[5].startswith("sent 1 row, got HTTP 500")
    # 8 rows twice; 4+4; 2+2; 1+1 and the bad one once more
    assert sorted(server.batch_sizes) == [1, 1, 1, 2, 2, 4, 4, 8, 8]
    assert model.usage.splits == 3


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("short", "sent 1 row, got 0 predictions"),
        ("invalid_json", "got no valid JSON"),
        ("nan", "got nan as label"),
        ("error", "found no labels at `predictions"),
    ],
)
def test_reasons_say_what_was_sent_and_what_came_back(server, frame, fault, reason):
    server.inject(fault, None)
    card = server.card(response={"labels": "predictions[].label | @" if fault == "short" else "predictions[*].label"})
    if fault == "short":
        card["endpoint"]["response"] = {"labels": "map(&label, predictions)"}
    answers = open_card(card).predict(frame.head(1))
    assert reason in answers.errors[0]


def test_a_projection_that_drops_nulls_is_named(frame):
    with serving(lambda row: None if row[0] == 1 else "x") as server:
        answers = opened(server).predict(frame.head(3))
        assert answers.labels.tolist() == ["x", None, "x"]
        model = opened(server)
        model.predict(frame.head(3))
        assert "sent 1 row, got 0 labels" in answers.errors[1]
        assert "not_null" in answers.errors[1]
        assert "sent 2 rows, got 1 label" in model.usage.split_reason or "sent 3 rows" in model.usage.split_reason


def test_success_predicate(server, frame):
    server.inject("error", None)
    answers = opened(server, response={"labels": "predictions[*].label", "success": "error == null"}).predict(frame.head(1))
    assert "`error == null` is not true" in answers.errors[0]


def test_an_endpoint_that_answers_nothing_usable_is_given_up(server):
    server.inject("400", None)
    with pytest.raises(ModelUnavailable, match=r"no input usably.*HTTP 400"):
        opened(server, batch_size=64).predict(pd.DataFrame({"a": range(200)}))
    assert server.calls < 100


def test_slow_calls_time_out_and_are_lost(server, frame):
    server.inject("slow", None)
    answers = opened(server, timeout_s=0.2, retries=0).predict(frame)
    assert all("no answer within 0.2 s" in reason for reason in answers.errors)


def test_stop_ends_a_call_in_flight(server, frame):
    server.slow_s = 30
    server.inject("slow", None)
    model = opened(server, batch_size=2)
    threading.Timer(0.3, model.stop).start()
    with pytest.raises(Interrupted):
        model.predict(frame)
    assert not server.statuses  # the server is still busy with what nobody waits for any more


def test_redirects_stay_on_the_host(server, frame):
    server.inject("redirect", 1)
    assert opened(server).predict(frame).labels.tolist() == WANTED
    assert server.requests[-1]["path"] == "/other"
    server.inject("redirect_away", 1)
    with pytest.raises(ModelUnavailable, match="redirects to http://localhost:9, another host"):
        opened(server).predict(frame)
