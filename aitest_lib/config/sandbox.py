"""The template language of a card: jinja2 in its immutable sandbox, with bounds on what one rendering may cost.

jinja2's sandbox keeps a template away from the program, but not from its time and memory: loops in loops, macros that call
themselves and texts that are multiplied would keep it busy for ever. Here loops and calls are counted, and sizes are checked
before anything of that size is made.
"""

from __future__ import annotations

import datetime
import json
import math
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from typing import Any

from jinja2 import StrictUndefined, Template, nodes, pass_context
from jinja2.exceptions import SecurityError
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

MAX_OUTPUT = 256 * 2**20  # characters of one text
MAX_STEPS = 100_000_000  # loop turns and calls of one rendering: about a minute
MAX_SIZE = 1_000_000  # widths, counts, repetitions
MAX_BITS = 10_000  # of a whole number
_SIZED = ("center", "indent", "wordwrap", "slice", "batch", "truncate")
_QUOTED = re.compile(r'[",\r\n]')
_WIDE = re.compile(r"\d{5,}|\*")


class TemplateLimitError(SecurityError):
    """A template that costs too much."""


class Sandbox(ImmutableSandboxedEnvironment):
    """Undefined names raise; `tojson` writes valid JSON and `csv` valid CSV, or they raise."""

    intercepted_binops = frozenset(["*", "**", "+", "%"])

    def __init__(self) -> None:
        super().__init__(undefined=StrictUndefined, keep_trailing_newline=True)
        self._budget = threading.local()
        self.globals.pop("lipsum")
        self.filters |= {name: _sized(self.filters[name]) for name in _SIZED}
        self.filters |= {
            "tojson": to_json,
            "csv": to_csv,
            "format": _format,
            "counted": _counted,
            "concatenated": _concatenated,
        }

    def rendered(self, template: Template, values: Mapping[str, Any], steps: int = MAX_STEPS) -> str:
        """The text that a template makes; `TemplateLimitError` past `steps` loop turns and calls, or 256 Mi characters."""
        self._budget.left = steps
        parts, size = [], 0
        for part in template.generate(values):
            size += len(part)
            _check_size(size, MAX_OUTPUT)
            parts.append(part)
        return "".join(parts)

    def spend(self) -> None:
        """Counts one loop turn or call."""
        left = getattr(self._budget, "left", MAX_STEPS) - 1
        self._budget.left = left
        if left < 0:
            raise TemplateLimitError("the template takes too many steps; write it with fewer loops and calls")

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805 - as jinja2 names them
        """Counts, and checks the sizes that methods of texts are given."""
        __self.spend()
        method = getattr(__obj, "__wrapped__", __obj)  # jinja2 wraps str.format
        owner = getattr(method, "__self__", None)
        if isinstance(owner, str):
            _check_sizes([*args, *kwargs.values()])
            if method.__name__.startswith("format"):
                _check_format(owner)
        return super().call(__context, __obj, *args, **kwargs)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """The operators that could make something huge."""
        _check_operation(operator, left, right)
        return super().call_binop(context, operator, left, right)

    def _generate(self, source: nodes.Template, name: str | None, filename: str | None, defer_init: bool = False) -> str:
        """Puts the counter in front of every loop, and a check behind every `~`, before the template is compiled."""
        for loop in list(source.find_all(nodes.For)):
            loop.iter = nodes.Filter(loop.iter, "counted", [], [], None, None, lineno=loop.lineno, environment=self)
        for one in list(source.find_all(nodes.Concat)):
            texts = nodes.List(one.nodes, lineno=one.lineno, environment=self)
            one.nodes = [nodes.Filter(texts, "concatenated", [], [], None, None, lineno=one.lineno, environment=self)]
        return super()._generate(source, name, filename, defer_init)


class _Counted:
    """An iterable whose turns are counted; its length stays known."""

    def __init__(self, items: Iterable[Any], spend: Callable[[], None]) -> None:
        self._items, self._spend = items, spend

    def __iter__(self) -> Iterator[Any]:
        for item in self._items:
            self._spend()
            yield item

    def __len__(self) -> int:
        return len(self._items)  # type: ignore[arg-type]  # a TypeError tells jinja2 to count by itself


def to_json(value: Any, indent: int | None = None) -> str:
    """JSON text: numpy and pandas scalars as their values, times as ISO 8601; NaN, infinities and bytes raise ValueError."""
    _check_sizes([indent])
    return json.dumps(value, allow_nan=False, default=plain_value, ensure_ascii=False, indent=indent)


def to_csv(rows: Any) -> str:
    """CSV text (RFC 4180, with line feeds between the lines): a line for each row, or one line for a list of cells.

    Missing cells are empty, booleans `true` and `false`, times ISO 8601; NaN, infinities and nested lists raise ValueError.
    """
    table = list(rows)
    lines = table if table and all(isinstance(row, (list, tuple)) for row in table) else [table]
    return "\n".join(",".join([_cell(value) for value in line]) or ('""' if line else "") for line in lines)


def plain_value(value: Any) -> Any:
    """A value that JSON does not know as one that it does."""
    if isinstance(value, (datetime.date, datetime.datetime, datetime.time)):
        return value.isoformat()
    if hasattr(value, "item") and hasattr(value, "dtype") and getattr(value, "ndim", 0) == 0:
        return value.item()
    if hasattr(value, "tolist"):
        return value.tolist()
    raise ValueError(f"got a {type(value).__name__}, expected text, a number, true, false, null, a list or an object")


def _cell(value: Any) -> str:
    """One cell, in quotes where it must be. (Python's csv leaves a lone carriage return bare.)"""
    if value is not None and not isinstance(value, (str, int, float)):
        value = plain_value(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"got {value}, expected a finite number")
    if value is None:
        return ""
    if not isinstance(value, (str, int, float)):
        raise ValueError(f"got a {type(value).__name__} as a cell, expected text, a number, true, false or null")
    text = str(value)
    return '"' + text.replace('"', '""') + '"' if _QUOTED.search(text) else text


@pass_context
def _counted(context: Context, items: Any) -> Any:
    sandbox = context.environment
    return _Counted(items, sandbox.spend) if isinstance(sandbox, Sandbox) else items


@pass_context
def _concatenated(context: Context, parts: list[Any]) -> str:
    texts = list(map(str, parts))
    _check_size(sum(map(len, texts)), MAX_OUTPUT)
    return "".join(texts)


def _format(value: Any, *args: Any, **kwargs: Any) -> str:
    """printf-style formatting, as jinja2's own filter."""
    text = str(value)
    _check_format(text)
    return text % (kwargs or args)


def _sized(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        _check_sizes([*args, *kwargs.values()])
        return function(*args, **kwargs)

    return checked


def _check_operation(operator: str, left: Any, right: Any) -> None:
    whole = isinstance(left, int) and isinstance(right, int)
    if operator == "**" and whole:
        _check_size(left.bit_length() * abs(right), MAX_BITS)
    elif operator == "*" and whole:
        _check_size(left.bit_length() + right.bit_length(), MAX_BITS)
    elif operator == "*":
        for text, times in ((left, right), (right, left)):
            if isinstance(times, int) and hasattr(text, "__len__"):
                _check_size(len(text) * times, MAX_SIZE)
    elif operator == "+" and hasattr(left, "__len__") and hasattr(right, "__len__"):
        _check_size(len(left) + len(right), MAX_OUTPUT)
    elif operator == "%" and isinstance(left, str):
        _check_format(left)


def _check_sizes(values: Iterable[Any]) -> None:
    for value in values:
        if isinstance(value, int):
            _check_size(value, MAX_SIZE)


def _check_format(text: str) -> None:
    if _WIDE.search(text):
        raise TemplateLimitError(f"got the format {text[:40]!r}, expected one without `*` and without numbers over 9999")


def _check_size(size: int, limit: int) -> None:
    if size > limit:
        raise TemplateLimitError(f"the template makes something larger than {limit}; write it smaller")
