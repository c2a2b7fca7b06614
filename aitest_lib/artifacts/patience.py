"""Waiting for a service that is away for a while, together: threads that meet the same outage end their waiting together."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

R = TypeVar("R")

SHORTEST_S, LONGEST_S = 0.2, 5.0  # between two attempts; doubled from one to the next


class Patience:
    """Tries again while a service is away, for at most `seconds` (0: never).

    `pause(seconds)` waits, and may raise to end the waiting. `tell(seconds waited, is it back)` hears of an outage.
    A service that was given up is not waited for again until it has answered once.
    """

    def __init__(
        self,
        seconds: float = 0.0,
        pause: Callable[[float], None] = time.sleep,
        tell: Callable[[float, bool], None] = lambda waited, back: None,
    ) -> None:
        self.seconds = seconds
        self._pause = pause
        self._tell = tell
        self._given_up = False

    def keep_trying(self, action: Callable[[], R], is_away: Callable[[Exception], bool]) -> R:
        """What `action` returns; raises what it raised last where `is_away` is false or the time is up."""
        started, delay = 0.0, SHORTEST_S
        while True:
            try:
                result = action()
            except Exception as error:
                now = time.monotonic()
                started = started or now
                if not is_away(error):
                    raise
                if self._given_up or now - started + delay > self.seconds:
                    self._given_up = True
                    raise
                self._tell(now - started, False)
                self._pause(delay)
                delay = min(2 * delay, LONGEST_S)
                continue
            self._given_up = False
            if started:
                self._tell(time.monotonic() - started, True)
            return result
