"""The template language of a card's `request`: jinja2 in its immutable sandbox, checked before the first call.

The variables belong to the model type (contract, section 1); a template that uses another name is an error that lists them.
"""

from __future__ import annotations

import datetime
import json
from typing import Any

from jinja2 import StrictUndefined, TemplateError, meta, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from aitest_lib.config.secrets import REFERENCE

MAX_LENGTH = 64 * 1024  # characters
TABULAR = ("fields", "rows", "records", "flat", "n")
INPUTS = ("rows", "records", "flat")  # one of these must be used, or the model would get no input
MODEL = ("name", "version")


def environment() -> ImmutableSandboxedEnvironment:
    """The sandbox: undefined names raise, `tojson` writes valid JSON or raises."""
    sandbox = ImmutableSandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
    sandbox.policies["json.dumps_function"] = to_json
    sandbox.policies["json.dumps_kwargs"] = {}
    return sandbox


def to_json(value: Any, **_: Any) -> str:
    """JSON text: numpy and pandas scalars as their values, times as ISO 8601; NaN, infinities and bytes raise ValueError."""
    return json.dumps(value, allow_nan=False, default=_default, ensure_ascii=False)


def used_variables(source: str) -> set[str]:
    """The names that a template needs from outside."""
    return meta.find_undeclared_variables(environment().parse(source))


def template_problem(source: str, columns: tuple[str, ...] | None) -> str | None:
    """What is wrong with a tabular request template, or None."""
    if len(source) > MAX_LENGTH:
        return f"got a template of {len(source)} characters, expected at most {MAX_LENGTH}"
    try:
        tree = environment().parse(source)
        environment().from_string(source)
    except TemplateError as error:
        return f"not a valid template: {error.message}"
    used = meta.find_undeclared_variables(tree)
    allowed = f"allowed for a tabular model: {', '.join(TABULAR)}, {', '.join(f'model.{name}' for name in MODEL)}"
    if strange := sorted(used - {*TABULAR, "model"}):
        return f"unknown template variable {', '.join(strange)}; {allowed}"
    for node in tree.find_all(nodes.Getattr):
        if isinstance(node.node, nodes.Name) and node.node.name == "model" and node.attr not in MODEL:
            return f"unknown template variable model.{node.attr}; {allowed}"
    if not used & set(INPUTS):
        return f"uses none of {', '.join(INPUTS)}: the model would get no input; add one, as in {{{{ rows|tojson }}}}"
    return _not_json(source, columns or tuple(f"column{n}" for n in range(100)))


def _not_json(source: str, columns: tuple[str, ...]) -> str | None:
    """A trial with two rows of zeros: the text it makes must be JSON. A template that needs real data is not judged."""
    rows = [[0] * len(columns) for _ in range(2)]
    records = [dict(zip(columns, row, strict=True)) for row in rows]
    variables = {"fields": list(columns), "rows": rows, "records": records, "flat": [0] * 2 * len(columns), "n": 2}
    try:
        text = environment().from_string(source).render(variables, model={"name": "model", "version": "1"})
    except Exception:  # noqa: BLE001 - the template runs arbitrary filters on stand-in data; the real call will tell
        return None
    try:
        json.loads(REFERENCE.sub("0", text))
    except ValueError as error:
        return f"does not make valid JSON ({error}); write values as {{{{ name|tojson }}}}"
    return None


def _default(value: Any) -> Any:
    if isinstance(value, (datetime.date, datetime.datetime, datetime.time)):
        return value.isoformat()
    if hasattr(value, "item") and hasattr(value, "dtype") and getattr(value, "ndim", 0) == 0:
        return value.item()
    if hasattr(value, "tolist"):
        return value.tolist()
    raise ValueError(f"got a {type(value).__name__}, expected text, a number, true, false, null, a list or an object")
