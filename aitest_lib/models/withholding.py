"""While private columns are being sent, messages quote nothing that came back: it may spell their values in any way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

WITHHELD = "(not quoted, since private columns were sent)"


class _Calls:
    """How many calls with private columns are under way, in all threads."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = Lock()

    def add(self, change: int) -> None:
        with self._lock:
            self.count += change


_calls = _Calls()


@contextmanager
def withholding(private: bool) -> Iterator[None]:
    """Where private columns are sent, nothing is quoted meanwhile."""
    _calls.add(private)
    try:
        yield
    finally:
        _calls.add(-private)


def is_withheld() -> bool:
    """Whether nothing may be quoted now."""
    return _calls.count > 0
