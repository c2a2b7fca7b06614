"""The calls around the main one, against a real HTTP server: their order and values, who gets credentials, what fails how."""

from __future__ import annotations

import itertools
import threading

import numpy as np
import pandas as pd
import pytest
from http_app import app
from opening import open_card

from aitest_lib.config.secrets import mask
from aitest_lib.errors import Interrupted, ModelUnavailable
from aitest_lib.models.endpoint import transport
from aitest_lib.types import Clip

CLIP = Clip(np.linspace(-1, 1, 50, dtype=np.float32), 8000)
FRAME = pd.DataFrame({"a": range(6)})
LABELS = {"labels": "labels"}


@pytest.fixture(autouse=True)
def short_backoff(monkeypatch):
    monkeypatch.setattr(transport, "BACKOFF_S", 0.01)
    monkeypatch.setenv("T_SECRET", "s3cret-value")


@pytest.fixture
def server():
    def main(request):
        return {"labels": [row[0] for row in request.json]}

    with app({"POST /m": main}) as running:
        yield running


@pytest.fixture
def other():
    with app({"GET /*": {"ok": True}, "PUT /*": ""}) as running:
        yield running


def card(server, steps, model_type="tabular-classifier", response=LABELS, **endpoint):
    request = {"tabular-classifier": {"request": "{{ rows|tojson }}"}, "text-classifier": {"request": "{{ text|tojson }}"}}
    common = {"url": f"{server.url}/m", "response": response, "steps": steps, "retries": 2}
    return {"name": "m", "type": model_type, "endpoint": {**common, **request.get(model_type, {}), **endpoint}}


def step(server, name, when, path=None, **more):
    return {"name": name, "when": when, "url": f"{server.url}{path or '/' + name}", **more}


TOKEN_HEADER = {"Authorization": "Bearer {{ login.token }}"}


def guarded(server, tokens, valid):
    """A token endpoint, and a main call that lets only the valid token in."""
    count = itertools.count()
    server.routes["POST /login"] = lambda request: {"access_token": tokens[next(count)]}

    def main(request):
        if request.headers.get("authorization") != f"Bearer {valid()}":
            return 401, {"error": "expired"}
        return {"labels": [row[0] for row in request.json]}

    server.routes["POST /m"] = main
    return step(server, "login", "before_run", request='{"key": "${T_SECRET}"}', extract={"token": "access_token"})


def test_a_token_before_the_run_is_fetched_once_for_all_threads(server):
    login = guarded(server, ["t0ken-1"], lambda: "t0ken-1")
    answers = open_card(card(server, [login], headers=TOKEN_HEADER, batch_size=1, concurrency=4)).predict(FRAME)
    assert answers.labels.tolist() == list(range(6))
    assert server.paths().count("POST /login") == 1
    assert server.seen("POST /login")[0].json == {"key": "s3cret-value"}


def test_a_token_of_a_step_in_a_header_is_masked(server):
    login = guarded(server, ["t0ken-in-header"], lambda: "t0ken-in-header")
    open_card(card(server, [login], headers=TOKEN_HEADER)).predict(FRAME)
    assert mask("got t0ken-in-header") == "got ***"


def echoing(server, login):
    """A step that answers `login`, and a main call that refuses its input with what it got."""
    server.routes["POST /login"] = login
    server.routes["POST /m"] = lambda request: (400, f"refused {request.query} {request.body.decode()}")
    server.routes["POST /m/*"] = lambda request: (400, f"refused {request.path}")
    return step(server, "login", "before_run", request="{}")


@pytest.mark.parametrize(
    ("token", "path", "request_"),
    [
        ("t0ken-in-body", "", '{"t": {{ login.token|tojson }}}'),
        ("t0ken-<in>-a-whole", "", "{{ login|tojson }}"),
        ("t0ken-by-a-method", "", '{"t": {{ login.get("token")|tojson }}}'),
        ("t0ken-by-a-name", "", '{% set it = login %}{"t": {{ it.token|tojson }}}'),
        ("t0ken-in-path", "/{{ login.token }}", "{}"),
        ("t0ken in query", "?key={{ login.token|urlencode }}", "{}"),
    ],
)
def test_a_token_of_a_step_in_a_body_or_an_address_is_masked(server, token, path, request_):
    login = echoing(server, {"token": token, "word": "unrelated-w0rd"})
    carry = step(server, "carry", "after_call", method="POST", request="{{ rows|tojson }}")
    data = card(server, [login, carry], request=request_, url=f"{server.url}/m{path}", batch_size=1)
    reason = open_card(data).predict(FRAME[:1]).errors[0]
    assert "refused" in reason and "***" in reason
    assert token not in mask(f"{reason} {token}")


def test_what_a_call_does_not_take_from_a_step_is_not_masked(server):
    login = echoing(server, {"token": "t0ken-taken", "kind": "a-common-kind", "ttl": "1h", "base": f"{server.url}/m"})
    data = card(
        server, [login], url="{{ login.base }}/{{ login.ttl }}", request="[{{ login.token|tojson }}, {{ rows|tojson }}]"
    )
    open_card(data).predict(FRAME[:1])
    assert mask(f"t0ken-taken a-common-kind 1h {server.url}") == f"*** a-common-kind 1h {server.url}"


def test_what_a_case_gives_is_masked_in_credentials_only(server):
    server.routes |= {"GET /open": {"id": "sess1on-in-header"}, "GET /job": {"id": "j0b-in-body"}}
    steps = [step(server, "open", "before_case"), step(server, "job", "before_call")]
    request = "[{{ job.id|tojson }}, {{ rows|tojson }}]"
    server.routes["POST /m"] = {"labels": ["a"]}
    open_card(card(server, steps, headers={"X-Session": "{{ open.id }}"}, request=request, batch_size=1)).predict(FRAME[:1])
    assert mask("sess1on-in-header j0b-in-body") == "*** j0b-in-body"


def test_an_expired_token_is_renewed_once_for_all_threads(server):
    valid = ["t0ken-1"]
    login = guarded(server, ["t0ken-1", "t0ken-2"], lambda: valid[0])
    model = open_card(card(server, [login], headers=TOKEN_HEADER, batch_size=1, concurrency=4, retries=0))
    assert model.predict(FRAME[:1]).labels.tolist() == [0]
    valid[0] = "t0ken-2"
    assert model.predict(FRAME).labels.tolist() == list(range(6))
    assert server.paths().count("POST /login") == 2


def test_a_token_that_stays_wrong_ends_the_run(server):
    login = guarded(server, ["t0ken-1", "t0ken-2"], lambda: "another")
    with pytest.raises(ModelUnavailable, match="401"):
        open_card(card(server, [login], headers=TOKEN_HEADER, batch_size=1, concurrency=1)).predict(FRAME)
    assert server.paths().count("POST /login") == 2


def test_a_token_of_a_step_in_auth_is_masked(server):
    login = guarded(server, ["t0ken-in-auth"], lambda: "t0ken-in-auth")
    auth = {"type": "bearer", "token": "{{ login.token }}"}
    open_card(card(server, [login], auth=auth)).predict(FRAME)
    assert server.seen("POST /m")[0].headers["authorization"] == "Bearer t0ken-in-auth"
    assert "authorization" not in server.seen("POST /login")[0].headers
    assert mask("got t0ken-in-auth") == "got ***"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 500])
def test_a_failing_step_before_the_run_is_named(server, status):
    server.routes["POST /login"] = (status, {"error": "no"})
    login = step(server, "login", "before_run", request="{}", extract={"token": "t"})
    with pytest.raises(ModelUnavailable, match=f"step login: got HTTP {status}"):
        open_card(card(server, [login], batch_size=1, concurrency=1)).predict(FRAME)
    assert server.paths() == ["POST /login"]


def test_a_step_before_the_run_that_cannot_be_reached(server):
    login = {"name": "login", "when": "before_run", "url": "http://127.0.0.1:9/login"}
    with pytest.raises(ModelUnavailable, match=r"step login: .*cannot be reached"):
        open_card(card(server, [login], retries=0)).predict(FRAME)


def test_a_missing_value_is_named_and_the_answer_not_quoted(server):
    server.routes["POST /login"] = {"access_token": "t0p-s3cret", "expires": 3}
    login = step(server, "login", "before_run", request="{}", extract={"token": "accessToken"})
    with pytest.raises(ModelUnavailable) as caught:
        open_card(card(server, [login])).predict(FRAME)
    assert "step login: found no `token` at `accessToken`, got an object with access_token, expires" in str(caught.value)
    assert "t0p-s3cret" not in str(caught.value)


def test_before_case_is_made_once_per_input_and_before_call_on_every_attempt(server):
    server.routes["POST /open"] = lambda request: {"id": f"s{request.json['text']}"}
    server.routes["GET /nonce"] = lambda request: {"n": len(server.seen("GET /nonce"))}
    failing = {"b"}

    def main(request):
        if request.json["text"] in failing:
            failing.clear()
            return 503, ""
        return {"labels": f"{request.json['session']}-{request.json['nonce']}"}

    server.routes["POST /m"] = main
    steps = [
        step(server, "open", "before_case", request='{"text": {{ text|tojson }}}', extract={"id": "id"}),
        step(server, "nonce", "before_call", extract={"n": "n"}),
    ]
    request = '{"text": {{ text|tojson }}, "session": {{ open.id|tojson }}, "nonce": {{ nonce.n }}}'
    answers = open_card(card(server, steps, "text-classifier", request=request, concurrency=1)).predict(["a", "b"])
    assert answers.labels.tolist() == ["sa-1", "sb-3"]
    assert server.paths().count("POST /open") == 2


def test_an_expired_session_of_a_case_is_opened_again(server):
    server.routes["POST /open"] = lambda request: {"id": len(server.seen("POST /open"))}
    server.routes["POST /m"] = lambda request: (401, "") if request.json == 1 else {"labels": request.json}
    steps = [step(server, "open", "before_case", request="{{ text|tojson }}")]
    answers = open_card(card(server, steps, "text-classifier", request="{{ open.id }}")).predict(["a"])
    assert answers.labels.tolist() == [2]


def test_upload_submit_poll_and_fetch(server):
    polls = itertools.count(1)
    server.routes |= {
        "POST /upload": {"url": "u1"},
        "POST /m": lambda request: {"job": request.json["audio"] + "-job"},
        "GET /jobs/u1-job": lambda request: {"status": "done" if next(polls) == 3 else "running", "result": "/results/7"},
        "GET /results/7": {"text": " hello "},
        "DELETE /jobs/u1-job": (204, ""),
    }
    steps = [
        step(server, "upload", "before_case", body="raw", headers={"Content-Type": "audio/wav"}),
        step(server, "poll", "after_call", "/jobs/{{ call.job }}", until="status == 'done'", every_s=0.01),
        step(server, "fetch", "after_call", "{{ poll.result }}"),
    ]
    data = card(server, steps, "speech-to-text", {"labels": "text"}, request='{"audio": {{ upload.url|tojson }}}')
    answers = open_card(data).predict([CLIP])
    assert answers.labels.tolist() == ["hello"]
    assert server.paths() == ["POST /upload", "POST /m", *["GET /jobs/u1-job"] * 3, "GET /results/7"]
    assert server.requests[0].body[:4] == b"RIFF"


def test_a_step_may_answer_nothing_or_text(server):
    server.routes |= {"PUT /put": "", "GET /text": "plain words", "DELETE /gone": (204, "")}
    steps = [
        step(server, "put", "before_case", method="PUT", request="{{ text|tojson }}"),
        step(server, "text", "before_call", "/text"),
        step(server, "gone", "after_call", method="DELETE"),
        step(server, "last", "after_call", "/m", method="POST", request="[[{{ call.labels[0]|tojson }}]]"),
    ]
    steps[1]["name"] = "words"
    server.routes["POST /m"] = lambda request: {"labels": [request.json[0][0]]}
    data = card(server, steps, "text-classifier", request="[[{{ words|tojson }}]]")
    assert open_card(data).predict(["x"]).labels.tolist() == ["plain words"]


def test_a_poll_that_never_ends_says_how_long_it_was_tried(server):
    server.routes["GET /poll"] = {"status": "running"}
    steps = [step(server, "poll", "after_call", until="status == 'done'", every_s=0.02, timeout_s=0.1)]
    answers = open_card(card(server, steps)).predict(FRAME[:1])
    assert "step poll: `status == 'done'` was not true within 0.1 s, last got an object with status" in answers.errors[0]
    assert len(server.seen("GET /poll")) > 2


def test_stop_ends_a_poll(server):
    begun = threading.Event()
    server.routes["GET /poll"] = lambda request: begun.set() or {"status": "running"}
    model = open_card(card(server, [step(server, "poll", "after_call", until="done", every_s=60, timeout_s=3600)]))
    caught = []

    def ask():
        with pytest.raises(Interrupted):
            model.predict(FRAME)
        caught.append(True)

    thread = threading.Thread(target=ask)
    thread.start()
    assert begun.wait(10)
    model.stop()
    thread.join(10)
    assert caught == [True]


@pytest.mark.parametrize(
    ("more", "reply", "said"),
    [
        ({"success": "ok"}, {"ok": False}, "step check: `ok` is not true, got an object with ok"),
        ({"extract": {"x": "a.b"}}, {"a": 1}, "step check: found no `x` at `a.b`"),
        ({"extract": {"x": "a"}}, "no JSON", "step check: found no `x` at `a`, got text"),
        (
            {"until": "length(@) > `1`", "timeout_s": 1},
            5,
            "step check: `until` cannot be read from the answer: length() got",
        ),
        ({}, (404, {"error": "gone"}), "step check: got HTTP 404"),
    ],
)
@pytest.mark.parametrize("when", ["before_call", "after_call"])
def test_a_step_that_fails_fails_its_input_and_is_named(server, when, more, reply, said):
    server.routes["GET /check"] = lambda request: reply
    answers = open_card(card(server, [step(server, "check", when, **more)])).predict(FRAME[:1])
    assert said in answers.errors[0]


@pytest.mark.parametrize("when", ["before_case", "before_call", "after_call"])
@pytest.mark.parametrize("status", [401, 403])
def test_a_step_that_is_refused_ends_the_run(server, when, status):
    server.routes["GET /check"] = (status, {"error": "no"})
    with pytest.raises(ModelUnavailable, match=f"step check: got HTTP {status} .*credentials"):
        open_card(card(server, [step(server, "check", when)], batch_size=1, concurrency=1)).predict(FRAME)
    assert len(server.seen("GET /check")) == 1


@pytest.mark.parametrize("when", ["before_case", "before_call", "after_call"])
@pytest.mark.parametrize("status", [401, 403])
def test_a_step_that_is_refused_later_fails_its_input_only(server, when, status):
    server.routes["POST /check"] = lambda request: (status, "blocked") if request.json == [[3]] else {}
    check = step(server, "check", when, request="{{ rows|tojson }}")
    again = step(server, "again", "after_call", "/m", method="POST", request="{{ rows|tojson }}")
    answers = open_card(card(server, [check, again], batch_size=1, concurrency=1)).predict(FRAME)
    assert answers.labels.tolist() == [0, 1, 2, None, 4, 5]
    assert f"step check: got HTTP {status} blocked" in answers.errors[3]


def test_a_signed_address_that_is_refused_fails_its_input_only(server, other):
    other.routes["PUT /*"] = (403, "expired")
    server.routes |= {"POST /sign": {"put": f"{other.url}/x"}, "POST /m": {"labels": "yes"}}
    steps = [
        step(server, "sign", "before_case", request="{}"),
        {"name": "put", "when": "before_case", "method": "PUT", "url": "{{ sign.put }}", "body": "raw"},
    ]
    answers = open_card(card(server, steps, "speech-to-text", request="{}")).predict([CLIP])
    assert "step put: got HTTP 403 expired" in answers.errors[0]


def test_a_token_that_a_step_needs_is_renewed_too(server):
    valid = ["t0ken-1"]
    login = guarded(server, ["t0ken-1", "t0ken-2"], lambda: valid[0])

    def poll(request):
        return (401, "") if request.headers["authorization"] != f"Bearer {valid[0]}" else {"done": True, "labels": [9]}

    server.routes["GET /poll"] = poll

    def main(request):
        valid[0] = "t0ken-2"
        return {}

    server.routes["POST /m"] = main
    steps = [login, step(server, "poll", "after_call", headers=TOKEN_HEADER, until="done")]
    assert open_card(card(server, steps)).predict(FRAME[:1]).labels.tolist() == [9]
    assert server.paths().count("POST /login") == 2


AUTH = {"type": "api-key", "key": "${T_SECRET}"}
HEADERS = {"X-Team": "risk", "Content-Type": "application/vnd.x+json"}


class TestWhoGetsCredentials:
    def asked(self, server, steps, **more):
        answers = open_card(card(server, steps, auth=AUTH, headers=HEADERS, **more)).predict(FRAME[:1])
        return answers, server.requests

    def test_a_step_on_the_endpoints_own_host(self, server):
        server.routes["GET /same"] = {}
        self.asked(server, [step(server, "same", "before_run")])
        headers = server.seen("GET /same")[0].headers
        assert (headers["x-api-key"], headers["x-team"]) == ("s3cret-value", "risk")
        assert "content-type" not in headers
        assert server.seen("POST /m")[0].headers["content-type"] == "application/vnd.x+json"

    def test_a_step_on_another_host(self, server, other):
        self.asked(server, [step(other, "there", "before_run")])
        headers = other.requests[0].headers
        assert "x-api-key" not in headers
        assert "x-team" not in headers

    def test_a_step_with_credentials_of_its_own(self, server, other):
        auth = {"type": "bearer", "token": "${T_SECRET}"}
        self.asked(server, [step(other, "there", "before_run", auth=auth, headers={"X-More": "${T_SECRET}"})])
        headers = other.requests[0].headers
        assert (headers["authorization"], headers["x-more"]) == ("Bearer s3cret-value", "s3cret-value")
        assert "x-team" not in headers

    def test_a_host_that_came_out_of_an_answer(self, server, other):
        server.routes["POST /m"] = {"labels": [1], "next": f"{other.url}/stolen"}
        auth = {"type": "bearer", "token": "${T_SECRET}"}
        headers = {"X-More": "${T_SECRET}", "Cookie": "id={{ call.labels[0] }}", "X-Plain": "yes"}
        follow = {"name": "follow", "when": "after_call", "url": "{{ call.next }}", "auth": auth, "headers": headers}
        self.asked(server, [follow], response={"labels": "[`1`]"})
        seen = other.requests[0].headers
        assert seen["x-plain"] == "yes"
        assert not {"authorization", "x-more", "cookie", "x-team", "x-api-key"} & set(seen)

    def test_a_host_that_an_answer_appends_to_the_cards(self, server, other):
        port = other.url.rpartition(":")[2]
        server.routes["POST /m"] = {"labels": [1], "path": f"@127.0.0.1:{port}/stolen"}
        follow = {"name": "follow", "when": "after_call", "url": "http://example.invalid{{ call.path }}", "auth": AUTH}
        self.asked(server, [follow], response={"labels": "[`1`]"})
        assert "x-api-key" not in other.requests[0].headers

    def test_a_host_out_of_an_answer_that_the_card_names_elsewhere(self, server, other):
        server.routes["POST /m"] = {"labels": [1], "next": f"{other.url}/result"}
        auth = {"type": "bearer", "token": "${T_SECRET}"}
        follow = {"name": "follow", "when": "after_call", "url": "{{ call.next }}", "auth": auth}
        self.asked(server, [step(other, "there", "before_run"), follow], response={"labels": "[`1`]"})
        assert other.seen("GET /result")[0].headers["authorization"] == "Bearer s3cret-value"

    def test_a_body_with_a_secret_goes_to_no_unnamed_host(self, server, other):
        server.routes["POST /m"] = {"labels": [1], "next": f"{other.url}/stolen"}
        follow = {"name": "follow", "when": "after_call", "url": "{{ call.next }}", "request": '{"key": "${T_SECRET}"}'}
        answers, _ = self.asked(server, [follow])
        assert "leads to 127.0.0.1, which the card does not name" in answers.errors[0]
        assert other.requests == []

    @pytest.mark.parametrize(
        ("url", "request_"),
        [
            ("{{ call.next }}?key={{ login.token }}", None),
            ("{{ call.next }}/{{ login.token }}", None),
            ("{{ call.next }}{{ login.token }}", None),
            ("{% if n %}{{ call.next }}/{% endif %}{{ login.token }}", None),
            ("http://{{ call.host }}/{{ login.token }}", None),
            ("{{ call.next }}", '{"key": {{ login.token|tojson }}}'),
        ],
    )
    def test_a_token_of_a_step_goes_to_no_unnamed_host(self, server, other, url, request_):
        host = other.url.partition("://")[2]
        server.routes |= {"POST /m": {"next": f"{other.url}/stolen", "host": host}, "GET /login": {"token": "t0ken"}}
        follow = {"name": "follow", "when": "after_call", "url": url, "request": request_}
        answers, _ = self.asked(server, [step(server, "login", "before_run"), follow])
        assert "leads to 127.0.0.1, which the card does not name, and the call holds a value of step login" in answers.errors[0]
        assert other.requests == []

    @pytest.mark.parametrize(
        "url", ["{{ found.base }}/x/{{ found.key }}", "http://{{ found.host }}:{{ found.port }}/x/{{ found.key }}"]
    )
    def test_the_answer_that_names_a_host_may_say_what_goes_there(self, server, other, url):
        port = other.url.rpartition(":")[2]
        server.routes["GET /found"] = {"base": other.url, "host": "127.0.0.1", "port": port, "key": "k3y"}
        other.routes["POST /x/k3y"] = {"labels": ["a"]}
        answers, _ = self.asked(
            server, [step(server, "found", "before_run")], url=url, request="[{{ found.key|tojson }}, {{ rows|tojson }}]"
        )
        assert answers.labels.tolist() == ["a"]
        assert other.requests[0].json[0] == "k3y"
        assert "x-api-key" not in other.requests[0].headers

    def test_an_upload_to_a_signed_address(self, server, other):
        server.routes |= {"POST /sign": {"put": f"{other.url}/bucket?sig=abc"}, "POST /m": {"labels": "yes"}}
        steps = [
            step(server, "sign", "before_case", request="{}"),
            {"name": "put", "when": "before_case", "method": "PUT", "url": "{{ sign.put }}", "body": "raw"},
        ]
        data = card(server, steps, "speech-to-text", auth=AUTH, request="{}")
        assert open_card(data).predict([CLIP]).labels.tolist() == ["yes"]
        assert other.requests[0].query == {"sig": ["abc"]}
        assert other.requests[0].headers["content-type"] == "audio/wav"
        assert "x-api-key" not in other.requests[0].headers


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("a\r\nX-Evil: 1", "line break or another control character"),
        ("${T_SECRET}", "holds a reference to a secret"),
        ("ü", "not ASCII"),
    ],
)
def test_a_header_value_out_of_an_answer_cannot_bring_more(server, value, said):
    server.routes["GET /open"] = {"id": value}
    steps = [step(server, "open", "before_call")]
    answers = open_card(card(server, steps, headers={"X-Session": "{{ open.id }}"})).predict(FRAME[:1])
    assert said in answers.errors[0]
    assert "POST /m" not in server.paths()


@pytest.mark.parametrize("value", ["x\ny", "${T_SECRET}", "ftp://h/", "", "http://h/\ud800"])
def test_an_address_out_of_an_answer_must_be_one(server, value):
    server.routes["POST /m"] = {"labels": [1], "next": value}
    follow = {"name": "follow", "when": "after_call", "url": "{{ call.next }}"}
    answers = open_card(card(server, [follow])).predict(FRAME[:1])
    assert "step follow: the address of step follow cannot be made" in answers.errors[0]


def test_a_reference_may_stand_for_the_address(server, monkeypatch):
    monkeypatch.setenv("T_BASE", server.url)
    server.routes["GET /same"] = {}
    same = {"name": "same", "when": "before_run", "url": "${T_BASE}/same"}
    data = card(server, [same], url="${T_BASE}/m", auth={"type": "bearer", "token": "${T_SECRET}"})
    assert open_card(data).predict(FRAME).labels.tolist() == list(range(6))
    assert server.seen("GET /same")[0].headers["authorization"] == "Bearer s3cret-value"


def test_answers_before_an_outage_are_kept(server):
    def main(request):
        return {"labels": [row[0] for row in request.json]} if request.json[0][0] < 4 else (401, {"error": "quota"})

    server.routes["POST /m"] = main
    with pytest.raises(ModelUnavailable) as caught:
        open_card(card(server, [], batch_size=2, concurrency=1)).predict(FRAME)
    assert caught.value.answers.labels.tolist() == [0, 1, 2, 3, None, None]
    assert caught.value.answers.errors.tolist() == [None] * 4 + ["not asked"] * 2


def test_answers_within_a_halved_batch_are_kept(server):
    def main(request):
        first = request.json[0][0]
        if len(request.json) > 2:
            return 500, ""
        return {"labels": [row[0] for row in request.json]} if first < 2 else (401, "")

    server.routes["POST /m"] = main
    with pytest.raises(ModelUnavailable) as caught:
        open_card(card(server, [])).predict(pd.DataFrame({"a": range(8)}))
    assert caught.value.answers.labels.tolist() == [0, 1, *[None] * 6]


def test_a_step_that_always_fails_is_not_tried_for_ever(server):
    server.routes["GET /check"] = {"ok": False}
    steps = [step(server, "check", "before_call", success="ok")]
    with pytest.raises(ModelUnavailable, match="answered no input usably, the last: step check: `ok` is not true"):
        open_card(card(server, steps, batch_size=1, concurrency=1)).predict(pd.DataFrame({"a": range(100)}))


def test_steps_count_as_calls_without_rows(server):
    server.routes["GET /nonce"] = {}
    model = open_card(card(server, [step(server, "nonce", "before_call")], batch_size=2))
    model.predict(FRAME)
    assert (model.usage.calls, model.usage.rows) == (6, 6)
