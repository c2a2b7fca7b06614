"""What a card's endpoint may say: every mistake has its place and its mend, and every sound form is accepted."""

from __future__ import annotations

import copy

import pytest
import yaml

from aitest_lib.config.card import load_card, load_card_data
from aitest_lib.config.endpoint_secrets import is_secret_header
from aitest_lib.config.endpoint_urls import literal_start, origin_of
from aitest_lib.errors import InputError

URL = "http://127.0.0.1:8080/m"
ENDPOINTS = {
    "tabular": {"request": "{{ rows|tojson }}"},
    "text": {"request": "{{ texts|tojson }}"},
    "conversation": {"request": "{{ turns|tojson }}"},
    "image": {"request": "{{ images|tojson }}"},
    "speech": {"request": "{{ audio_b64|tojson }}"},
}
TYPES = {
    "tabular": "tabular-classifier",
    "text": "text-classifier",
    "conversation": "conversation-classifier",
    "image": "image-classifier",
    "speech": "speech-to-text",
}
FILE = {"content": "audio", "filename": "a.wav", "type": "audio/wav"}
POLL = {"name": "poll", "when": "after_call", "url": "http://127.0.0.1:8080/{{ call.id }}"}
LOGIN = {"name": "login", "when": "before_run", "url": URL, "request": "{}", "extract": {"token": "t"}}


def card(modality="tabular", top=None, **endpoint):
    made = {"url": URL, "response": {"labels": "l"}, **ENDPOINTS[modality], **endpoint}
    made = {key: value for key, value in made.items() if value is not None}
    return {"name": "m", "type": TYPES[modality], "endpoint": copy.deepcopy(made), **(top or {})}


def endpoint_of(*args, **kwargs):
    return load_card_data(card(*args, **kwargs), ".").card.endpoint


def refused(*args, **kwargs):
    with pytest.raises(InputError) as caught:
        load_card_data(card(*args, **kwargs), ".")
    return str(caught.value)


def step(**more):
    return {**LOGIN, **more}


@pytest.mark.parametrize(
    ("modality", "endpoint", "said"),
    [
        ("tabular", {"request": None}, "endpoint: missing key request: body: json needs a template"),
        ("tabular", {"request": None, "body": "raw"}, "missing key request: body: raw"),
        ("text", {"request": None, "body": "raw"}, "missing key request"),
        ("conversation", {"request": None, "body": "raw"}, "missing key request"),
        ("speech", {"request": None, "body": "websocket", "url": "ws://h/"}, "missing key request: body: websocket"),
        ("tabular", {"request": {"rows": 1}}, "endpoint.request: got a mapping, expected text; put quotes around the template"),
        ("tabular", {"request": [1]}, "endpoint.request: got a list of 1, expected text"),
        ("tabular", {"request": b"bytes"}, "endpoint.request: got a bytes, expected text"),
        ("tabular", {"request": 5}, "endpoint.request: got 5, expected text"),
        ("speech", {"body": "multipart", "request": None}, "body: multipart needs `parts"),
        ("speech", {"body": "multipart", "request": None, "parts": {}}, "endpoint.parts: body: multipart needs `parts"),
        ("speech", {"body": "multipart", "parts": {"f": FILE}}, "endpoint.request: body: multipart is made of `parts`"),
        ("speech", {"parts": {"f": FILE}}, "endpoint.parts: parts are for body: multipart, but the body is json"),
        ("image", {"body": "multipart", "request": None, "parts": {"f": FILE}}, "endpoint.parts.f.content: got audio"),
        (
            "speech",
            {"body": "multipart", "request": None, "parts": {"f": FILE}, "headers": {"content-type": "multipart/form-data"}},
            "multipart sets its own Content-Type",
        ),
        ("speech", {"body": "multipart", "request": None, "parts": {"f": {"content": "audio"}}}, "endpoint.parts.f.filename"),
        ("tabular", {"headers": {"X Y": "1"}}, "not a header's name"),
        ("tabular", {"headers": {"X-Y": "1\r\nX-Z: 2"}}, "endpoint.headers.X-Y: got a line break"),
        ("tabular", {"url": "http://h/\nx"}, "endpoint.url: got a line break"),
        ("tabular", {"url": "http://h/a b"}, "endpoint.url: got an address with blanks"),
        (
            "tabular",
            {"url": "localhost:8080/x"},
            "endpoint.url: got 'localhost:8080/x', expected http:// or https:// and a host",
        ),
        ("tabular", {"url": "h/x"}, "expected http:// or https:// and a host"),
        ("tabular", {"url": ""}, "expected http:// or https:// and a host"),
        ("tabular", {"url": "http://"}, "and a host"),
        ("tabular", {"url": "http://h:0/"}, "and a host"),
        ("tabular", {"url": "http://h:x/"}, "not a valid URL"),
        ("tabular", {"url": "wss://h/"}, "got wss://, the address of a WebSocket; add `body: websocket`"),
        ("speech", {"body": "websocket", "request": "[{{ pcm_b64|tojson }}]"}, "got http://, expected ws:// or wss://"),
        (
            "tabular",
            {"auth": {"type": "oauth2", "token_url": "h/token", "client_id": "i", "client_secret": "${T_SECRET}"}},
            "endpoint.auth.token_url: got 'h/token', expected http:// or https:// and a host",
        ),
        ("tabular", {"proxy": "socks5://h:1"}, "endpoint.proxy: got 'socks5://h:1', expected http:// or https://"),
        ("tabular", {"proxy": "h:3128"}, "endpoint.proxy"),
        ("tabular", {"proxy": "http://{{ x }}/"}, "endpoint.proxy"),
        ("text", {"request": "{{ text|tojson }}", "batch_size": 8}, "endpoint.batch_size: got 8, expected 1: `text` is one"),
        ("image", {"request": "{{ image_b64|tojson }}", "batch_size": 2}, "`image_b64` is one"),
        ("conversation", {"batch_size": 2}, "a call carries one conversation; set `batch_size: 1`"),
        ("speech", {"batch_size": 2}, "a call carries one clip"),
        ("image", {"request": None, "body": "raw", "batch_size": 2}, "the body carries one input's bytes"),
        ("text", {"response": {"kind": "text", "labels": "@"}, "batch_size": 2}, "an answer of kind text is one answer"),
        ("tabular", {"steps": [step(when="before_case")], "batch_size": 256}, "step login is made for each input"),
        ("tabular", {"response": {"kind": "text", "labels": "[*].x"}}, "endpoint.response.labels: finds nothing"),
        ("tabular", {"response": {"kind": "text", "labels": "label"}}, 'is one text; write "@"'),
        ("tabular", {"response": {"kind": "csv", "labels": "label"}}, "is a list of rows; write [*][0]"),
        ("tabular", {"response": {"kind": "json", "labels": "l["}}, "not a valid JMESPath"),
        ("tabular", {"response": {"labels": "[" * 5000 + "0" + "]" * 5000}}, "not a valid JMESPath"),
        ("tabular", {"response": {"labels": "l", "success": "a ="}}, "endpoint.response.success"),
        ("tabular", {"response": {"labels": "l", "scores": "s"}}, "scores need the order of the classes"),
        ("speech", {"response": {"labels": "l", "scores": "s"}}, "a recogniser answers texts as `labels`"),
        (
            "speech",
            {"request": '{"a": {{ audio_b64|tojson }}, "l": {{ language|tojson }}}'},
            "uses language, but the card does",
        ),
        ("text", {"request": '{"n": {{ n }}}'}, "uses none of texts, text: the model would get no input; add one"),
        ("speech", {"request": "{}"}, "endpoint.request: uses none of audio_b64, pcm_b64"),
        ("text", {"headers": {"X-N": "{{ rows }}"}}, "endpoint.headers.X-N: unknown template variable rows"),
        ("text", {"url": "http://h/{{ nobody }}"}, "endpoint.url: unknown template variable nobody"),
        ("text", {"url": "http://h/{{ n"}, "endpoint.url"),
        ("text", {"url": "http://h/{{ n|center(9) }}"}, "endpoint.url: the filter center is not available"),
        (
            "text",
            {"headers": {"X-N": "{{ '${T_KEY}'|lower }}"}},
            "endpoint.headers.X-N: ${T_KEY} stands where the template may",
        ),
        ("text", {"auth": {"type": "bearer", "token": "{{ '${T_KEY}'[:9] }}"}}, "endpoint.auth.token: ${T_KEY} stands where"),
        (
            "text",
            {"auth": {"type": "bearer", "token": "{{ login.token }}"}},
            "endpoint.auth.token: unknown template variable login",
        ),
    ],
)
def test_mistakes(modality, endpoint, said):
    assert said in refused(modality, **endpoint)


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ([LOGIN, LOGIN], "endpoint.steps[1].name: two steps are named login"),
        ([step(name="rows")], "endpoint.steps[0].name: rows is a template variable already"),
        ([step(name="model")], "model is a template variable already"),
        ([step(name="range")], "got 'range', expected a name"),
        ([step(name="a-b")], "got 'a-b', expected a name of letters"),
        ([step(name="not")], "got 'not', expected a name"),
        ([step(name="true")], "got 'true', expected a name"),
        ([step(when="before")], "unknown value 'before'; did you mean before_"),
        (
            [step(request='{"x": {{ rows|tojson }}}')],
            "unknown template variable rows; allowed for step login (before_run): model.name",
        ),
        ([step(request="{{ call }}")], "unknown template variable call"),
        ([step(request="{"), POLL], "endpoint.steps[0].request: does not make valid JSON"),
        ([{**POLL, "url": "http://h/{{ call.id }}{{ login.token }}"}], "unknown template variable login"),
        ([LOGIN, {**POLL, "url": "http://h/{{ login.id }}"}], "unknown template variable login.id"),
        ([{**POLL, "url": "http://h/{{ poll.id }}"}], "step poll comes later; its answer is not known here"),
        ([step(request="{{ login }}")], "step login comes later"),
        ([step(request="{{ poll }}"), POLL], "step poll comes later"),
        ([step(until="a =")], "endpoint.steps[0].until: not a valid JMESPath"),
        ([step(success="a =")], "endpoint.steps[0].success: not a valid JMESPath"),
        ([step(extract={"token": "a-b"})], "endpoint.steps[0].extract.token: not a valid JMESPath"),
        ([step(extract={})], "endpoint.steps[0].extract: expected at least one"),
        ([step(every_s=2)], "endpoint.steps[0].every_s: is how often `until` is tried"),
        ([step(timeout_s=2)], "endpoint.steps[0].timeout_s: is how long `until` is tried"),
        ([step(until="a", every_s=0)], "endpoint.steps[0].every_s: got 0, expected more than 0"),
        ([step(url="ws://h/")], "endpoint.steps[0].url"),
        ([step(url="localhost/x")], "endpoint.steps[0].url"),
        ([step(body="websocket")], "unknown value 'websocket'"),
        ([step(body="raw", request=None)], "endpoint.steps[0]: missing key request"),
        ([step(body="multipart", request=None)], "endpoint.steps[0]: body: multipart needs `parts"),
        ([step(method="PATCH")], "endpoint.steps[0].method: unknown value 'PATCH'"),
    ],
)
def test_mistakes_in_steps(steps, said):
    cleaned = [{key: value for key, value in one.items() if value is not None} for one in steps]
    assert said in refused("tabular", steps=cleaned)


SECRET = "s3cret-literal"


@pytest.mark.parametrize(
    ("place", "change"),
    [
        ("endpoint.auth.token", {"auth": {"type": "bearer", "token": SECRET}}),
        ("endpoint.auth.password", {"auth": {"type": "basic", "username": "me", "password": SECRET}}),
        ("endpoint.auth.key", {"auth": {"type": "api-key", "key": SECRET, "query": "k"}}),
        (
            "endpoint.auth.client_secret",
            {"auth": {"type": "oauth2", "token_url": "http://h/", "client_id": "i", "client_secret": SECRET}},
        ),
        ("endpoint.auth.secret_key", {"auth": {"type": "sigv4", "region": "eu", "secret_key": SECRET}}),
        ("endpoint.auth.session_token", {"auth": {"type": "sigv4", "region": "eu", "session_token": SECRET}}),
        ("endpoint.headers.X-Auth-User", {"headers": {"X-Auth-User": SECRET}}),
        ("endpoint.headers.Ocp-Apim-Subscription-Key", {"headers": {"Ocp-Apim-Subscription-Key": SECRET}}),
        ("endpoint.url", {"url": f"http://h/?key={SECRET}"}),
        ("endpoint.url", {"url": f"http://h/?a=1&access_token={SECRET}"}),
        ("endpoint.url", {"url": f"http://h/?sig={SECRET}#f"}),
        ("endpoint.url", {"url": f"http://me:{SECRET}@h/"}),
        ("endpoint.url", {"url": f"http://{SECRET}@h/"}),
        ("endpoint.proxy", {"proxy": f"http://me:{SECRET}@h:3128"}),
        ("endpoint.steps[0].auth.token", {"steps": [step(auth={"type": "bearer", "token": SECRET})]}),
        ("endpoint.steps[0].headers.Cookie", {"steps": [step(headers={"Cookie": SECRET})]}),
        ("endpoint.steps[0].url", {"steps": [step(url=f"http://h/?password={SECRET}")]}),
    ],
)
def test_a_literal_secret_is_refused_wherever_it_stands(place, change):
    message = refused(**change)
    assert message.startswith(f"{place}: a secret must be a reference")
    assert SECRET not in message
    filled = {key: _with(value, "${T_SECRET}") for key, value in change.items()}
    assert endpoint_of(**filled)


def _with(value, reference):
    if isinstance(value, dict):
        return {key: _with(item, reference) for key, item in value.items()}
    if isinstance(value, list):
        return [_with(item, reference) for item in value]
    return value.replace(SECRET, reference) if isinstance(value, str) else value


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("Authorization", 1),
        ("X-Auth", 1),
        ("X-API-Key", 1),
        ("x-functions-key", 1),
        ("Cookie", 1),
        ("X-Amz-Security-Token", 1),
        ("X-Author", 0),
        ("Content-Type", 0),
        ("Idempotency-Key", 0),
        ("X-Max-Tokens", 0),
        ("X-Team", 0),
    ],
)
def test_headers_that_say_who_asks(name, secret):
    assert is_secret_header(name) == bool(secret)


@pytest.mark.parametrize(
    ("url", "start"),
    [
        ("http://h/x", "http://h/x"),
        ("http://h/x/{{ a.id }}", "http://h/x/"),
        ("http://h?x={{ a.id }}", "http://h?x="),
        ("${T_BASE}/x/{{ a.id }}", "${T_BASE}/x/"),
        ("http://h{{ a.rest }}", None),
        ("http://h:80{{ a.rest }}/x", None),
        ("{{ a.url }}/x", None),
        ("${T_BASE}{{ a.rest }}", None),
    ],
)
def test_a_host_is_the_cards_own_only_where_no_template_can_change_it(url, start):
    assert literal_start(url) == start


def test_origins():
    assert origin_of("HTTPS://Me:pw@H:8443/x") == ("https", "h", 8443)
    assert origin_of("https://h/") == origin_of("https://h:443") == ("https", "h", 443)
    assert origin_of("ftp://h/") is origin_of("http://h:x/") is origin_of("/path") is None


@pytest.mark.parametrize(
    ("modality", "endpoint", "size"),
    [
        ("tabular", {}, 256),
        ("tabular", {"batch_size": 8}, 8),
        ("image", {}, 256),
        ("text", {}, 256),
        ("text", {"request": "{{ text|tojson }}"}, 1),
        ("conversation", {}, 1),
        ("speech", {}, 1),
        ("speech", {"batch_size": 1}, 1),
        ("image", {"request": None, "body": "raw"}, 1),
        ("text", {"response": {"kind": "text", "labels": "@"}}, 1),
        ("tabular", {"steps": [step(when="before_case")]}, 1),
        ("tabular", {"request": '{"r": {{ rows|tojson }}, "s": "{{ session }}"}'}, 1),
        ("tabular", {"request": '{"r": {{ rows|tojson }}, "s": "{{ session.token }}"}', "steps": [step(name="session")]}, 256),
        ("tabular", {"body": "raw", "request": "{{ rows|csv }}"}, 256),
    ],
)
def test_the_batch_size_is_one_where_a_call_can_carry_no_more(modality, endpoint, size):
    assert endpoint_of(modality, **endpoint).batch_size == size


@pytest.mark.parametrize(
    ("modality", "endpoint"),
    [
        ("tabular", {"url": "${T_BASE}/score"}),
        ("tabular", {"url": "https://${T_HOST}:8443/score"}),
        ("tabular", {"url": "http://h/{{ login.token }}?a={{ model.version }}", "steps": [LOGIN]}),
        ("tabular", {"url": "http://{{ login.token }}/x", "steps": [LOGIN]}),
        ("tabular", {"steps": [{**POLL, "url": "{{ call.next }}"}]}),
        ("tabular", {"steps": [{**POLL, "url": "http://127.0.0.1:8080{{ call.next }}"}]}),
        ("tabular", {"steps": [POLL, LOGIN], "headers": {"Authorization": "Bearer {{ login.token }}"}}),
        (
            "tabular",
            {"request": '[[{% for i in range(n) %}{{ i }}{{ "," if not loop.last }}{% endfor %}], {{ flat|tojson }}]'},
        ),
        (
            "tabular",
            {
                "request": '{"inputs": [{% for f in fields %}{"name": {{ f|tojson }}, "data": '
                '{{ rows|map(attribute=loop.index0)|list|tojson }}}{{ "," if not loop.last }}{% endfor %}]}'
            },
        ),
        ("speech", {"body": "multipart", "request": None, "parts": {"f": FILE, "m": "whisper"}}),
        ("speech", {"body": "websocket", "url": "wss://h/", "request": '[{"binary": {{ pcm_b64|tojson }}}, {"eof": 1}]'}),
        (
            "speech",
            {
                "request": '{"u": {{ up.url|tojson }}}',
                "steps": [step(name="up", when="before_case", body="raw", request=None, extract=None)],
            },
        ),
        (
            "text",
            {
                "request": '{"model": {{ model.name|tojson }}}',
                "steps": [step(name="up", when="before_case", request="{{ text|tojson }}")],
            },
        ),
        ("text", {"response": {"kind": "csv", "labels": "[*][0]", "success": "length(@) > `0`"}}),
        ("text", {"response": {"kind": "text", "labels": "to_number(@)"}}),
        ("text", {"response": {"scores": "s"}, "top": {"classes": ["a", "b", "c"]}}),
    ],
)
def test_what_is_accepted(modality, endpoint):
    endpoint = {**endpoint}
    if "steps" in endpoint:
        endpoint["steps"] = [{key: value for key, value in one.items() if value is not None} for one in endpoint["steps"]]
    assert endpoint_of(modality, **endpoint)


@pytest.mark.parametrize(
    ("modality", "inputs", "said"),
    [
        ("text", {"columns": ["a"]}, "inputs.columns: is for tabular models, but the type is text-classifier"),
        ("tabular", {"image": {"channels": 1}}, "inputs.image: is for image models"),
        ("image", {"speech": {"sample_rate": 16000}}, "inputs.speech: is for speech models"),
        ("image", {"image": {"size": [28]}}, "inputs.image.size"),
        ("image", {"image": {"size": [0, 28]}}, "inputs.image.size[0]: got 0, expected at least 1"),
        ("image", {"image": {"channels": 2}}, "inputs.image.channels"),
        ("image", {"image": {"layout": "HCW"}}, "inputs.image.layout: unknown value 'HCW'; did you mean"),
        ("image", {"image": {"range": [0, 2]}}, "inputs.image.range[1]"),
        ("image", {"image": {"std": [0]}}, "inputs.image.std[0]: got 0, expected more than 0"),
        ("image", {"image": {"channels": 3, "mean": [1, 2]}}, "inputs.image.mean: got 2 numbers, expected 3"),
        ("image", {"image": {"mean": [1, 2], "std": [1]}}, "got 2 means and 1 stds"),
        ("speech", {"speech": {"language": "en"}}, "inputs.speech.sample_rate: this key is required"),
        ("speech", {"speech": {"sample_rate": 8000, "encoding": "mp3"}}, "inputs.speech.encoding"),
    ],
)
def test_mistakes_in_inputs(modality, inputs, said):
    assert said in refused(modality, top={"inputs": inputs})


def test_a_message_has_file_and_line(tmp_path):
    path = tmp_path / "model.yaml"
    path.write_text(yaml.safe_dump(card(steps=[LOGIN, {**POLL, "until": "a ="}]), sort_keys=False))
    line = next(n for n, text in enumerate(path.read_text().splitlines(), 1) if "until" in text)
    with pytest.raises(InputError, match=rf"model.yaml:{line}: endpoint.steps\[1\].until: not a valid JMESPath"):
        load_card(path)


def test_an_endless_template_in_an_address_is_refused_too():
    loop = "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}"
    assert "endpoint.url: the template takes too many steps" in refused(url=f"http://h/{loop}")
