"""Cards as people really write them: each mistake has one message that names file, line, key and mend."""

from __future__ import annotations

import pytest

from aitest_lib.config.card import load_card
from aitest_lib.errors import InputError

CARD = """\
name: credit
type: tabular-classifier
classes: ["declined", "approved"]
inputs:
  columns: [age, income]
endpoint:
  url: http://127.0.0.1:8080/score
  auth: {type: bearer, token: "${TOKEN}"}
  request: '{"rows": {{ rows|tojson }}}'
  response:
    labels: predictions[*].label
"""

# what was done: (line of CARD that is replaced, 0: the card as a whole; text), (line, key, part of the mend)
MISTAKES = {
    "misspelt key": ((6, "endpont:"), (6, "endpont", "did you mean endpoint")),
    "misspelt key inside": ((7, "  ulr: http://127.0.0.1:8080/score"), (7, "endpoint.ulr", "did you mean url")),
    "a key of the endpoint at the top": ((1, "name: credit\nbatch_size: 16"), (2, "batch_size", "endpoint.batch_size")),
    "the response at the top": (
        (10, "response:\n  labels: predictions[*].label\ninfo:"),
        (10, "response", "endpoint.response"),
    ),
    "labels beside the response": (
        (10, "  labels: predictions[*].label\n  response:"),
        (10, "endpoint.labels", "response.labels"),
    ),
    "no backend": ((0, "name: credit\ntype: tabular-classifier\n"), (1, "", "exactly one backend of endpoint")),
    "two backends": ((1, "name: credit\npython: {callable: m:f}"), (1, "", "got endpoint and python, expected exactly one")),
    "missing name": ((1, "revision: '1'"), (1, "name", "missing")),
    "a name with blanks": ((1, "name: Credit model (v2)"), (1, "name", "a slug")),
    "type of another tool": ((2, "type: classification"), (2, "type", "tabular-classifier")),
    "type with an underscore": ((2, "type: tabular_classifier"), (2, "type", "did you mean tabular-classifier")),
    "classes as text": ((3, 'classes: "declined, approved"'), (3, "classes", "a list")),
    "classes as a mapping": ((3, "classes: {0: declined, 1: approved}"), (3, "classes", "in quotes")),
    "one class": ((3, "classes: [approved]"), (3, "classes", "at least 2")),
    "columns as text": ((5, "  columns: age, income"), (5, "inputs.columns", "a list")),
    "a column twice": ((5, "  columns: [age, age]"), (5, "inputs.columns", "once")),
    "missing scheme": ((7, "  url: 127.0.0.1:8080/score"), (7, "endpoint.url", "http://")),
    "host without a scheme": ((7, "  url: localhost:8080/score"), (7, "endpoint.url", "http://")),
    "a scheme of another protocol": ((7, "  url: grpc://127.0.0.1:8080"), (7, "endpoint.url", "http://")),
    "websocket address for a JSON body": ((7, "  url: ws://127.0.0.1:8080/"), (7, "endpoint.url", "body: websocket")),
    "a port that is none": ((7, "  url: http://127.0.0.1:eight/"), (7, "endpoint.url", "not a valid URL")),
    "method GET": ((7, "  url: http://127.0.0.1:8080/score\n  method: GET"), (8, "endpoint.method", "POST")),
    "a literal secret": ((8, "  auth: {type: bearer, token: abcdef123456}"), (8, "endpoint.auth.token", "${NAME}")),
    "a literal secret in a header": (
        (8, "  headers: {Authorization: Bearer abcdef123456}"),
        (8, "endpoint.headers.Authorization", "${NAME}"),
    ),
    "a literal secret in the address": ((7, "  url: http://h/score?api_key=abcdef123456"), (7, "endpoint.url", "${NAME}")),
    "a shell reference": ((8, "  auth: {type: bearer, token: $TOKEN}"), (8, "endpoint.auth.token", "${NAME}")),
    "auth without a type": ((8, '  auth: {token: "${TOKEN}"}'), (8, "endpoint.auth", "type")),
    "auth of another name": ((8, '  auth: {type: token, token: "${TOKEN}"}'), (8, "endpoint.auth", "bearer")),
    "auth as text": ((8, "  auth: bearer"), (8, "endpoint.auth", "mapping")),
    "JSON instead of a text": ((9, "  request: {rows: rows}"), (9, "endpoint.request", "quotes")),
    "a template that forgot its quotes": ((9, "  request: {{ rows|tojson }}"), (9, "", "quotes")),
    "values in quotes of their own": (
        (9, """  request: '{"rows": "{{ rows|tojson }}"}'"""),
        (9, "endpoint.request", "valid JSON"),
    ),
    "a value that is not JSON": (
        (9, """  request: '{"rows": {{ rows }}, "f": {{ fields }}}'"""),
        (9, "endpoint.request", "tojson"),
    ),
    "a variable of another type": ((9, """  request: '{"t": {{ texts|tojson }}}'"""), (9, "endpoint.request", "fields, rows")),
    "no input in the template": ((9, """  request: '{"n": {{ n }}}'"""), (9, "endpoint.request", "rows|tojson")),
    "a template that does not close": ((9, """  request: '{"rows": {{ rows|tojson }'"""), (9, "endpoint.request", "template")),
    "bytes as the request": ((9, "  request: !!binary aGVsbG8="), (9, "endpoint.request", "text")),
    "JSONPath instead of JMESPath": ((11, "    labels: $.predictions[*].label"), (11, "endpoint.response.labels", "JMESPath")),
    "a key with a dash": ((11, "    labels: my-labels"), (11, "endpoint.response.labels", "double quotes")),
    "an empty response": ((11, "    {}"), (10, "endpoint.response", "labels")),
    "a batch of none": ((10, "  batch_size: 0\n  response:"), (10, "endpoint.batch_size", "at least 1")),
    "a number in words": ((10, "  timeout_s: 30s\n  response:"), (10, "endpoint.timeout_s", "a number")),
    "brackets without an end": ((0, "x: " + "[" * 3000), (None, "", "nested too deeply")),
    "tabs": ((9, "\trequest: x"), (9, "", "tab")),
    "a key twice": ((7, "  url: http://h/a\n  url: http://h/b"), (8, "endpoint.url", "twice")),
    "a model of MLflow without models:/": (
        (0, "name: m\ntype: tabular-classifier\nmlflow: credit/3\n"),
        (3, "mlflow", "models:/"),
    ),
    "a callable without a module": (
        (0, "name: m\ntype: tabular-classifier\npython: {callable: predict}\n"),
        (3, "python.callable", "package.module:name"),
    ),
    "python as text": ((0, "name: m\ntype: tabular-classifier\npython: model.py\n"), (3, "python", "a mapping")),
    "an ONNX file that is not there": ((0, "name: m\ntype: tabular-classifier\nonnx: no.onnx\n"), (3, "onnx", "no.onnx")),
    "answers that are not there": (
        (0, "name: m\ntype: tabular-classifier\npredictions: no.csv\n"),
        (3, "predictions", "give a Parquet or CSV file"),
    ),
    "an empty file": ((0, ""), (None, "", "empty")),
    "a list": ((0, "- name: credit\n"), (1, "", "a mapping")),
    "JSON of another kind of card": ((0, "model_details: {name: x}\n"), (1, "model_details", "unknown key")),
}


def written(change):
    line, text = change
    if line == 0:
        return text
    lines = CARD.splitlines()
    lines[line - 1] = text
    return "\n".join(lines) + "\n"


def test_the_card_that_they_spoil_is_good(tmp_path):
    path = tmp_path / "card.yaml"
    path.write_text(CARD)
    assert load_card(path).card.name == "credit"


@pytest.mark.parametrize(("change", "told"), MISTAKES.values(), ids=MISTAKES)
def test_every_mistake_has_a_message_with_file_line_key_and_mend(tmp_path, change, told):
    path = tmp_path / "card.yaml"
    path.write_text(written(change))
    line, key, mend = told
    with pytest.raises(InputError) as caught:
        load_card(path)
    message = str(caught.value)
    assert message.count("\n") < 3
    assert "card.yaml" in message
    if line is not None:
        assert f"card.yaml:{line}: " in message
    assert key in message
    assert mend in message
    assert "abcdef123456" not in message
