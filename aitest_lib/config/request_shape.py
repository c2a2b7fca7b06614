"""From the body of one request to the template that makes such bodies: which part of the JSON carries the rows."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from aitest_lib.errors import InputError

# Pairs of keys under which a table travels as names and rows.
_TABLES = (("fields", "values"), ("columns", "data"), ("names", "ndarray"))


@dataclass(frozen=True)
class Shape:
    """What the body of a request says about a model: template, columns, where the answers probably stand."""

    request: str
    columns: tuple[str, ...] | None
    labels: str
    scores: str | None = None
    single: bool = False


def usual_shape() -> Shape:
    """What many servers take, where nothing is known: a list of objects under `instances`."""
    return Shape(request='{"instances": {{ records|tojson }}}', columns=None, labels="predictions")


def request_shape(body: Any, columns: set[str]) -> Shape:
    """The template and the likely place of the answers for a JSON body that carries rows; `InputError` where none are found.

    `columns` are the names in the data: they tell a row from other objects and lists in the body.
    """
    template, found = _template(body, columns, root=True)
    if found is None:
        raise InputError(
            "got a JSON body without rows in a known form, expected a list of objects, a list of lists, "
            "columns with rows, or one flat object; write the card's endpoint.request by hand"
        )
    kind, names, marks = found
    text = json.dumps(template, ensure_ascii=False)
    # In JSON text these pairs occur only inside strings, where jinja2 would take them for its own.
    text = re.sub(r"\{(?=[{%#])", r"\\u007b", text)
    for mark, expression in marks.items():
        text = text.replace(json.dumps(mark), f"{{{{ {expression} }}}}")
    labels, scores = _answers(body, kind)
    return Shape(text, names, labels, scores, single=kind in ("record", "vector"))


_Found = tuple[str, tuple[str, ...] | None, dict[str, str]]  # kind, column names, marks → jinja2 expressions


def _template(value: Any, columns: set[str], root: bool = False) -> tuple[Any, _Found | None]:
    """`value` with its rows replaced by marks; the first rows found count."""
    if isinstance(value, list):
        return _list_template(value, columns)
    if not isinstance(value, dict):
        return value, None
    for names, rows in _TABLES:
        if _is_names(value.get(names)) and _is_rows(value.get(rows)):
            kept = {key: item for key, item in value.items() if key != "index"}  # it would count other rows
            marks = {_mark("fields"): "fields|tojson", _mark("rows"): "rows|tojson"}
            return kept | {names: _mark("fields"), rows: _mark("rows")}, (rows, tuple(value[names]), marks)
    if {"name", "shape", "datatype", "data"} <= set(value):  # one tensor of the Open Inference Protocol (KServe v2)
        marks = {_mark("n"): "n", _mark("width"): "fields|length", _mark("flat"): "flat|tojson"}
        return value | {"shape": [_mark("n"), _mark("width")], "data": _mark("flat")}, ("tensor", None, marks)
    if _is_record(value) and (root or columns & set(value)):
        return _mark("records"), ("record", tuple(value), {_mark("records"): "records[0]|tojson"})
    result, found = {}, None
    for key, item in value.items():
        result[key], here = (item, None) if found else _template(item, columns)
        found = found or here
    return result, found


def _list_template(value: list[Any], columns: set[str]) -> tuple[Any, _Found | None]:
    if _is_records(value):
        return _mark("records"), ("records", tuple(value[0]), {_mark("records"): "records|tojson"})
    if _is_rows(value):
        return _mark("rows"), ("rows", None, {_mark("rows"): "rows|tojson"})
    if len(value) > 1 and len(value) == len(columns) and all(_is_cell(item) for item in value):
        return _mark("flat"), ("vector", None, {_mark("flat"): "flat|tojson"})
    made = [_template(item, columns) for item in value]
    if len(made) == 1:
        return [made[0][0]], made[0][1]
    return value, None


def _answers(body: Any, kind: str) -> tuple[str, str | None]:
    """Where servers that take such a body put their answers: labels and scores as JMESPath."""
    top = set(body) if isinstance(body, dict) else set()
    if kind == "values":
        return "predictions[0].values[*][0]", "predictions[0].values[*][1]"
    if kind == "tensor":
        return "outputs[0].data", None
    if kind == "ndarray":
        return "data.ndarray", None
    if kind in ("record", "vector"):
        return "prediction", "probability"
    if top & {"instances", "inputs", "data", "dataframe_split", "dataframe_records"}:
        return "predictions", None
    return "@", None


def _mark(name: str) -> str:
    return f"\x00{name}\x00"


def _is_cell(value: Any) -> bool:
    return value is None or isinstance(value, (str, int, float, bool))


def _is_record(value: Any) -> bool:
    return isinstance(value, dict) and bool(value) and all(_is_cell(item) for item in value.values())


def _is_records(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(_is_record(item) for item in value)


def _is_rows(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(row, list) and row and all(_is_cell(item) for item in row) for row in value)
    )


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, str) for item in value)
