"""What holds for every template, input and answer: rendering and reading end in a result or in one kind of error."""

from __future__ import annotations

import csv
import io
import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aitest_lib.config.card import load_card_data
from aitest_lib.config.endpoint import Response
from aitest_lib.config.sandbox import to_csv
from aitest_lib.config.templates import Place, input_names, stand_ins, template_problem
from aitest_lib.errors import ModelAnswerError
from aitest_lib.models.endpoint import responses
from aitest_lib.models.endpoint.payloads import Payload, pcm_bytes
from aitest_lib.models.endpoint.responses import Reader, messages_json, parsed_json
from aitest_lib.models.endpoint.templates import Template, quoting_for
from aitest_lib.models.endpoint.wire import Answer
from aitest_lib.types import Clip, ModelInfo

KINDS = ("json", "text", "csv", "json-in-json")
EXPRESSIONS = (
    "@",
    "a",
    "a[*].b",
    "[*]",
    "[*][0]",
    "a.b",
    "[0]",
    "length(@)",
    "to_number(@)",
    "map(&b, a)",
    "sort(@)",
    "max_by(a, &b)",
)
INFOS = [
    ModelInfo(name="m", type="tabular-classifier", digest="d"),
    ModelInfo(name="m", type="text-classifier", digest="d", classes=("no", "yes")),
    ModelInfo(name="m", type="text-classifier", digest="d", classes=(0, 1, 2)),
    ModelInfo(name="m", type="text-classifier", digest="d", classes=(False, True)),
    ModelInfo(name="m", type="tabular-regressor", digest="d"),
    ModelInfo(name="m", type="speech-to-text", digest="d"),
]
SURROGATES = st.text(st.characters(min_codepoint=0xD7F0, max_codepoint=0xE010), max_size=5)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(10**300, 10**310)
    | st.floats()
    | st.text(max_size=10)
    | SURROGATES
    | st.sampled_from(["yes", "no", 0, 1, True, "1", '{"a": 1}', "[1]", '"x"', "true"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("ab") | st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)
RAW = st.binary(max_size=60).map(lambda data: data.decode("utf-8", "replace")) | st.text(max_size=60)
NESTED = st.integers(1, 200_000).map(lambda n: "[" * n) | st.integers(500, 3000).map(lambda n: "[" * n + "1" + "]" * n)
JSON_TEXTS = VALUES.map(lambda value: json.dumps(value)) | VALUES.map(lambda value: json.dumps(json.dumps({"a": value})))
ROWS = st.lists(st.lists(SCALARS.map(str), max_size=4), max_size=4).map(lambda rows: "\n".join(",".join(row) for row in rows))
TWICE = st.just('{"a": 1, "a": 2}')


@settings(max_examples=400, deadline=None)
@given(
    text=JSON_TEXTS | RAW | ROWS | NESTED | TWICE,
    kind=st.sampled_from(KINDS),
    labels=st.sampled_from([None, *EXPRESSIONS]),
    scores=st.sampled_from([None, *EXPRESSIONS]),
    success=st.sampled_from([None, "a == `1`", "@"]),
    info=st.sampled_from(INFOS),
    threshold=st.sampled_from([None, 0.5]),
    n=st.integers(1, 4),
    status=st.sampled_from([200, 200, 200, 500]),
)
def test_every_answer_is_read_or_refused(text, kind, labels, scores, success, info, threshold, n, status):
    reader = Reader(Response(kind=kind, labels=labels, scores=scores, success=success), info, threshold)
    try:
        answers = reader.read(Answer(status, text), n)
    except ModelAnswerError as error:
        assert str(error)
        assert len(str(error)) < 2000
        return
    assert len(answers) == len(answers.errors) == n
    for label, reason in zip(answers.labels, answers.errors, strict=True):
        assert (label is None) == bool(reason)
        if label is not None:
            json.dumps(label, allow_nan=False).encode()
            assert isinstance(label, (str, int, float, bool))
            assert info.classes is None or any(type(one) is type(label) and one == label for one in info.classes)
    if answers.scores is not None:
        usable = answers.errors == np.array(None)
        assert np.isfinite(answers.scores[usable]).all()


@given(st.lists(st.text("ab", max_size=2), min_size=1, max_size=4))
def test_a_key_is_refused_where_it_stands_twice(keys):
    text = "{" + ",".join(f"{json.dumps(key)}: 1" for key in keys) + "}"
    if len(set(keys)) == len(keys):
        assert parsed_json(text) == dict.fromkeys(keys, 1)
        return
    with pytest.raises(ModelAnswerError) as caught:
        parsed_json(text)
    assert any(f"got the key {key!r} twice" in str(caught.value) for key in keys if keys.count(key) > 1)


def test_a_key_that_stands_twice_among_very_many_is_found():
    with pytest.raises(ModelAnswerError, match="the key 'last' twice"):
        parsed_json("{" + ",".join(f'"{n}": 1' for n in range(200_000)) + ', "last": 1, "last": 2}')


def test_an_answer_that_is_read_is_not_searched_for_secrets(monkeypatch):
    def fail(text):
        raise AssertionError("a good answer was quoted")

    monkeypatch.setattr(responses, "excerpt", fail)
    reader = Reader(Response(kind="json", labels="a", scores="s", success="ok"), INFOS[1], None)
    assert reader.read(Answer(200, '{"a": ["no"], "s": [0.25], "ok": true}'), 1).labels.tolist() == ["no"]


@given(st.lists(JSON_TEXTS | st.text(max_size=20), max_size=5))
def test_messages_become_one_json_list(messages):
    made = json.loads(messages_json(json.dumps(messages)))
    assert len(made) == len(messages)


CELLS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(
    ["${T_KEY}", "{{ rows }}", "{% if %}", 'say "x"', "a\nb", "\\", "</script>", "\u2028", "\x00", "'", ","]
)


def card(model_type, request):
    endpoint = {"url": "http://h/", "request": request, "response": {"labels": "l"}}
    return load_card_data({"name": "m", "type": model_type, "endpoint": endpoint}, ".").card


TABLE = card(
    "tabular-classifier",
    '{"f": {{ fields|tojson }}, "r": {{ rows|tojson }}, "o": {{ records|tojson }}, "x": {{ flat|tojson }}}',
)
TEXT = card("text-classifier", '{"t": {{ texts|tojson }}}')
TALK = card("conversation-classifier", '{"t": {{ turns|tojson }}, "x": {{ text|tojson }}}')


def sent(model_card, inputs):
    template = Template(model_card.endpoint.request)
    body = template.body(Payload(model_card, inputs, template.uses).variables, quoting_for("json", None))
    return json.loads(body)


@given(st.lists(st.tuples(CELLS | TEXTS, CELLS | TEXTS), min_size=1, max_size=4))
def test_cells_arrive_as_they_are(rows):
    frame = pd.DataFrame({name: pd.Series([row[n] for row in rows], dtype=object) for n, name in enumerate(['a"', "{{ b }}"])})
    body = sent(TABLE, frame)
    fields = ['a"', "{{ b }}"]
    assert body["f"] == fields
    assert body["r"] == [list(row) for row in rows]
    assert body["o"] == [dict(zip(fields, row, strict=True)) for row in rows]
    assert body["x"] == [cell for row in rows for cell in row]


@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_texts_and_turns_arrive_as_they_are(texts):
    assert sent(TEXT, texts) == {"t": texts}
    turns = [{"role": "user" if n % 2 == 0 else "assistant", "text": text} for n, text in enumerate(texts)]
    kept = turns[: len(turns) - (len(turns) % 2 == 0)]
    assert sent(TALK, [turns]) == {"t": kept, "x": kept[-1]["text"]}


@given(st.integers(1, 3).flatmap(lambda n: st.lists(st.lists(CELLS | TEXTS, min_size=n, max_size=n), min_size=1, max_size=4)))
def test_csv_comes_back(rows):
    back = list(csv.reader(io.StringIO(to_csv(rows), newline="")))
    assert back == [[_written(cell) for cell in row] for row in rows]


def _written(cell):
    if cell is None:
        return ""
    return str(cell).lower() if isinstance(cell, bool) else str(cell)


PIECES = st.sampled_from(
    [
        "{{ ",
        " }} ",
        "{% ",
        " %} ",
        "for r in rows",
        "endfor",
        "if n",
        "endif",
        "rows",
        "fields",
        "n",
        "[0]",
        "(",
        ")",
        "range(",
        "9",
        "*",
        "~",
        "+",
        ".x",
        "'a'",
        '"',
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "set x = ",
        "x",
        "%d\n    ",
        "macro f()",
        "endmacro",
        "model.name",
        "login.token",
        "is defined",
        "loop.index",
        "{#",
        "#}",
        "${T_KEY}",
    ]
) | st.sampled_from(["|tojson", "|csv", "|join", "|format(1)", "|map('upper')", "|sum", "|batch(2)", "|length"])
SOURCES = st.lists(PIECES, max_size=12).map("".join) | st.text(st.sampled_from("{}%# rown|tojs[]()'\"*9"), max_size=30)
PLACE = Place(
    "a tabular model",
    {**input_names("tabular-classifier"), "model": ["name"], "login": ["token"]},
    stand_ins("tabular-classifier", ("a", "b")),
)
FRAME = pd.DataFrame({"a": [1, 2], "b": ["x", None]})


@settings(max_examples=300, deadline=None)
@given(SOURCES, st.booleans())
def test_every_template_is_refused_when_it_is_read_or_fails_as_an_answer_does(source, as_json):
    problem = template_problem(source, PLACE, as_json=as_json)
    if problem is not None:
        assert problem.strip()
        return
    template = Template(source.replace("${T_KEY}", ""))
    values = Payload(TABLE, FRAME, template.uses).variables | {"model": {"name": "m"}, "login": {"token": "t"}}
    try:
        assert isinstance(template.body(values, str), bytes)
    except ModelAnswerError as error:
        assert str(error)


@given(st.lists(st.floats(-1, 1, width=32), max_size=50))
def test_clips_keep_their_samples_to_half_a_step(samples):
    clip = Clip(np.array(samples, dtype=np.float32), 16000)
    back = np.frombuffer(pcm_bytes(clip), "<i2")
    assert len(back) == len(samples)
    assert all(abs(int(one) / 32768 - value) <= 1 / 32768 for one, value in zip(back, samples, strict=True))
    again = pcm_bytes(Clip(back.astype(np.float32) / 32768, 16000))
    assert np.array_equal(np.frombuffer(again, "<i2"), back)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_clip_that_is_not_finite_fails(value):
    with pytest.raises(ModelAnswerError, match="not finite"):
        pcm_bytes(Clip(np.array([value], dtype=np.float32), 16000))
