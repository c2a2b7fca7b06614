"""How often a server was called."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def most_in_a_second(times: Sequence[float]) -> int:
    """The most calls in any half-open window of one second; `times` in seconds, in any order, at least one."""
    ordered = np.sort(np.asarray(times, dtype=np.float64))
    return int((np.searchsorted(ordered, ordered + 1, side="left") - np.arange(len(ordered))).max())
