"""Request templates: the sandbox, the variables, and JSON that is always valid."""

from __future__ import annotations

import datetime
import json
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitest_lib.config.card import load_card_data
from aitest_lib.config.sandbox import Sandbox, TemplateLimitError, to_csv, to_json
from aitest_lib.config.templates import MAX_LENGTH, Place, input_names, stand_ins, template_problem, used_paths
from aitest_lib.errors import ModelAnswerError
from aitest_lib.models.endpoint.payloads import Payload, plain_rows
from aitest_lib.models.endpoint.templates import Template, quoting_for

FRAME = pd.DataFrame({"a": [1, 2], "b": ["x", None]})
CARD = load_card_data(
    {
        "name": "m",
        "type": "tabular-classifier",
        "endpoint": {"url": "http://h/", "request": "{{ rows|tojson }}", "response": {"labels": "l"}},
    },
    ".",
).card


def rendered(source: str, frame: pd.DataFrame = FRAME) -> str:
    template = Template(source)
    values = Payload(CARD, frame, template.uses).variables | {"model": {"name": "m", "version": "4"}}
    return template.body(values, quoting_for("json", None)).decode()


def problem(source: str, columns: tuple[str, ...] | None = None, model_type: str = "tabular-classifier") -> str | None:
    names = {"model": ["name", "version"], **input_names(model_type), "login": ["token"], "call": None}
    place = Place("a tabular model", names, stand_ins(model_type, columns))
    return template_problem(source, place, as_json=True)


def test_every_variable():
    source = (
        '{"f": {{ fields|tojson }}, "r": {{ rows|tojson }}, "o": {{ records|tojson }}, "x": {{ flat|tojson }}, '
        '"n": {{ n }}, "m": "{{ model.name }}/{{ model.version }}"}'
    )
    assert problem(source) is None
    assert json.loads(rendered(source)) == {
        "f": ["a", "b"],
        "r": [[1, "x"], [2, None]],
        "o": [{"a": 1, "b": "x"}, {"a": 2, "b": None}],
        "x": [1, "x", 2, None],
        "n": 2,
        "m": "m/4",
    }


def test_records_keep_the_order_of_the_columns():
    frame = pd.DataFrame({"z": [1], "a": [2]})
    assert rendered("{{ records|tojson }}", frame) == '[{"z": 1, "a": 2}]'


def test_a_loop_and_a_shape():
    source = '{"shape": [{{ rows|length }}, {{ fields|length }}], '
    source += '"x": [{% for r in rows %}{{ r[0] }}{{ "," if not loop.last }}{% endfor %}]}'
    assert problem(source) is None
    assert json.loads(rendered(source)) == {"shape": [2, 2], "x": [1, 2]}


@pytest.mark.parametrize(
    "source",
    [
        "{{ rows.__class__.__mro__ }}",
        "{{ ''.__class__.__init__.__globals__ }}{{ rows }}",
        "{{ rows.append(1) }}",
        "{% for i in range(10**9) %}{% endfor %}{{ rows }}",
        "{{ rows[0].__init__ }}",
        "{% include 'x' %}{{ rows }}",
    ],
)
def test_the_sandbox_holds(source):
    with pytest.raises(ModelAnswerError, match="cannot be made from these inputs"):
        rendered(source)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("x" * (MAX_LENGTH + 1), "expected at most 65536"),
        ("{{ rows|nosuchfilter }}", "nosuchfilter"),
        ("{% for r in rows %}", "not a valid template"),
        ("{{ rows|tojson }}{{ token }}", "unknown template variable token; allowed for a tabular model: fields, rows"),
        ("{{ rows|tojson }}{{ login.id }}", "unknown template variable login.id"),
        ("{{ rows|tojson }}{{ login['id'] }}", "unknown template variable login.id"),
        ("{{ rows|tojson }}{% include 'x' %}", "stands alone"),
        ('{"rows": "{{ rows|tojson }}"}', "does not make valid JSON"),
        ("[{{ rows[0][0]|tojson }},]", "does not make valid JSON"),
    ],
)
def test_problems(source, said):
    assert said in problem(source)


def test_a_step_value_may_be_called_upon():
    source = '{"r": {{ rows|tojson }}, "t": {{ login.get("token")|tojson }}, "c": {{ call.anything[0]|tojson }}}'
    assert problem(source) is None
    assert used_paths("{{ login.token }}{{ call['a'].b }}{{ rows[n] }}") >= {("login", "token"), ("call", "a", "b"), ("n",)}


def test_text_must_be_escaped():
    assert "does not make valid JSON" in problem('{"t": "{{ text }}"}', model_type="text-classifier")
    assert problem('{"t": {{ text|tojson }}}', model_type="text-classifier") is None


ENDLESS = [
    "{% for a in range(99999) %}{% for b in range(99999) %}{{ rows }}{% endfor %}{% endfor %}",
    "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}{{ rows }}",
    "{% set ns = namespace(x='a') %}{% for i in range(90) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ rows }}",
    "{% set ns = namespace(x='a') %}{% for i in range(90) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ rows }}",
    "{% set ns = namespace(x=3) %}{% for i in range(90) %}{% set ns.x = ns.x * ns.x %}{% endfor %}{{ rows }}",
    "{{ rows }}{{ 9 ** (9 ** 9) }}",
    "{{ rows }}{{ 'x' * 10 ** 12 }}",
    "{{ rows }}{{ [1] * 10 ** 12 }}",
    "{{ rows }}{{ 'x'|center(10 ** 12) }}",
    "{{ rows }}{{ 'x'.rjust(10 ** 12) }}",
    "{{ rows }}{{ '%999999999999d'|format(1) }}",
    "{{ rows }}{{ '%999999999999d' % 1 }}",
    "{{ rows }}{{ '{:999999999999}'.format(1) }}",
    "{{ rows }}{{ '{:{}}'.format(1, 10 ** 12) }}",
    "{{ rows|batch(10 ** 12, 0)|list }}",
]


@pytest.mark.parametrize("source", ENDLESS)
def test_a_template_that_would_never_end_is_refused_at_once(source):
    assert re.search("too many steps|larger than|without `\\*`", problem(source))


def test_loops_keep_what_they_know_of_themselves():
    source = "{% for r in rows %}{{ loop.index }}/{{ loop.length }}{{ ';' if not loop.last }}{% else %}none{% endfor %}"
    assert rendered(source) == "1/2;2/2"
    assert rendered(source.replace("rows", "[]")) == "none"
    assert rendered("{% for a, b in rows if b %}{{ a ~ b }}{% endfor %}{{ '%.2f'|format(1.5) }}") == "1x1.50"
    with pytest.raises(TemplateLimitError, match="too many steps"):
        sandbox = Sandbox()
        sandbox.rendered(sandbox.from_string("{% for r in rows %}{% endfor %}"), {"rows": range(11)}, steps=10)


def test_csv():
    rows = [[1, 'say "a, b"'], [None, "two\nlines"], [True, datetime.date(2024, 1, 2)]]
    assert to_csv(rows) == '1,"say ""a, b"""\n,"two\nlines"\ntrue,2024-01-02'
    assert to_csv(["a", "b,c"]) == 'a,"b,c"'
    assert to_csv([["\r", " a "], [None, None]]) == '"\r", a \n,'
    assert to_csv([[None], [None]]) == '""\n""'
    assert to_csv([]) == ""


@pytest.mark.parametrize("value", [float("nan"), float("inf"), b"bytes", [1]])
def test_what_is_no_cell_raises(value):
    with pytest.raises(ValueError, match="expected"):
        to_csv([[value], [1]])


def test_secrets_in_bodies_and_lines(monkeypatch):
    monkeypatch.setenv("T_KEY", 'a"b{{ n }}')
    template = Template('{"k": "${T_KEY}", "t": {{ t|tojson }}}')
    assert json.loads(template.body({"t": "${T_KEY}"}, quoting_for("json", None))) == {"k": 'a"b{{ n }}', "t": "${T_KEY}"}
    assert Template("x-${T_KEY}-{{ t }}").line({"t": 1}, "the header") == "x-${T_KEY}-1"
    assert Template("x-${T_KEY}").line({}, "the header") == "x-${T_KEY}"
    for value in ("${T_KEY}", "{T_KEY}", "a\nb", "\x7f"):
        with pytest.raises(ModelAnswerError, match="the header cannot be made"):
            Template("${{ t }}").line({"t": value}, "the header")


def test_a_template_that_needs_real_columns_is_not_judged_by_stand_ins():
    assert problem('{"age": {{ records[0].age|tojson }}}') is None
    assert problem('{"age": {{ records[0].age }}', ("age",)).startswith("does not make valid JSON")


def test_scalars_of_numpy_and_pandas():
    values = [np.int64(3), np.float32(0.5), np.bool_(True), pd.Timestamp("2024-01-02"), datetime.date(2024, 1, 2)]
    assert to_json([*values, np.arange(2)]) == '[3, 0.5, true, "2024-01-02T00:00:00", "2024-01-02", [0, 1]]'


@pytest.mark.parametrize("value", [float("nan"), float("inf"), b"bytes", object()])
def test_what_is_no_json_raises(value):
    with pytest.raises(ValueError, match=r"JSON|expected text"):
        to_json([value])


def test_missing_values_of_every_kind_are_null():
    frame = pd.DataFrame(
        {
            "f": [np.nan],
            "s": pd.Series([None], dtype="str"),
            "t": [pd.NaT],
            "i": pd.array([None], dtype="Int64"),
            "c": pd.Categorical([None], categories=["x"]),
            "o": pd.Series([None], dtype=object),
        }
    )
    assert plain_rows(frame) == [[None] * 6]


CELLS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | st.text()


@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=5))
def test_cells_come_back_as_they_were(rows):
    frame = pd.DataFrame({name: pd.Series([row[n] for row in rows], dtype=object) for n, name in enumerate("ab")})
    assert json.loads(rendered("{{ rows|tojson }}", frame)) == [list(row) for row in rows]
