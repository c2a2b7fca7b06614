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
from jinja2 import Environment, StrictUndefined

from aitest_lib.config import templates
from aitest_lib.config.card import load_card_data
from aitest_lib.config.sandbox import Sandbox, to_csv, to_json
from aitest_lib.config.template_meter import TemplateLimitError
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
        "{{ rows['__class__'] }}",
        "{{ rows|map(attribute='__class__')|first }}",
        "{{ rows[0]['append'](1) }}",
        "{{ self._TemplateReference__context }}{{ rows }}",
        "{% set f = ['{:>9}']|map(attribute='format')|first %}{{ f(1) }}",
        "{% set f = '%99999999d' %}{{ f % 1 }}",
        "{% for i in range(10000000) %}{% endfor %}{{ rows }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
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
        ("{{ rows|center(9) }}", "the filter center is not available in a card's template; use one of count, csv, d, default"),
        ("{{ rows|map('center')|list }}", "the filter center is not available"),
        ("{{ rows|map('.key')|list }}", "the filter .key is not available"),
        ("{{ rows|select('even')|list }}", "the test even is not available in a card's template; use one of boolean, defined"),
        ("{{ rows|selectattr('a', 'callable')|list }}", "the test callable is not available"),
        ("{{ rows is sameas(rows) }}", "the test sameas is not available"),
        ("{{ rows|tojson(indent=2) }}", "the filter tojson: got an unexpected keyword argument 'indent'"),
        ("{{ rows|join(', ', 'a') }}", "map(attribute=...)"),
        ("{{ rows.append(1) }}", "the method append is not available in a card's template; use a filter, or endswith"),
        ("{{ ''.format(rows) }}", "the method format is not available"),
        ("{{ rows.__class__.__mro__ }}", "the attribute __mro__ is not available"),
        ("{{ 'x' * n }}", "`*` is for numbers only"),
        ("{{ n * [rows] }}", "`*` is for numbers only"),
        ("{{ '%d' % n }}", "`%` is for numbers only"),
        ("{{ n ** n }}{{ rows }}", "`**` is not available in a card's template"),
        ("{% block b %}{{ rows }}{% endblock %}", "`block` is not available"),
        ("{% autoescape true %}{{ rows }}{% endautoescape %}", "`autoescape` is not available"),
        ("{% for r in rows recursive %}{% endfor %}", "leave `recursive` out"),
        ("{{ " + "[" * 250 + "]" * 250 + " }}{{ rows }}", "not a valid template: nested too deeply"),
        ("{% for r in rows %}" * 25 + "{% endfor %}" * 25, "not a valid template: nested too deeply"),
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


MADE = "{% set ns = namespace(t='0123456789abcdef', l=[1]) %}"
TEXT = MADE + "{% for i in range(15) %}{% set ns.t = ns.t ~ ns.t %}{% endfor %}"  # 512 KiB
LISTS = MADE + "{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}"  # written, it has 2**60 numbers
ENDLESS = [
    "{% for a in range(99999) %}{% for b in range(99999) %}{{ rows }}{% endfor %}{% endfor %}",
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}{{ rows }}",
    "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}{{ rows }}",
    MADE + "{% for i in range(90) %}{% set ns.t = ns.t ~ ns.t %}{% endfor %}{{ rows }}",
    MADE + "{% for i in range(90) %}{% set ns.t = ns.t + ns.t %}{% endfor %}{{ rows }}",
    MADE + "{% for i in range(90) %}{% set ns.l = ns.l + ns.l %}{% endfor %}{{ rows }}",
    MADE + "{% for i in range(90) %}{% set x %}{{ ns.t }}{{ ns.t }}{% endset %}{% set ns.t = x %}{% endfor %}{{ rows }}",
    "{% set ns = namespace(x=3) %}{% for i in range(90) %}{% set ns.x = ns.x * ns.x %}{% endfor %}{{ rows }}",
    "{% set ns = namespace(x=3) %}{% for i in range(9999) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ rows }}",
    TEXT + "{% for i in range(9999) %}{% set ns.l = ns.l + [ns.t ~ i] %}{% endfor %}{{ rows }}",
    TEXT + "{% for i in range(9999) %}{% set ns.l = [ns.l, ns.t[1:]] %}{% endfor %}{{ rows }}",
    TEXT + "{% for i in range(9999) %}{% set ns.l = [ns.l, ns.t|upper] %}{% endfor %}{{ rows }}",
    TEXT + "{% for i in range(9999) %}{% set ns.l = [ns.l, ns.t.upper()] %}{% endfor %}{{ rows }}",
    TEXT + "{% for i in range(9999) %}{% set ns.l = [ns.l, ns.t.split('a')] %}{% endfor %}{{ rows }}",
    TEXT + "{% for i in range(9999) %}{% set ns.l = [ns.l, ns.t|list] %}{% endfor %}{{ rows }}",
    TEXT + "{% for i in range(999) %}{{ ns.t.startswith(ns.t) }}{% endfor %}{{ rows }}",
    TEXT + "{% for i in range(999) %}{{ ns.t|trim(ns.t) }}{% endfor %}{{ rows }}",
    TEXT + "{% for i in range(999) %}{{ ns.t == ns.t }}{{ 'x' in ns.t }}{% endfor %}{{ rows }}",
    TEXT + "{{ ns.t|replace('a', ns.t) }}{{ rows }}",
    TEXT + "{{ ns.t.replace('', ns.t) }}{{ rows }}",
    TEXT + "{{ ns.t|list|join(ns.t) }}{{ rows }}",
    TEXT + "{{ ns.t.join(ns.t) }}{{ rows }}",
    "{% for i in range(5000) %}{% set x %}" + "x" * 50_000 + "{% endset %}{% endfor %}{{ rows }}",
    "{% macro m() %}" + "x" * 50_000 + "{% endmacro %}{% for i in range(5000) %}{% set x = m() %}{% endfor %}{{ rows }}",
    LISTS + "{{ ns.l }}{{ rows }}",
    LISTS + "{{ ns.l|tojson }}{{ rows }}",
    LISTS + "{{ ns.l|csv }}{{ rows }}",
    LISTS + "{{ ns.l|string }}{{ rows }}",
    LISTS + "{{ [ns.l]|join }}{{ rows }}",
    LISTS + "{{ '' ~ ns.l }}{{ rows }}",
    LISTS + "{{ {'a': ns.l}.values() }}{{ rows }}",
    LISTS + "{% set other = ns.l %}" + LISTS + "{{ other == ns.l }}{{ rows }}",
    LISTS + "{% set other = ns.l %}" + LISTS + "{{ [other]|select('eq', ns.l)|list|length }}{{ rows }}",
    LISTS.replace("[ns.l, ns.l]", "(ns.l, ns.l)") + "{{ {ns.l: 1} }}{{ rows }}",
    LISTS.replace("[ns.l, ns.l]", "(ns.l, ns.l)") + "{{ model[ns.l] }}{{ rows }}",
    LISTS.replace("[ns.l, ns.l]", "(ns.l, ns.l)") + "{{ model.get(ns.l) }}{{ rows }}",
    "{{ rows }}{{ 1.5|round(10000000, 'ceil') }}",
    "{% set ns = namespace(t='9') %}{% for i in range(14) %}{% set ns.t = ns.t ~ ns.t %}{% endfor %}{{ ns.t|int }}{{ rows }}",
]


@pytest.mark.parametrize("source", ENDLESS)
def test_a_template_that_would_never_end_is_refused_at_once(source, monkeypatch):
    monkeypatch.setattr(templates, "TRIAL_STEPS", 100_000)
    assert re.search(
        "too many steps|too many texts and lists|larger than|got a list as a key|at most 4300 digits|a precision of",
        problem(source),
    )


@pytest.mark.parametrize("text", ["x" * 40_000, "é" * 10_000])
def test_the_bytes_of_all_that_is_made_are_bounded(text):
    sandbox = Sandbox()
    template = sandbox.from_string("{% for i in range(10) %}{% set x = text|upper %}{% endfor %}")
    assert sandbox.rendered(template, {"text": text}, made=410_000) == ""
    with pytest.raises(TemplateLimitError, match="too many texts and lists"):
        sandbox.rendered(template, {"text": text}, made=390_000)


def test_a_text_has_an_end_at_the_call_too():
    with pytest.raises(ModelAnswerError, match=r"larger than 67108864 characters; .*`batch_size`"):
        rendered(TEXT + "{% for r in range(200) %}{{ ns.t }}{% endfor %}{{ rows }}")


def test_loops_keep_what_they_know_of_themselves():
    source = "{% for r in rows %}{{ loop.index }}/{{ loop.length }}{{ ';' if not loop.last }}{% else %}none{% endfor %}"
    assert rendered(source) == "1/2;2/2"
    assert rendered(source.replace("rows", "[]")) == "none"
    assert rendered("{% for a, b in rows if b %}{{ a ~ b }}{% endfor %}") == "1x"
    with pytest.raises(TemplateLimitError, match="too many steps"):
        sandbox = Sandbox()
        sandbox.rendered(sandbox.from_string("{% for r in rows %}{% endfor %}"), {"rows": range(11)}, steps=10)


@pytest.mark.parametrize(
    ("source", "made"),
    [
        ("{{ rows|map(attribute=0)|list|tojson }}{{ rows|map('first')|map('string')|join('-') }}", "[1, 2]1-2"),
        ("{{ records|map(attribute='b')|select('string')|list }}{{ records|rejectattr('b', 'none')|list|length }}", "['x']1"),
        ("{{ rows|first|last }}{{ rows|last|first }}{{ fields|count }}{{ [none, 1][0]|default('d', true) }}", "x22d"),
        (
            "{{ 2.345|round(2) }} {{ 7|round }} {{ 2.1|round(method='ceil')|int }} {{ '4.7'|int }} {{ 'x'|float(1.5) }}",
            "2.35 7 3 4 1.5",
        ),
        ("{{ ' aB '|trim|lower }}{{ 'a'|upper }}{{ 'a-b-c'|replace('-', '_', 1) }}{{ 'é/&'|urlencode }}", "abAa_b-c%C3%A9/%26"),
        ("{{ {'a b': 1}|urlencode }} {{ [('a', 'b')]|urlencode }} {{ 5|urlencode }}", "a+b=1 a=b 5"),
        (
            "{{ 'de-DE'.split('-')[0] }}{{ ', '.join(fields) }}{{ 'aab'.replace('a', 'x', 1) }}{{ ' x'.strip().upper() }}",
            "dea, bxabX",
        ),
        (
            "{{ records[0].get('a') }}{% for k, v in records[0].items() %}{{ k }}{{ v }}{% endfor %}{{ {'a': 1}|items|list }}",
            "1a1bx[('a', 1)]",
        ),
        (
            "{{ rows[0] + [3] }}{{ 'a' + 'b' }}{{ 7 % 4 }}{{ 2 * 3 - 1 }}{{ 7 // 2 }}{{ rows[1:] }}{{ 'abc'[:2] }}",
            "[1, 'x', 3]ab353[[2, None]]ab",
        ),
        ("{{ n == 2 and 'a' in fields and rows is not string and 1 < n }}{{ n is eq(2) }}", "TrueTrue"),
        ("{% set c = joiner(', ') %}{% for r in rows %}{{ c() }}{{ loop.cycle('x', 'y') }}{% endfor %}", "x, y"),
        (
            "{% filter upper %}a{{ n }}{% endfilter %}{% with x = 1 %}{{ x }}{% endwith %}{{ 'a' if n }}{{ 'b' if not n }}",
            "A21a",
        ),
        ("{{ [] }}{{ {} }}{{ {'a': (1,)} }}{{ n }}{{ none }}{{ true }}", "[]{}{'a': (1,)}2NoneTrue"),
    ],
)
def test_what_a_template_may_use_does_what_jinja2_does(source, made):
    assert rendered(source) == made
    plain = Environment(undefined=StrictUndefined).from_string(source)
    assert (
        plain.render(rows=[[1, "x"], [2, None]], records=[{"a": 1, "b": "x"}, {"a": 2, "b": None}], fields=["a", "b"], n=2)
        == made
    )


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


@pytest.mark.parametrize(
    "source",
    [
        "{{ '${T_KEY}'|upper }}",
        "{{ '${T_KEY}'[:3] }}",
        "{{ '${T_KEY}'.split('-')[0] }}",
        "{{ '${T_KEY}'|length }}",
        "{{ '${T_KEY}' == 'x' }}",
        "{{ ['${T_KEY}']|csv }}",
        "{{ {'a': '${T_KEY}'}.a|urlencode }}",
        "{% for c in '${T_KEY}' %}{{ c }}{% endfor %}",
        "{% set k = '${T_KEY}' %}{{ k|upper }}",
        "{% set k %}${T_KEY}{% endset %}{{ k[1:] }}",
        "{% filter upper %}${T_KEY}{% endfilter %}",
        "{% macro m() %}${T_KEY}{% endmacro %}{{ m()|lower }}",
        "{{ '${T_KEY}'|upper|tojson }}",
    ],
)
def test_a_secret_that_a_template_would_change_is_refused(source):
    assert problem(source + "{{ rows|tojson }}").startswith(
        "${T_KEY} stands where the template may change it; write it outside"
    )


def test_a_secret_that_a_template_only_writes_is_put_in(monkeypatch):
    monkeypatch.setenv("T_KEY", 'a"b')
    source = '{"k": "${T_KEY}", "o": {{ {"k": "${T_KEY}", "l": ["x-" ~ "${T_KEY}"]}|tojson }}, '
    source += '"i": "{% if n %}${T_KEY}{% endif %}{{ "${T_KEY}" if n }}{# ${T_KEY} #}", "r": {{ rows|tojson }}}'
    assert problem(source) is None
    made = {"k": 'a"b', "o": {"k": 'a"b', "l": ['x-a"b']}, "i": 'a"ba"b', "r": [[1, "x"], [2, None]]}
    assert json.loads(rendered(source)) == made


def test_a_template_that_calls_itself_is_told_so():
    with pytest.raises(ModelAnswerError, match="cannot be made from these inputs: the template calls itself too often"):
        rendered("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}")


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
