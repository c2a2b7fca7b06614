"""Starting files: whatever the curl command and the data look like, the YAML loads and holds no secret."""

from __future__ import annotations

import base64
import json
import re
import shlex
from pathlib import Path
from typing import Any

import jmespath
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from aitest_lib.config.card import load_card
from aitest_lib.config.sandbox import Sandbox
from aitest_lib.config.start import (
    CurlRequest,
    card_like,
    guess_classes,
    guess_protected,
    guess_type,
    parse_curl,
    slug,
    starting_card,
    starting_suite,
)
from aitest_lib.config.suite import load_suite
from aitest_lib.data.schema import build_profile
from aitest_lib.data.table import TableSource
from aitest_lib.errors import InputError
from aitest_lib.properties.catalog import specs_for

COLUMNS = ["age", "job", "hours"]
SECRET = "s3cr3t-Value/+=9"


def curl_for(body: Any, *extra: str, url: str = "http://localhost:8080/score") -> str:
    return shlex.join(["curl", "-X", "POST", url, "-H", "Content-Type: application/json", "-d", json.dumps(body), *extra])


def card_of(text: str, tmp_path: Path) -> Any:
    path = tmp_path / "card.yaml"
    path.write_text(text, "utf-8")
    return load_card(path).card


def rendered(request: str, rows: list[list[Any]], fields: list[str]) -> Any:
    records = [dict(zip(fields, row, strict=True)) for row in rows]
    flat = [cell for row in rows for cell in row]
    return json.loads(Sandbox().from_string(request).render(fields=fields, rows=rows, records=records, flat=flat, n=len(rows)))


RECORD = {"age": 39, "job": "clerk", "hours": 40}
ROW = [39, "clerk", 40]


@pytest.mark.parametrize(
    ("body", "labels", "batch"),
    [
        ([RECORD], "@", 256),
        ({"instances": [RECORD]}, "predictions", 256),
        ({"instances": [ROW, ROW]}, "predictions", 256),
        ({"inputs": [RECORD], "params": {"raw": True}}, "predictions", 256),
        ({"dataframe_split": {"columns": COLUMNS, "data": [ROW]}}, "predictions", 256),
        ({"dataframe_records": [RECORD]}, "predictions", 256),
        ({"input_data": [{"fields": COLUMNS, "values": [ROW]}]}, "predictions[0].values[*][0]", 256),
        ({"input_data": {"columns": COLUMNS, "data": [ROW]}}, "@", 256),
        ({"data": [ROW]}, "predictions", 256),
        ({"data": {"names": COLUMNS, "ndarray": [ROW]}}, "data.ndarray", 256),
        ({"inputs": [{"name": "x", "shape": [1, 3], "datatype": "FP32", "data": ROW}]}, "outputs[0].data", 256),
        ({"input_df": [RECORD]}, "@", 256),
        (RECORD, "prediction", 1),
        ({"features": RECORD}, "prediction", 1),
        ({"features": ROW, "model": "v2"}, "prediction", 1),
    ],
)
def test_template_makes_the_body_of_the_curl_command_again(body: Any, labels: str, batch: int, tmp_path: Path) -> None:
    text = starting_card("credit", "tabular-classifier", COLUMNS, ["no", "yes"], parse_curl(curl_for(body)))
    card = card_of(text, tmp_path)
    endpoint = card.endpoint
    assert (endpoint.response.labels, endpoint.batch_size, endpoint.url) == (labels, batch, "http://localhost:8080/score")
    jmespath.compile(labels)
    count = len(body["instances"]) if isinstance(body, dict) and "instances" in body else 1
    assert rendered(endpoint.request, [ROW] * count, list(card.inputs.columns)) == body
    assert "a guess" in text


def test_index_of_a_split_frame_is_left_out(tmp_path: Path) -> None:
    body = {"dataframe_split": {"index": [0], "columns": COLUMNS, "data": [ROW]}}
    card = card_of(starting_card("m", "tabular-regressor", COLUMNS, None, parse_curl(curl_for(body))), tmp_path)
    assert rendered(card.endpoint.request, [ROW, ROW], COLUMNS) == {"dataframe_split": {"columns": COLUMNS, "data": [ROW, ROW]}}


def test_text_that_jinja_would_take_for_its_own_survives(tmp_path: Path) -> None:
    body = {"note": "{{ x }} {% if %} {# c #} {{{", "instances": [RECORD]}
    card = card_of(starting_card("m", "tabular-classifier", COLUMNS, None, parse_curl(curl_for(body))), tmp_path)
    assert rendered(card.endpoint.request, [ROW], COLUMNS) == body


def test_columns_follow_the_curl_command_where_the_data_has_them(tmp_path: Path) -> None:
    swapped = {"hours": 40, "age": 39}
    card = card_of(starting_card("m", "tabular-classifier", COLUMNS, None, parse_curl(curl_for([swapped]))), tmp_path)
    assert card.inputs.columns == ("hours", "age")
    text = starting_card("m", "tabular-classifier", COLUMNS, None, parse_curl(curl_for([{"age": 1, "wage": 2}])))
    assert card_of(text, tmp_path).inputs.columns == tuple(COLUMNS)
    assert "which it lacks: wage" in text


def test_card_without_a_curl_command_loads(tmp_path: Path) -> None:
    card = card_of(starting_card("My model!", "tabular-classifier", COLUMNS, ["0", "1"], None), tmp_path)
    assert card.name == "My-model" and card.classes == ("0", "1") and card.endpoint.batch_size == 256


BASIC = base64.b64encode(f"ann:{SECRET}".encode()).decode()


@pytest.mark.parametrize(
    ("extra", "url", "auth"),
    [
        (["-H", f"Authorization: Bearer {SECRET}"], None, {"type": "bearer", "token": "${MODEL_TOKEN}"}),
        (["--oauth2-bearer", SECRET], None, {"type": "bearer", "token": "${MODEL_TOKEN}"}),
        (["-u", f"ann:{SECRET}"], None, {"type": "basic", "username": "ann", "password": "${MODEL_PASSWORD}"}),
        (["-H", f"Authorization: Basic {BASIC}"], None, {"type": "basic", "username": "ann", "password": "${MODEL_PASSWORD}"}),
        (["-H", f"X-Api-Key: {SECRET}"], None, {"type": "api-key", "key": "${MODEL_API_KEY}", "header": "X-Api-Key"}),
        ([], f"http://localhost/s?v=2&api_key={SECRET}", {"type": "api-key", "key": "${MODEL_API_KEY}", "query": "api_key"}),
        ([], "http://ann:s3cr3t-Value@localhost/s", {"type": "basic", "username": "ann", "password": "${MODEL_PASSWORD}"}),
        (["-H", "Authorization: Bearer $CREDIT_TOKEN"], None, {"type": "bearer", "token": "${CREDIT_TOKEN}"}),
        (["-H", f"Authorization: Token {SECRET}"], None, None),
        (["-H", f"Cookie: sid={SECRET}"], None, None),
        (["-b", f"sid={SECRET}"], None, None),
        (
            ["-H", f"Authorization: Bearer {SECRET}", "-H", f"X-Team-Token: {SECRET}"],
            None,
            {"type": "bearer", "token": "${MODEL_TOKEN}"},
        ),
    ],
)
def test_no_secret_survives(extra: list[str], url: str | None, auth: dict[str, str] | None, tmp_path: Path) -> None:
    request = parse_curl(curl_for([RECORD], *extra, url=url or "http://localhost/s"))
    assert request.auth == auth
    text = starting_card("m", "tabular-classifier", COLUMNS, ["a", "b"], request)
    assert "s3cr3t" not in f"{request!r}{text}" and BASIC not in text
    card_of(text, tmp_path)
    assert len(request.notes) >= 1 and all(note in text for note in request.notes)
    assert "environment variable" in request.notes[0]


def test_a_secret_in_the_body_becomes_a_reference(tmp_path: Path) -> None:
    request = parse_curl(curl_for({"api_key": SECRET, "instances": [RECORD]}))
    card = card_of(starting_card("m", "tabular-classifier", COLUMNS, None, request), tmp_path)
    assert "${MODEL_API_KEY}" in card.endpoint.request and "s3cr3t" not in f"{request!r}"


def test_a_pasted_multi_line_command() -> None:
    request = parse_curl(
        "$ curl -sS --compressed -XPUT \\\n  'https://example.org/a?version=1' \\\r\n"
        "  -H 'Content-Type: application/json' -H 'X-Team: risk' \\\n  --data-raw '{\"instances\": [[1, 2]]}' -o out.json"
    )
    assert request == CurlRequest(
        url="https://example.org/a?version=1", method="PUT", headers={"X-Team": "risk"}, body={"instances": [[1, 2]]}
    )


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("wget http://x", "starts with `curl`"),
        ("", "starts with `curl`"),
        ("curl 'http://x", "cannot be read"),
        ("curl -d '[[1]]'", "0 addresses"),
        ("curl http://x http://y", "2 addresses"),
        ("curl http://x -X GET", "POST or PUT"),
        ("curl http://x -F a=@b", "-F"),
        ("curl http://x -d @rows.json", "from a file"),
        ("curl http://x -d 'name=Ann Smith'", "not JSON"),
        ("curl http://x -d", "ends after -d"),
        ("curl ftp://x -d '[[1]]'", "http:// or https://"),
    ],
)
def test_what_no_card_can_express_is_one_message(command: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        parse_curl(command)
    assert "Ann" not in str(caught.value) and caught.value.exit_code == 2


@pytest.mark.parametrize("body", [{"text": {"a": [1]}}, 3, {"instances": []}, [[]]])
def test_a_body_without_rows_is_one_message(body: Any) -> None:
    with pytest.raises(InputError, match="by hand"):
        starting_card("m", "tabular-classifier", COLUMNS, None, parse_curl(curl_for(body)))


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["a", "b", None], "tabular-classifier"),
        ([True, False], "tabular-classifier"),
        (list(range(20)), "tabular-classifier"),
        (list(range(21)), "tabular-regressor"),
        ([0.0, 1.0, None], "tabular-classifier"),
        ([0.5, 1.0], "tabular-regressor"),
    ],
)
def test_type_is_guessed_from_the_label(values: list[Any], kind: str) -> None:
    assert guess_type(pd.Series(values)) == kind


def test_classes_and_protected_columns() -> None:
    assert guess_classes(pd.Series([1.0, 0.0, None])) == [0, 1]
    assert guess_classes(pd.Series(["b", "a", "b"], dtype="category")) == ["a", "b"]
    names = ["sex", "ApplicantRace", "page", "mileage", "age_group", "marital-status", "wage", "Religion"]
    assert guess_protected(names) == ["sex", "ApplicantRace", "age_group", "marital-status", "Religion"]
    assert slug("Ümläut / model 2") == "ml-ut-model-2"


def test_suite_loads_and_decides_nothing_silently(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "age": [20, 30, 41] * 10,
            "wage": [1.5, None, 3.25] * 10,
            "sex": ["F", "M", "M"] * 10,
            "town: odd # name": ["a", "b: c", "- d"] * 10,
            "ok": ["no", "yes", "no"] * 10,
        }
    )
    data = tmp_path / "rows.parquet"
    pq.write_table(pa.Table.from_pandas(frame), data)
    profile = build_profile(TableSource(str(data)), None, {}, [], {"ok"})
    text = starting_suite(
        "nightly", "card.yaml", "rows.parquet", "ok", profile, ["sex", "age"], specs_for("tabular-classifier"), ["no", "yes"]
    )
    path = tmp_path / "suite.yaml"
    path.write_text(text, "utf-8")
    suite = load_suite(path).suite
    assert suite.data.protected == {} and suite.data.favorable is None
    assert "#   sex: {}\n" in text and "# favorable: 'yes'" in text
    assert "#   age: {}  # numbers are cut at their quartiles; {cut_at: [30]} cuts elsewhere\n" in text
    assert (suite.data.columns["age"].min, suite.data.columns["age"].max) == (20, 41)
    assert (suite.data.columns["wage"].min, suite.data.columns["wage"].max) == (1.5, 3.25)
    every = [spec.name for spec in specs_for("tabular-classifier")]
    waiting = ["tabular.group_fairness", "tabular.individual_fairness", "tabular.directional"]  # for what only the user knows
    assert [item.property for item in suite.properties] == [name for name in every if name not in waiting]
    robustness = next(item for item in suite.properties if item.property == "tabular.robustness")
    assert set(robustness.gates) == {"pass_rate", "robust_accuracy_drop"} and robustness.transforms
    path.write_text(re.sub(r"(?m)^  # ", "  ", text), "utf-8")
    uncommented = load_suite(path).suite
    assert [*uncommented.data.protected] == ["sex", "age"] and uncommented.data.favorable == "yes"
    assert [item.property for item in uncommented.properties] == every
    shares = {item.property: item.min_group_share for item in uncommented.properties if item.min_group_share is not None}
    assert shares == {"tabular.group_fairness": 0.02}
    cut = re.sub(r"age: {}  # .*; ({cut_at: .*}) cuts elsewhere", r"age: \1", path.read_text("utf-8"))
    path.write_text(cut, "utf-8")
    assert load_suite(path).suite.data.protected["age"].cut_at == [30]


READY = """# A service
name: theirs
revision: "1"          # kept
type: tabular-classifier
classes: [0, 1]
decision: {threshold: 0.3}      # a remark
inputs: {columns: [a, b]}
endpoint:
  url: http://127.0.0.1/x       # name: no key of the top level
  request: '{"rows": {{ rows|tojson }}}'
  response:
    scores: scores[*][0]
"""


def test_a_copy_of_a_ready_card_keeps_what_the_data_do_not_say(tmp_path: Path) -> None:
    text = card_like(READY, "My model!", COLUMNS, "tabular-classifier", ["no: 1", "yes"])
    card = card_of(text, tmp_path)
    assert (card.name, card.inputs.columns, card.classes) == ("My-model", tuple(COLUMNS), ("no: 1", "yes"))
    assert card.decision is not None and card.endpoint.response.scores == "scores[*][0]"
    assert all(line in text.splitlines() for line in READY.splitlines() if "#" in line)
    assert card_like(READY, "theirs") == READY


def test_a_threshold_is_for_two_classes(tmp_path: Path) -> None:
    card = card_of(card_like(READY, "m", COLUMNS, "tabular-classifier", ["a", "b", "c"]), tmp_path)
    assert (card.classes, card.decision) == (("a", "b", "c"), None)
    assert (card.endpoint.response.labels, card.endpoint.response.scores) == ("scores[*][0]", None)


def test_a_regressor_answers_labels_only(tmp_path: Path) -> None:
    card = card_of(card_like(READY, "m", COLUMNS, "tabular-regressor"), tmp_path)
    assert (card.type, card.classes, card.decision) == ("tabular-regressor", None, None)
    assert (card.endpoint.response.labels, card.endpoint.response.scores) == ("scores[*][0]", None)
    both = READY.replace("decision: {threshold: 0.3}      # a remark\n", "") + "    labels: labels\n"
    card = card_of(card_like(both, "m", COLUMNS, "tabular-regressor"), tmp_path)
    assert (card.endpoint.response.labels, card.endpoint.response.scores) == ("labels", None)


def test_classes_are_put_into_a_card_without_any(tmp_path: Path) -> None:
    ready = 'name: a\ntype: tabular-regressor\ninputs: {columns: [a]}\npython: {callable: "m:f"}\n'
    card = card_of(card_like(ready, "m", COLUMNS, "tabular-classifier", [False, True]), tmp_path)
    assert (card.type, card.classes) == ("tabular-classifier", (False, True))


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
CELLS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(NAMES, min_size=2, max_size=5, unique=True),
    st.lists(st.text(max_size=6), min_size=2, max_size=4, unique=True),
    st.data(),
)
def test_any_names_and_values_make_a_card_that_loads(names: list[str], classes: list[str], data: st.DataObject) -> None:
    row = data.draw(st.lists(CELLS, min_size=len(names), max_size=len(names)))
    body = {
        data.draw(NAMES.filter(lambda key: key != "inputs")): data.draw(st.text(max_size=8)),
        "inputs": [dict(zip(names, row, strict=True))],
    }
    request = CurlRequest(url="http://localhost/s", body=body)
    made = yaml.safe_load(starting_card("m", "tabular-classifier", names, classes, request))
    assert made["inputs"]["columns"] == names and made["classes"] == classes
    assert rendered(made["endpoint"]["request"], [row], names) == body
