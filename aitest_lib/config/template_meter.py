"""What one rendering of a template may cost: steps of work, and bytes of texts and lists, counted as they are made.

Nothing that was made is ever taken off again: the bytes bound the memory, however the values are kept.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import wraps
from itertools import chain
from typing import Any, cast

from jinja2.exceptions import SecurityError

MAX_STEPS = 10_000_000  # loop turns, calls, values that are walked over
MAX_MADE = 512 * 2**20  # bytes of everything that one rendering makes
MAX_OUTPUT = 64 * 2**20  # characters of one text
MAX_BITS = 1024  # of a whole number
_CHARACTERS_PER_STEP = 256
_ITEMS_PER_STEP = 16
_TEXT = 64  # bytes of a text besides its characters
_NUMBER = 24  # characters of the longest float
_PLAIN = frozenset({str, int, float, bool, type(None)})
_VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))


class TemplateLimitError(SecurityError):
    """A template that costs too much, or that uses what a card's template may not."""


class Meter(threading.local):
    """Counts for the rendering of the thread that asks; past a bound everything raises `TemplateLimitError`."""

    def __init__(self) -> None:
        self.start(MAX_STEPS, MAX_MADE)

    def start(self, steps: int, made: int) -> None:
        """A new rendering, with `steps` of work and `made` bytes to spend."""
        self._steps, self._bytes = steps, made

    def spend(self, steps: int = 1) -> None:
        """Counts work."""
        self._steps -= steps
        if self._steps < 0:
            raise TemplateLimitError("the template takes too many steps; write it with fewer loops and calls")

    def make(self, size: int) -> None:
        """Counts bytes."""
        self._bytes -= size
        if self._bytes < 0:
            raise TemplateLimitError(
                "the template makes too many texts and lists; write it smaller, or send fewer inputs in a call (`batch_size`)"
            )

    def made(self, text: str) -> str:
        """The text, counted."""
        check_length(len(text))
        self.spend(self.steps_for(text))
        self.make(_TEXT + (len(text) if text.isascii() else 4 * len(text)))
        return text

    def steps_for(self, text: str) -> int:
        """What it costs to go through a text."""
        return 1 + len(text) // _CHARACTERS_PER_STEP

    def text(self, value: Any) -> str:
        """The text of any value; a text is itself, and takes no bytes."""
        if isinstance(value, str):
            self.spend(self.steps_for(value))
            return value
        if type(value) not in _PLAIN:
            self.make(self.weigh(value))
        return self.made(str(value))

    def each(self, items: Iterable[Any], steps: int = 1) -> Iterator[Any]:
        """The items, each of them counted as it is taken."""
        for item in items:
            self.spend(steps)
            yield item

    def listed(self, items: Iterable[Any]) -> list[Any]:
        """The items as a list of its own."""
        found = list(self.each(items))
        self.make(64 + 8 * len(found))
        return found

    def counted(self, items: Iterable[Any]) -> Turns:
        """What a loop goes over."""
        return Turns(items, self)

    def built(self, value: Any) -> Any:
        """A list, tuple or object that was written in a template or cut out of another value; or a text that was."""
        if isinstance(value, str):
            return self.made(value)
        if hasattr(type(value), "__len__"):
            self.spend(1 + len(value) // _ITEMS_PER_STEP)
            self.make(64 + (100 if isinstance(value, dict) else 8) * len(value))
        return value

    def key(self, value: Any) -> Any:
        """A key of an object; lists in lists would take for ever to be hashed."""
        if isinstance(value, tuple):
            raise TemplateLimitError("got a list as a key, expected text or a number")
        return value

    def weighed(self, value: Any) -> Any:
        """The value, counted with all that it holds: it is about to be compared."""
        self.weigh(value)
        return value

    def comparing(self, test: Callable[..., Any]) -> Callable[..., Any]:
        """A test that compares what it is given."""

        @wraps(test)
        def weighing(*values: Any) -> Any:
            return test(*map(self.weighed, values))

        return weighing

    def weigh(self, value: Any) -> int:
        """About the characters that a value takes when it is written, with all that it holds.

        A list that stands in another more than once counts each time, as it is written each time.
        """
        size, open_lists = 0, [iter((value,))]
        while open_lists:
            for one in open_lists[-1]:
                own, inner = self._looked_at(one)
                size += own
                check_length(size)
                if inner:
                    open_lists += inner
                    break
            else:
                open_lists.pop()
        return size

    def _looked_at(self, one: Any) -> tuple[int, list[Iterator[Any]]]:
        """Characters of a value by itself, and what else is in it; lists of plain values are weighed at once."""
        if isinstance(one, str):
            self.spend(self.steps_for(one))
            return len(one) + 2, []
        self.spend()
        if type(one) is int:
            return one.bit_length() // 3 + 2, []
        if isinstance(one, Mapping):
            parts: list[Collection[Any]] = [one.keys(), one.values()]
        elif isinstance(one, (list, tuple, *_VIEWS)):
            parts = [cast("Collection[Any]", one)]
        else:
            return _NUMBER * (int(one.size) if hasattr(type(one), "size") else 1), []
        size, inner = 2, []
        for part in parts:
            plain = self._plain_size(part)
            if plain is None:
                inner.append(iter(part))
            else:
                size += plain
        return size, inner

    def _plain_size(self, items: Collection[Any]) -> int | None:
        """About the characters of numbers and texts, or of lists of them; None where there are other things among them."""
        count, kinds = len(items), set(map(type, items))
        lists = kinds == {list}
        if lists:
            count += sum(map(len, items))
        self.spend(count // _ITEMS_PER_STEP)
        if lists:
            kinds = set(map(type, chain.from_iterable(items)))
        if not kinds <= _PLAIN:
            return None
        size = _NUMBER * count
        if int in kinds or str in kinds:
            for item in chain.from_iterable(items) if lists else items:
                if type(item) is str:
                    size += len(item) + 4 - _NUMBER
                elif type(item) is int:
                    size += item.bit_length() // 3 + 3 - _NUMBER
        self.spend(size // _CHARACTERS_PER_STEP)
        return size


class Turns:
    """An iterable whose turns are counted; its length stays known."""

    def __init__(self, items: Iterable[Any], meter: Meter) -> None:
        self._items, self._meter = items, meter

    def __iter__(self) -> Iterator[Any]:
        return self._meter.each(self._items)

    def __len__(self) -> int:
        return len(self._items)  # type: ignore[arg-type]  # a TypeError tells jinja2 to count by itself


def check_length(size: int) -> None:
    """One text may have 64 Mi characters."""
    if size > MAX_OUTPUT:
        raise TemplateLimitError(
            f"the template makes something larger than {MAX_OUTPUT} characters; write it smaller, or send fewer inputs in a "
            "call (`batch_size`)"
        )


def check_bits(bits: int) -> None:
    """Whole numbers stay small: what is written of them is weighed by the number."""
    if bits > MAX_BITS:
        raise TemplateLimitError(f"the template makes a number larger than {MAX_BITS} bits; write it smaller")
