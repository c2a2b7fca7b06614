"""A card's `rate_per_s`, held where it counts: at the moment when a call goes out."""

from __future__ import annotations

import time
from threading import Lock

from aitest_lib.models.base import StopSwitch

SLACK = 1.01  # evenly spaced calls that arrive a little early would put one too many into a second


class RateLimiter:
    """At most `per_second` calls a second, evenly spaced, over all threads. None: no limit.

    A call takes its `turn` before it connects, and is kept at a `distance` from the one before when it is about to be sent:
    connecting takes some calls longer than others, so that turns alone would let them bunch.
    """

    def __init__(self, per_second: float | None, stop: StopSwitch) -> None:
        self._gap = SLACK / per_second if per_second else 0.0
        self._stop = stop
        self._turns, self._next = Lock(), 0.0
        self._sends, self._earliest = Lock(), 0.0

    @property
    def limited(self) -> bool:
        """Whether there is a limit."""
        return self._gap > 0

    def turn(self) -> None:
        """Returns when the caller's turn to connect has come."""
        if not self.limited:
            return
        with self._stop.holding(self._turns):
            now = time.monotonic()
            turn = max(now, self._next)
            self._next = turn + self._gap
        self._stop.pause(turn - now)

    def distance(self) -> None:
        """Returns when the caller may send; the next one may after a gap from then."""
        if not self.limited:
            return
        with self._stop.holding(self._sends):
            self._stop.pause(self._earliest - time.monotonic())
            self._earliest = time.monotonic() + self._gap
