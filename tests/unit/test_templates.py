"""Request templates: the sandbox, the variables, and JSON that is always valid."""

from __future__ import annotations

import datetime
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aitest_lib.config.templates import MAX_LENGTH, template_problem, to_json
from aitest_lib.errors import ModelAnswerError
from aitest_lib.models.endpoint.templates import RequestTemplate, plain_rows
from aitest_lib.types import ModelInfo

INFO = ModelInfo(name="m", type="tabular-classifier", digest="d", version="4")
FRAME = pd.DataFrame({"a": [1, 2], "b": ["x", None]})


def rendered(source: str, frame: pd.DataFrame = FRAME) -> str:
    return RequestTemplate(source, INFO).render(frame)


def test_every_variable():
    source = (
        '{"f": {{ fields|tojson }}, "r": {{ rows|tojson }}, "o": {{ records|tojson }}, "x": {{ flat|tojson }}, '
        '"n": {{ n }}, "m": "{{ model.name }}/{{ model.version }}"}'
    )
    assert template_problem(source, None) is None
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
    assert template_problem(source, None) is None
    assert json.loads(rendered(source)) == {"shape": [2, 2], "x": [1, 2]}


@pytest.mark.parametrize(
    "source",
    [
        "{{ rows.__class__.__mro__ }}",
        "{{ ''.__class__.__init__.__globals__ }}{{ rows }}",
        "{{ rows.append(1) }}",
        "{% for i in range(10**9) %}{% endfor %}{{ rows }}",
    ],
)
def test_the_sandbox_holds(source):
    with pytest.raises(ModelAnswerError, match="cannot be made from these rows"):
        rendered(source)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("x" * (MAX_LENGTH + 1), "expected at most 65536"),
        ("{{ rows|nosuchfilter }}", "nosuchfilter"),
        ("{% for r in rows %}", "not a valid template"),
        ("{{ rows|tojson }}{{ session }}", "unknown template variable session"),
        ("[{{ rows[0][0]|tojson }},]", "does not make valid JSON"),
    ],
)
def test_problems(source, said):
    assert said in template_problem(source, None)


def test_a_template_that_needs_real_columns_is_not_judged_by_stand_ins():
    assert template_problem('{"age": {{ records[0].age|tojson }}}', None) is None
    assert template_problem('{"age": {{ records[0].age }}', ("age",)).startswith("does not make valid JSON")


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
