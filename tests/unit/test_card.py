"""The model card: what is accepted, what is refused and how, and what the digest covers."""

from __future__ import annotations

import copy

import pandas as pd
import pytest
import yaml

from aitest_lib.config.card import load_card, load_card_data, model_info
from aitest_lib.errors import InputError

CARD = {
    "name": "adult-gbm",
    "type": "tabular-classifier",
    "classes": ["<=50K", ">50K"],
    "inputs": {"columns": ["age", "sex"]},
    "endpoint": {
        "url": "http://127.0.0.1:8080/score",
        "auth": {"type": "bearer", "token": "${ADULT_TOKEN}"},
        "request": '{"rows": {{ rows|tojson }}}',
        "response": {"labels": "predictions[*].label"},
    },
}


def changed(path: str, value, base=CARD):
    card = copy.deepcopy(base)
    *parents, key = path.split("/")
    at = card
    for parent in parents:
        at = at[parent]
    if value is None:
        del at[key]
    else:
        at[key] = value
    return card


def test_defaults():
    endpoint = load_card_data(CARD, ".").card.endpoint
    assert (endpoint.method, endpoint.batch_size, endpoint.concurrency) == ("POST", 256, 8)
    assert (endpoint.rate_per_s, endpoint.timeout_s, endpoint.retries) == (None, 30, 5)


def test_from_a_file(tmp_path):
    path = tmp_path / "model.yaml"
    path.write_text(yaml.safe_dump(CARD, sort_keys=False))
    loaded = load_card(path)
    assert (loaded.path, loaded.base_dir, loaded.raw) == (path, tmp_path, CARD)
    assert loaded.digest == load_card_data(CARD, "/elsewhere").digest
    path.write_text(yaml.safe_dump(changed("endpoint/response/labels", "a-b[*]"), sort_keys=False))
    with pytest.raises(
        InputError,
        match=r"model.yaml:17: endpoint.response.labels: not a valid JMESPath expression: Unknown token '-'; .*double quotes",
    ):
        load_card(path)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("name", "adult gbm", "name: got 'adult gbm', expected letters"),
        ("type", "tabular-clasifier", "type: unknown value 'tabular-clasifier'; did you mean tabular-classifier"),
        ("classes", ["a"], "classes: got ['a'], expected at least 2 different classes"),
        ("classes", ["a", "a"], "expected at least 2 different classes"),
        ("classes", ["a", ["b"]], "classes[1]: got a list of 1, expected true or false or a whole number or a number or text"),
        ("decision", {"threshold": 1.5}, "decision.threshold: got 1.5, expected at most 1"),
        ("decision", {"threshold": 0.5}, "decision: the model answers labels"),
        ("inputs/columns", ["age", "age"], "inputs.columns: expected at least one column, each named once"),
        ("inputs/colums", ["age"], "inputs.colums: unknown key 'colums'; did you mean columns?"),
        ("mlflow", "models:/x", "got endpoint and mlflow, expected exactly one backend of endpoint, mlflow, python"),
        ("predictions", "p.csv", "got endpoint and predictions, expected exactly one backend of endpoint, mlflow, python"),
        ("endpoint", None, "got none, expected exactly one backend"),
        ("endpoint/url", "127.0.0.1:8080", "endpoint.url: got '127.0.0.1:8080', expected http:// or https://"),
        ("endpoint/url", "http:///score", "expected http:// or https:// and a host"),
        ("endpoint/url", "http://h:99999/", "not a valid URL"),
        ("endpoint/url", "http://me:pw@h/", "a secret must be a reference"),
        ("endpoint/body", "form", "endpoint.body: unknown value 'form'; known: json, multipart, raw, websocket"),
        ("endpoint/batch_size", 0, "endpoint.batch_size: got 0, expected at least 1"),
        ("endpoint/retries", True, "endpoint.retries: got true, expected a whole number"),
        ("endpoint/response/kind", "xml", "endpoint.response.kind: unknown value 'xml'; known: csv, json, json-in-json, text"),
        ("endpoint/response", {}, "endpoint.response: expected `labels`, `scores`, or both"),
        ("endpoint/auth/type", "digest", "endpoint.auth: unknown type 'digest'; known: api-key, basic, bearer, oauth2, sigv4"),
        ("endpoint/auth/tokn", "x", "unknown key 'tokn'; did you mean token?"),
        ("endpoint/headers", {"Authorization": "Bearer abc"}, "endpoint.headers.Authorization: a secret must be a reference"),
        ("endpoint/request", "{{ rows }", "endpoint.request: not a valid template"),
        (
            "endpoint/request",
            "{{ texts|tojson }}",
            "unknown template variable texts; allowed for a tabular model: fields, rows",
        ),
        ("endpoint/request", '{"n": {{ n }}}', "uses none of rows, records, flat"),
        ("endpoint/request", "{{ rows|tojson }}{{ model.nme }}", "unknown template variable model.nme"),
        ("endpoint/request", '{"rows": {{ rows|tojson }}', "does not make valid JSON"),
    ],
)
def test_refused(path, value, said):
    with pytest.raises(InputError) as caught:
        load_card_data(changed(path, value), ".")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "auth",
    [
        {"type": "bearer", "token": "s3cret-literal"},
        {"type": "basic", "username": "me", "password": "s3cret-literal"},
        {"type": "api-key", "key": "s3cret-literal"},
        {"type": "bearer", "token": ["s3cret-literal"]},
        "s3cret-literal",
    ],
)
def test_a_literal_secret_is_refused_and_not_shown(auth):
    with pytest.raises(InputError, match=r"endpoint\.auth.*(write \$\{NAME\}|not shown)") as caught:
        load_card_data(changed("endpoint/auth", auth), ".")
    assert "s3cret" not in str(caught.value)


def test_regressors_have_no_classes():
    base = changed("type", "tabular-regressor", changed("classes", None))
    assert load_card_data(base, ".").card.type == "tabular-regressor"
    for path, value in [("classes", [1, 2]), ("decision", {"threshold": 0.5}), ("endpoint/response/scores", "s")]:
        with pytest.raises(InputError, match="a regressor"):
            load_card_data(changed(path, value, base), ".")


def test_classes_keep_their_json_types():
    classes = load_card_data(changed("classes", [0, 1.5, "a", True]), ".").card.classes
    assert [type(label) for label in classes] == [int, float, str, bool]


def test_the_digest_covers_what_the_model_is(tmp_path):
    digest = load_card_data(CARD, ".").digest
    same = {"info": {"owner": "x"}, "endpoint/concurrency": 3, "endpoint/rate_per_s": 5.0, "endpoint/timeout_s": 9}
    for path, value in {**same, "endpoint/retries": 0}.items():
        assert load_card_data(changed(path, value), ".").digest == digest, path
    other = {"revision": "2", "endpoint/url": "http://h/", "endpoint/batch_size": 5, "classes": ["a", "b"]}
    assert len({digest, *(load_card_data(changed(path, value), ".").digest for path, value in other.items())}) == 5


def test_the_digest_covers_files_behind_the_card(tmp_path):
    python = {"name": "m", "type": "tabular-classifier", "python": {"callable": "pkg.models:f", "path": ["src"]}}
    unseen = load_card_data(python, tmp_path).digest
    (tmp_path / "src/pkg").mkdir(parents=True)
    source = tmp_path / "src/pkg/models.py"
    digests = {unseen}
    for text in ("f = 1", "f = 2"):
        source.write_text(text)
        digests.add(load_card_data(python, tmp_path).digest)
    assert len(digests) == 3
    answers = {"name": "m", "type": "tabular-classifier", "predictions": "p.csv"}
    with pytest.raises(InputError, match=r"predictions: p.csv cannot be read"):
        load_card_data(answers, tmp_path)
    pd.DataFrame({"prediction": ["a"]}).to_csv(tmp_path / "p.csv", index=False)
    first = load_card_data(answers, tmp_path).digest
    pd.DataFrame({"prediction": ["b"]}).to_csv(tmp_path / "p.csv", index=False)
    assert load_card_data(answers, tmp_path).digest != first


def test_callable_must_name_module_and_object():
    with pytest.raises(InputError, match=r"python.callable: got 'pkg.models', expected package.module:name"):
        load_card_data({"name": "m", "type": "tabular-classifier", "python": {"callable": "pkg.models"}}, ".")


def test_model_info():
    info = model_info(load_card_data(CARD, "."), "3")
    assert (info.name, info.version, info.classes, info.reusable) == ("adult-gbm", "3", ("<=50K", ">50K"), False)
    assert model_info(load_card_data(changed("revision", "r1"), ".")).reusable
    unquoted = yaml.safe_load("revision: 2026-11-29")["revision"]
    assert load_card_data(changed("revision", unquoted), ".").card.revision == "2026-11-29"
