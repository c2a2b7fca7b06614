"""The filters and tests of a card's template: those that requests are made with, each with its work and its size counted.

They do what jinja2's filters of the same names do; what jinja2 offers beyond them is not offered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from jinja2 import StrictUndefined, Undefined, pass_context
from jinja2.filters import FILTERS, do_urlencode
from jinja2.runtime import Context
from jinja2.tests import TESTS

from aitest_lib.config.template_meter import Meter, TemplateLimitError, check_length

MAX_DIGITS = 4300  # of a text that is read as a number, as Python itself has it
MAX_PRECISION = 30  # digits that a number is rounded to
TEXT_METHODS = ("endswith", "join", "lower", "lstrip", "replace", "rstrip", "split", "startswith", "strip", "upper")
MAPPING_METHODS = ("get", "items", "keys", "values")
NAMED = ("map", "select", "reject", "selectattr", "rejectattr")  # these take the name of a filter or a test
_COMPARING = ("eq", "equalto", "==", "ne", "!=", "lt", "lessthan", "<", "le", "<=", "gt", "greaterthan", ">", "ge", ">=", "in")
_TESTS = (
    *("boolean", "defined", "false", "float", "integer", "iterable", "mapping", "none", "number", "sequence", "string", "true"),
    "undefined",
)


def tests(meter: Meter) -> dict[str, Callable[..., Any]]:
    """The tests by their names."""
    known = cast("Mapping[str, Callable[..., Any]]", TESTS)
    return {name: known[name] for name in _TESTS} | {name: meter.comparing(known[name]) for name in _COMPARING}


class Filters:
    """The filters, each of which counts with `meter`."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def table(self) -> dict[str, Callable[..., Any]]:
        """The filters by their names."""
        made: dict[str, Callable[..., Any]] = {
            "count": self.length,
            "d": self.default,
            "default": self.default,
            "first": self.first,
            "float": self.number,
            "int": self.whole,
            "items": self.items,
            "join": self.join,
            "last": self.last,
            "length": self.length,
            "list": self._meter.listed,
            "lower": self.lower,
            "replace": self.replace,
            "round": self.round,
            "string": self._meter.text,
            "trim": self.trim,
            "upper": self.upper,
            "urlencode": self.urlencode,
        }
        return made | {name: self._going_over(FILTERS[name]) for name in NAMED}

    def lower(self, value: Any) -> str:
        """Lower case."""
        return self._meter.made(self._meter.text(value).lower())

    def upper(self, value: Any) -> str:
        """Upper case."""
        return self._meter.made(self._meter.text(value).upper())

    def trim(self, value: Any, chars: str | None = None) -> str:
        """Without blanks, or the characters of `chars`, at both ends."""
        return self._meter.made(self._meter.text(value).strip(chars))

    def replace(self, value: Any, old: Any, new: Any, count: int | None = None) -> str:
        """Every `old` (the first `count` of them) as `new`."""
        text, old, new = map(self._meter.text, (value, old, new))
        found = text.count(old)
        times = found if count is None or count < 0 else min(count, found)
        self._check(text, times * (len(new) - len(old)))
        return self._meter.made(text.replace(old, new, times))

    def join(self, value: Iterable[Any], d: Any = "", attribute: str | int | None = None) -> str:
        """The items' texts with `d` between them; `attribute`: of each item."""
        if attribute is not None:
            raise TemplateLimitError("join takes no attribute; write map(attribute=...) in front of it")
        between = self._meter.text(d)
        texts = [self._meter.text(item) for item in self._meter.each(value)]
        check_length(sum(map(len, texts)) + len(between) * max(0, len(texts) - 1))
        return self._meter.made(between.join(texts))

    def split(self, text: str, sep: str | None = None, maxsplit: int = -1) -> list[str]:
        """Python's `str.split`."""
        pieces = len(text) // 2 if sep is None else text.count(sep)
        self._meter.make(len(text) + 64 * (1 + (pieces if maxsplit < 0 else min(pieces, maxsplit))))
        self._meter.spend(self._meter.steps_for(text))
        return text.split(sep, maxsplit)

    def urlencode(self, value: Any) -> str:
        """Percent-encoded; an object or pairs as a query."""
        if not isinstance(value, (str, Mapping)):
            value = self._meter.listed(value) if isinstance(value, Iterable) else self._meter.text(value)
        self._meter.make(self._meter.weigh(value))
        return self._meter.made(do_urlencode(value))

    def items(self, value: Any) -> Iterable[tuple[Any, Any]]:
        """Key and value of each member of an object."""
        if isinstance(value, Mapping):
            return value.items()
        raise TypeError(f"items is for objects, got a {type(value).__name__}")

    def length(self, value: Any) -> int:
        """How many items or characters."""
        return len(value)

    def first(self, value: Iterable[Any]) -> Any:
        """The first item."""
        return next(self._meter.each(value), StrictUndefined("first got nothing to choose from"))

    def last(self, value: Any) -> Any:
        """The last item."""
        return next(self._meter.each(reversed(value)), StrictUndefined("last got nothing to choose from"))

    def default(self, value: Any, default_value: Any = "", boolean: bool = False) -> Any:
        """`default_value` where there is no value (`boolean`: or an empty one)."""
        return default_value if isinstance(value, Undefined) or (boolean and not value) else value

    def whole(self, value: Any, default: Any = 0) -> Any:
        """A whole number; `default` where the value is none."""
        return FILTERS["int"](_short(value), default)

    def number(self, value: Any, default: Any = 0.0) -> Any:
        """A number; `default` where the value is none."""
        return FILTERS["float"](_short(value), default)

    def round(self, value: Any, precision: int = 0, method: str = "common") -> Any:
        """A number with `precision` digits behind the point; `method`: common, ceil or floor."""
        if not isinstance(precision, int) or abs(precision) > MAX_PRECISION:
            raise TemplateLimitError(f"round: expected a precision of {-MAX_PRECISION} to {MAX_PRECISION} digits")
        if method == "common":
            return round(value, precision)
        if method not in ("ceil", "floor"):
            raise TemplateLimitError(f"round: got the method {method!r:.40}, expected common, ceil or floor")
        scale = 10.0**precision
        return (math.ceil if method == "ceil" else math.floor)(value * scale) / scale

    def _going_over(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A filter that does something with each item, when it is asked for."""

        @pass_context
        def going_over(context: Context, value: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
            return function(context, self._meter.each(value, steps=8), *args, **kwargs)

        return going_over

    def _check(self, text: str, more: int) -> None:
        check_length(len(text) + more)
        self._meter.spend(self._meter.steps_for(text))


def _short(value: Any) -> Any:
    if isinstance(value, str) and len(value) > MAX_DIGITS:
        raise TemplateLimitError(f"got a text of {len(value)} characters, expected a number of at most {MAX_DIGITS} digits")
    return value
