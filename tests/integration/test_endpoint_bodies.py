"""What goes out for every type of model and form of body, and how every kind of response is read, over real HTTP."""

from __future__ import annotations

import base64
import csv
import io
import json
import wave
from urllib.parse import parse_qs

import numpy as np
import pandas as pd
import pytest
from http_app import app
from opening import open_card
from PIL import Image

from aitest_lib.errors import InputError
from aitest_lib.types import Clip

JSON = {"labels": "labels"}
FRAME = pd.DataFrame({"a": [1, 2], "b": ['say "x", y', None]})
PIXELS = np.arange(2 * 3 * 4 * 3, dtype=np.uint8).reshape(2, 3, 4, 3)
CLIP = Clip(np.array([0, 0.5, -1, 1, 0.25], dtype=np.float32), 16000)
TALK = [
    {"role": "user", "text": "hello"},
    {"role": "assistant", "text": "how can I help?"},
    {"role": "user", "text": 'book a "table"'},
    {"role": "assistant", "text": "done"},
]


@pytest.fixture
def server():
    with app({"POST /m": {"labels": "yes"}}) as running:
        yield running


def card(server, model_type="tabular-classifier", response=JSON, inputs=None, top=None, **endpoint):
    data = {"name": "m", "type": model_type, "endpoint": {"url": f"{server.url}/m", "response": response, **endpoint}}
    return {**data, **({"inputs": inputs} if inputs else {}), **(top or {})}


def sent(server, asked, *args, **endpoint):
    answers = open_card(card(server, *args, **endpoint)).predict(asked)
    assert answers.errors.tolist() == [None] * len(answers)
    return server.requests[-1]


def test_texts(server):
    server.routes["POST /m"] = lambda request: {"labels": [text.upper() for text in request.json["t"]]}
    model = open_card(card(server, "text-classifier", request='{"t": {{ texts|tojson }}, "n": {{ n }}}', batch_size=2))
    answers = model.predict(["a", 'b "\n', "${X} {{ y }}"])
    assert answers.labels.tolist() == ["A", 'B "\n', "${X} {{ Y }}"]
    assert sorted(request.json["n"] for request in server.requests) == [1, 2]


def test_one_text_a_call(server):
    model = open_card(card(server, "text-classifier", request='{"inputs": {{ text|tojson }}}'))
    model.predict(["one", "two"])
    assert sorted(request.json["inputs"] for request in server.requests) == ["one", "two"]


def test_a_conversation_up_to_its_last_user_turn(server):
    request = '{"turns": {{ turns|tojson }}, "text": {{ text|tojson }}, "session": {{ session|tojson }}}'
    model = open_card(card(server, "conversation-classifier", request=request))
    answers = model.predict([TALK, TALK[:1], TALK[1:2]])
    first, second = sorted((request.json for request in server.requests), key=lambda body: -len(body["turns"]))
    assert (first["turns"], first["text"]) == (TALK[:3], 'book a "table"')
    assert (second["turns"], second["text"]) == (TALK[:1], "hello")
    assert len({first["session"], second["session"]}) == 2
    assert answers.labels.tolist() == ["yes", "yes", None]
    assert "at least one of the role user" in answers.errors[2]


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ({}, PIXELS / 255),
        ({"range": [0, 255]}, PIXELS),
        ({"layout": "CHW", "size": [3, 4], "channels": 3, "range": [0, 255]}, PIXELS.transpose(0, 3, 1, 2)),
        (
            {"mean": [0.5, 0.25, 0], "std": [0.5, 1, 2], "layout": "CHW"},
            ((PIXELS / 255 - [0.5, 0.25, 0]) / [0.5, 1, 2]).transpose(0, 3, 1, 2),
        ),
    ],
)
def test_images_as_numbers(server, image, expected):
    server.routes["POST /m"] = {"labels": ["a", "b"]}
    request = sent(server, PIXELS, "image-classifier", inputs={"image": image}, request='{"x": {{ images|tojson }}}')
    np.testing.assert_allclose(request.json["x"], expected, rtol=1e-12)


def test_grey_images_get_their_channel_axis(server):
    grey = PIXELS[..., 0]
    server.routes["POST /m"] = {"labels": ["a", "b"]}
    for image, shape in [({}, (2, 3, 4)), ({"channels": 1}, (2, 3, 4, 1)), ({"channels": 1, "layout": "CHW"}, (2, 1, 3, 4))]:
        request = sent(server, grey, "image-classifier", inputs={"image": image}, request='{"x": {{ images|tojson }}}')
        assert np.shape(request.json["x"]) == shape


def pixels_of(png):
    return np.asarray(Image.open(io.BytesIO(png)))


def test_images_as_png(server):
    server.routes["POST /m"] = {"labels": ["a", "b"]}
    request = sent(server, PIXELS, "image-classifier", request='{"x": {{ images_b64|tojson }}}')
    for one, png in zip(PIXELS, request.json["x"], strict=True):
        assert np.array_equal(pixels_of(base64.b64decode(png)), one)
    server.routes["POST /m"] = {"labels": "a"}
    request = sent(server, PIXELS[:1], "image-classifier", request='{"x": {{ image_b64|tojson }}}')
    assert np.array_equal(pixels_of(base64.b64decode(request.json["x"])), PIXELS[0])


def test_raw_image_and_clip(server):
    request = sent(server, PIXELS[:1], "image-classifier", body="raw")
    assert request.headers["content-type"] == "image/png"
    assert np.array_equal(pixels_of(request.body), PIXELS[0])
    request = sent(server, [CLIP], "speech-to-text", body="raw", headers={"Content-Type": "audio/x-wav"})
    assert request.headers["content-type"] == "audio/x-wav"
    check_wav(request.body)


def check_wav(data):
    with wave.open(io.BytesIO(data)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 16000)
        samples = np.frombuffer(file.readframes(99), "<i2")
    assert samples.tolist() == [0, 16384, -32768, 32767, 8192]


def test_a_clip_as_json(server):
    inputs = {"speech": {"sample_rate": 16000, "language": "en-US"}}
    request = '{"a": {{ audio_b64|tojson }}, "p": {{ pcm_b64|tojson }}, "r": {{ sample_rate }}, "l": {{ language|tojson }}}'
    body = sent(server, [CLIP], "speech-to-text", inputs=inputs, request=request).json
    check_wav(base64.b64decode(body["a"]))
    assert base64.b64decode(body["p"]) == base64.b64decode(body["a"])[44:]
    assert (body["r"], body["l"]) == (16000, "en-US")


def test_multipart_with_a_clip(server, monkeypatch):
    monkeypatch.setenv("T_KEY", "k3y-value")
    parts = {
        "model": "whisper-1",
        "key": "${T_KEY}",
        "rate": "{{ sample_rate }}",
        "file": {"content": "audio", "filename": "clip.wav", "type": "audio/wav"},
    }
    found = sent(server, [CLIP], "speech-to-text", body="multipart", parts=parts).parts()
    assert list(found) == ["model", "key", "rate", "file"]
    assert [found[name] for name in ("model", "key", "rate")] == [
        (None, None, b"whisper-1"),
        (None, None, b"k3y-value"),
        (None, None, b"16000"),
    ]
    assert found["file"][:2] == ("clip.wav", "audio/wav")
    check_wav(found["file"][2])


def test_multipart_with_an_image_and_without_a_file(server):
    parts = {"file": {"content": "image", "filename": "x.png", "type": "image/png"}}
    found = sent(server, PIXELS[:1], "image-classifier", body="multipart", parts=parts).parts()
    assert np.array_equal(pixels_of(found["file"][2]), PIXELS[0])
    parts = {"text": "{{ text }}", "more": "é"}
    found = sent(server, ["a\r\n--b"], "text-classifier", body="multipart", parts=parts).parts()
    assert (found["text"][2], found["more"][2].decode()) == (b"a\r\n--b", "é")


def test_rows_as_csv(server):
    server.routes["POST /m"] = "yes\nno\n"
    request = sent(
        server,
        FRAME,
        body="raw",
        headers={"Content-Type": "text/csv"},
        request="{{ fields|csv }}\n{{ rows|csv }}",
        response={"kind": "csv", "labels": "[*][0]"},
    )
    assert request.headers["content-type"] == "text/csv"
    assert request.body == b'a,b\n1,"say ""x"", y"\n2,'
    assert list(csv.reader(io.StringIO(request.body.decode()))) == [["a", "b"], ["1", 'say "x", y'], ["2", ""]]


def test_a_form_quotes_its_secret(server, monkeypatch):
    monkeypatch.setenv("T_KEY", "a&b=c d/ü")
    request = sent(
        server,
        ["x&y"],
        "text-classifier",
        body="raw",
        headers={"Content-Type": "application/x-www-form-urlencoded"},
        request="key=${T_KEY}&text={{ text|urlencode }}",
    )
    assert parse_qs(request.body.decode()) == {"key": ["a&b=c d/ü"], "text": ["x&y"]}


def test_raw_text_has_its_media_type(server):
    request = sent(server, ["é"], "text-classifier", body="raw", request="{{ text }}")
    assert (request.headers["content-type"], request.body.decode()) == ("text/plain; charset=utf-8", "é")


def test_variables_in_the_address_and_headers(server):
    inputs = {"speech": {"sample_rate": 16000, "language": "en-US"}}
    request = sent(
        server,
        [CLIP],
        "speech-to-text",
        inputs=inputs,
        body="raw",
        url=f"{server.url}/m?language={{{{ language }}}}&name={{{{ model.name|urlencode }}}}",
        headers={"Content-Type": "audio/wav; rate={{ sample_rate }}"},
    )
    assert request.query == {"language": ["en-US"], "name": ["m"]}
    assert request.headers["content-type"] == "audio/wav; rate=16000"


@pytest.mark.parametrize(
    ("inputs", "model_type", "said"),
    [
        (["a"], "tabular-classifier", "got a list that holds a str as inputs, expected a DataFrame"),
        (FRAME, "text-classifier", "got a DataFrame as inputs, expected a list of texts"),
        ([1], "text-classifier", "holds a int"),
        (PIXELS.astype(float), "image-classifier", "got an array of float64 with 4 axes"),
        (PIXELS[0, 0], "image-classifier", "got an array of uint8 with 2 axes"),
        (PIXELS, "image-classifier", "got images of 3×4 pixels, but inputs.image.size is 28×28"),
        ([np.zeros(5)], "speech-to-text", "holds a ndarray"),
        ([Clip(CLIP.samples, 8000)], "speech-to-text", "got a clip of 8000 samples per second"),
        ([Clip(np.zeros((5, 2), np.float32), 16000)], "speech-to-text", "mono"),
    ],
)
def test_inputs_of_another_kind(server, inputs, model_type, said):
    more = {"image-classifier": {"image": {"size": [28, 28]}}, "speech-to-text": {"speech": {"sample_rate": 16000}}}
    body = {"text-classifier": {"body": "raw", "request": "{{ text }}"}, "tabular-classifier": {"request": "{{ rows|tojson }}"}}
    data = card(server, model_type, inputs=more.get(model_type), **body.get(model_type, {"body": "raw"}))
    with pytest.raises(InputError) as caught:
        open_card(data).predict(inputs)
    assert said in str(caught.value)
    assert server.requests == []


TEXTS = ["t1", "t2"]


@pytest.mark.parametrize(
    ("reply", "kind", "found", "classes", "labels"),
    [
        (["b", "a"], "json", "@", ["a", "b"], ["b", "a"]),
        ("b,0.1\r\na,0.9\r\n", "csv", "[*][0]", ["a", "b"], ["b", "a"]),
        ("1\n0\n", "csv", "[*][0]", [0, 1], [1, 0]),
        ("1\n0\n", "csv", "[*][0]", ["0", "1"], ["1", "0"]),
        ("1.0\n0.0\n", "csv", "[*][0]", [0, 1], [1, 0]),
        ("true\nFalse\n", "csv", "[*][0]", [False, True], [True, False]),
        ("01\n1\n", "csv", "[*][0]", ["01", "1"], ["01", "1"]),
        ('"a, ""b"""\n"line\nbreak"\n', "csv", "[*][0]", None, ['a, "b"', "line\nbreak"]),
        ("3\nx\n", "csv", "[*][0]", None, [3, "x"]),
        ({"r": '{"l": ["b", "a"]}'}, "json-in-json", "r.l", ["a", "b"], ["b", "a"]),
        (json.dumps({"l": ["b", "a"]}), "json", "l", ["a", "b"], ["b", "a"]),
        ('"{\\"l\\": [\\"b\\", \\"a\\"]}"', "json-in-json", "l", ["a", "b"], ["b", "a"]),
        ({"o": ['{"x": "{\\"y\\": \\"b\\"}"}', '{"x": "{\\"y\\": \\"a\\"}"}']}, "json-in-json", "o[*].x.y", None, ["b", "a"]),
    ],
)
def test_kinds_of_responses(server, reply, kind, found, classes, labels):
    server.routes["POST /m"] = lambda request: reply
    top = {"classes": classes} if classes else {}
    data = card(server, "text-classifier", {"kind": kind, "labels": found}, top=top, request="{{ texts|tojson }}")
    answers = open_card(data).predict(TEXTS)
    assert [(type(label), label) for label in answers.labels] == [(type(label), label) for label in labels]


@pytest.mark.parametrize(
    ("reply", "model_type", "classes", "label"),
    [
        (" yes\n", "text-classifier", None, "yes"),
        ("1\n", "text-classifier", [0, 1], 1),
        ("TRUE", "text-classifier", [False, True], True),
        ("-3.5e1", "tabular-regressor", None, -35.0),
        ("42", "speech-to-text", None, "42"),
        ("  \n", "speech-to-text", None, ""),
        (" two words ", "speech-to-text", None, "two words"),
    ],
)
def test_one_text_as_response(server, reply, model_type, classes, label):
    server.routes["POST /m"] = lambda request: reply
    request = {
        "text-classifier": {"body": "raw", "request": "{{ text }}"},
        "tabular-regressor": {"request": "{{ rows|tojson }}"},
        "speech-to-text": {"body": "raw"},
    }[model_type]
    inputs = {"text-classifier": ["x"], "tabular-regressor": FRAME[:1], "speech-to-text": [CLIP]}[model_type]
    top = {"classes": classes} if classes else {}
    got = open_card(card(server, model_type, {"kind": "text", "labels": "@"}, top=top, **request)).predict(inputs)
    assert (got.labels.tolist(), got.errors.tolist()) == ([label], [None])


def test_a_transcript_that_is_null_is_an_error_and_silence_is_not(server):
    replies = iter([{"labels": ""}, {"labels": None}, {"labels": None}, {"labels": 7}, {"labels": 7}])
    server.routes["POST /m"] = lambda request: next(replies)
    model = open_card(card(server, "speech-to-text", body="raw", concurrency=1))
    answers = model.predict([CLIP, CLIP, CLIP])
    assert answers.labels.tolist() == ["", None, None]
    assert "found no labels" in answers.errors[1]
    assert "got a number as transcript" in answers.errors[2]


@pytest.mark.parametrize(
    ("scores", "wanted"),
    [
        ([[0.2, 0.5, 0.3], [0.4, 0.4, 0.2]], ["b", "a"]),
        ([0.2, 0.5, 0.3, 0.4, 0.4, 0.2], ["b", "a"]),
        ([{"c": 1, "a": 0, "b": 0}, {"c": 0, "a": 0.5, "b": 0.5}], ["c", "a"]),
        ([[0.2, 0.5, 0.3], [0.4, 0.4, "NaN"]], ["b", None]),
    ],
)
def test_scores_alone_give_the_class_of_the_highest(server, scores, wanted):
    text = json.dumps({"s": scores}).replace('"NaN"', "NaN")
    server.routes["POST /m"] = lambda request: text
    data = card(server, "text-classifier", {"scores": "s"}, top={"classes": ["a", "b", "c"]}, request="{{ texts|tojson }}")
    answers = open_card(data).predict(TEXTS)
    assert answers.labels.tolist() == wanted
    assert [bool(error) for error in answers.errors] == [label is None for label in wanted]


def test_numbers_as_scores_need_a_decision(server):
    server.routes["POST /m"] = lambda request: {"s": [0.2, 0.9]}
    data = card(server, "text-classifier", {"scores": "s"}, top={"classes": ["a", "b"]}, request="{{ texts|tojson }}")
    assert all("expected `decision" in reason for reason in open_card(data).predict(TEXTS).errors)
    data["decision"] = {"threshold": 0.5}
    assert open_card(data).predict(TEXTS).labels.tolist() == ["a", "b"]


def test_a_score_as_text(server):
    server.routes["POST /m"] = lambda request: "0.75\n"
    top = {"classes": ["a", "b"], "decision": {"threshold": 0.5}}
    answers = open_card(card(server, response={"kind": "text", "scores": "@"}, top=top, request="{{ rows|tojson }}")).predict(
        FRAME
    )
    assert answers.labels.tolist() == ["b", "b"]
    assert answers.scores.tolist() == [[0.25, 0.75]] * 2


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"labels": "a", "labels": "b"}', "the key 'labels' twice"),
        ('{"labels": ' + "9" * 5000 + "}", "no valid JSON"),
        ('{"labels": 99999999999999999999999}', "beyond 64 bits"),
        ('{"labels": "\\ud800"}', "not valid Unicode"),
        ('{"labels": NaN}', "got nan as label"),
        ('{"labels": 1e999}', "got inf as label"),
        ('{"labels": ["a", "b"]}', "sent 1 row, got 2 predictions"),
        ("", "got no valid JSON: nothing"),
        (b"\xff\xfe\x00", "no valid JSON"),
    ],
)
def test_odd_answers_are_errors_of_their_rows(server, reply, said):
    server.routes["POST /m"] = lambda request: reply
    answers = open_card(card(server, "text-classifier", request="{{ text|tojson }}")).predict(["x"])
    assert answers.labels.tolist() == [None]
    assert said in answers.errors[0]
    assert len(server.requests) == 2


def test_the_one_bad_input_of_a_batch_stands_alone(server):
    def answer(request):
        return (500, "cannot") if "bad" in request.json else {"labels": ["ok"] * len(request.json)}

    server.routes["POST /m"] = answer
    texts = ["a", "b", "c", "d", "e", "bad", "g", "h"]
    answers = open_card(card(server, "text-classifier", request="{{ texts|tojson }}")).predict(texts)
    assert answers.labels.tolist() == [None if text == "bad" else "ok" for text in texts]
    assert "HTTP 500" in answers.errors[5]


def test_a_text_that_is_no_unicode_fails_alone(server):
    server.routes["POST /m"] = lambda request: {"labels": ["ok"] * len(request.json)}
    answers = open_card(card(server, "text-classifier", request="{{ texts|tojson }}")).predict(["a", "\ud800", "c"])
    assert answers.labels.tolist() == ["ok", None, "ok"]
    assert "not valid Unicode" in answers.errors[1]
