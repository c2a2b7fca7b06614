"""The template language of a card: a part of jinja2, in its immutable sandbox, with bounds on what one rendering may cost.

jinja2's sandbox keeps a template away from the program, but not from its time and memory. Here a template may use only what
requests are made with, and all of that is counted; whatever else jinja2 knows is refused when the card is read.
"""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import StrictUndefined, Template, nodes, pass_context
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from aitest_lib.config.template_filters import MAPPING_METHODS, TEXT_METHODS, Filters, tests
from aitest_lib.config.template_language import Counting, language_problem
from aitest_lib.config.template_meter import MAX_MADE, MAX_STEPS, Meter, TemplateLimitError, check_bits, check_length

_LOOP = frozenset(
    ("cycle", "depth", "depth0", "first", "index", "index0", "last", "length", "nextitem", "previtem", "revindex", "revindex0")
)
_TIME = frozenset(("year", "month", "day", "hour", "minute", "second", "microsecond", "isoformat"))
_NOT_OFFERED = ("lipsum", "dict", "cycler")
_QUOTED = re.compile(r'[",\r\n]')


class Sandbox(ImmutableSandboxedEnvironment):
    """Undefined names raise; `tojson` writes valid JSON and `csv` valid CSV, or they raise."""

    intercepted_binops = frozenset(["+", "-", "*", "%"])

    def __init__(self) -> None:
        # What can be worked out when a template is compiled would be worked out uncounted; so nothing is.
        super().__init__(undefined=StrictUndefined, keep_trailing_newline=True, optimized=False)
        self._meter = meter = Meter()
        self._functions = Filters(meter)
        self._offered: dict[str, Callable[..., Any]] = {
            **self._functions.table(),
            "tojson": self._to_json,
            "csv": self._to_csv,
        }
        self.filters = {
            **self._offered,
            ".built": meter.built,
            ".concatenated": self._functions.join,
            ".counted": meter.counted,
            ".key": meter.key,
            ".weighed": meter.weighed,
        }
        self.tests = tests(meter)  # type: ignore[assignment]  # jinja2 leaves its type to be guessed
        self.globals = {name: value for name, value in self.globals.items() if name not in _NOT_OFFERED}
        self.globals["namespace"] = self._namespace
        self.finalize = self._shown

    def rendered(self, template: Template, values: Mapping[str, Any], steps: int = MAX_STEPS, made: int = MAX_MADE) -> str:
        """The text that a template makes, of at most 64 Mi characters.

        `TemplateLimitError` past `steps` of work (loop turns, calls, values that are walked over) or `made` bytes of texts and
        lists.
        """
        self._meter.start(steps, made)
        parts, size = [], 0
        for part in template.generate(values):
            size += len(part)
            check_length(size)
            parts.append(part)
        return "".join(parts)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """What a value has besides its items."""
        if isinstance(obj, str):
            return attr in TEXT_METHODS
        if isinstance(obj, dict):
            return attr in MAPPING_METHODS
        if isinstance(obj, LoopContext):
            return attr in _LOOP
        if isinstance(obj, (datetime.date, datetime.time)):
            return attr in _TIME
        return isinstance(obj, Namespace) and not attr.startswith("_")

    def wrap_str_format(self, value: Any) -> None:
        """Nothing: `str.format` is not offered, and jinja2 would let it pass by `is_safe_attribute`."""

    def getitem(self, obj: Any, argument: Any) -> Any:
        """One item, by its place or key."""
        return super().getitem(obj, self._meter.key(argument))

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805 - as jinja2 names them
        """A method, a macro or a global."""
        meter, functions = __self._meter, __self._functions
        meter.spend(4 + len(args) + len(kwargs))
        meter.make(8 * (len(args) + len(kwargs)))
        owner = getattr(__obj, "__self__", None)
        if isinstance(owner, dict):
            args = tuple(map(meter.key, args))
        if not isinstance(owner, str):
            return super().call(__context, __obj, *args, **kwargs)
        meter.spend(meter.steps_for(owner))
        named = {name: value for name, value in kwargs.items() if not name.startswith("_")}  # the rest is for the context
        match __obj.__name__:
            case "join":
                return functions.join(args[0], owner)
            case "replace":
                return functions.replace(owner, *args, **named)
            case "split":
                return functions.split(owner, *args, **named)
            case _:
                return meter.built(super().call(__context, __obj, *args, **kwargs))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """The operators that could make something huge."""
        if operator == "+" and isinstance(left, (str, list, tuple)):
            check_length(len(left) + len(right))
            return self._meter.built(super().call_binop(context, operator, left, right))
        for one in (left, right):
            if hasattr(type(one), "__len__"):
                raise TypeError(f"`{operator}` is for numbers, got a {type(one).__name__}")
        if isinstance(left, int) and isinstance(right, int):
            check_bits(left.bit_length() + right.bit_length() if operator == "*" else max(map(int.bit_length, (left, right))))
        return super().call_binop(context, operator, left, right)

    def _generate(self, source: nodes.Template, name: str | None, filename: str | None, defer_init: bool = False) -> str:
        """Refuses what a card's template may not use, and puts the counters in."""
        if problem := language_problem(source, self._offered, self.tests):
            raise TemplateLimitError(problem)
        return super()._generate(Counting(self).visit(source), name, filename, defer_init)

    @pass_context
    def _shown(self, context: Context, value: Any) -> str:
        """What is written of a value; counted each time."""
        return self._meter.made(self._meter.text(value))

    def _namespace(self, **values: Any) -> Namespace:
        self._meter.make(64 + 100 * len(values))
        return _Namespace(**values)

    def _to_json(self, value: Any) -> str:
        self._meter.weigh(value)
        return self._meter.made(to_json(value))

    def _to_csv(self, rows: Any) -> str:
        table = rows if isinstance(rows, (list, tuple)) else self._meter.listed(rows)
        self._meter.weigh(table)
        return self._meter.made(to_csv(table))


class _Namespace(Namespace):
    """Written without what it holds."""

    def __repr__(self) -> str:
        return "<namespace>"


def to_json(value: Any) -> str:
    """JSON text: numpy and pandas scalars as their values, times as ISO 8601; NaN, infinities and bytes raise ValueError."""
    return json.dumps(value, allow_nan=False, default=plain_value, ensure_ascii=False)


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
