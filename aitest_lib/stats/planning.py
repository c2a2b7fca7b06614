"""How many seeds a verdict takes, and what a given number of seeds can decide."""

from __future__ import annotations

import math
from collections.abc import Callable

from aitest_lib.errors import InputError
from aitest_lib.stats.estimates import Estimate, normal_quantile
from aitest_lib.stats.intervals import wilson_bounds

SPREAD_AT = 0.95  # where a standard error is read off an interval


def seeds_needed(value: float, threshold: float, confidence: float = 0.95, power: float = 0.8) -> int | None:
    """Seeds with which a true rate `value` is told from `threshold` with probability `power`; None where they are equal.

    Both rates in [0, 1]; one-sided score test of one proportion (Fleiss, Levin and Paik 2003, section 2.5).
    """
    if not (0 <= value <= 1 and 0 <= threshold <= 1):
        raise InputError(
            f"got rate {value!r} and threshold {threshold!r}, expected both in [0, 1]; give shares, not percentages"
        )
    if value == threshold:
        return None
    spread = normal_quantile(confidence) * math.sqrt(threshold * (1 - threshold)) + normal_quantile(power) * math.sqrt(
        value * (1 - value)
    )
    return max(1, math.ceil((spread / (value - threshold)) ** 2))


def rows_needed(estimate: Estimate, threshold: float, confidence: float = 0.95, power: float = 0.8) -> float | None:
    """Rows with which a contrast of groups is told from `threshold` with probability `power`, were its value the true one.

    Normal approximation: the bound towards the threshold comes nearer with the root of the `rows` behind the estimate. None
    where value and threshold are equal, or there is no such bound.
    """
    value, rows = estimate.value, estimate.rows
    at, near = estimate.bounds(confidence), estimate.bounds(SPREAD_AT)
    if value is None or rows is None or at is None or near is None or value == threshold:
        return None
    side = 0 if value > threshold else 1
    # What the bounds were corrected by stays in the first term; the second is the spread of the value itself.
    reach = abs(value - at[side]) + normal_quantile(power) / normal_quantile(SPREAD_AT) * abs(value - near[side])
    return rows * (reach / (value - threshold)) ** 2 if math.isfinite(reach) else None


def decidable(n: int, threshold: float, confidence: float = 0.95) -> tuple[float | None, float | None]:
    """For a gate `min: threshold` on a rate with n seeds: the smallest rate that passes, the largest that fails.

    None where no rate of n seeds does. A gate `max: threshold` is its mirror: with `decidable(n, 1 - threshold)` = (a, b)
    it passes up to 1 - a and fails from 1 - b.
    """
    if n < 1 or not 0 <= threshold <= 1:
        raise InputError(f"got {n} seeds and threshold {threshold!r}, expected at least 1 seed and a threshold in [0, 1]")
    quantile = normal_quantile(confidence)
    # Both bounds grow with the count, so that one border each is found by halving.
    passing = _first(n, lambda successes: wilson_bounds(successes / n, n, quantile)[0] >= threshold)
    not_failing = _first(n, lambda successes: wilson_bounds(successes / n, n, quantile)[1] >= threshold)
    return (None if passing > n else passing / n), (None if not_failing == 0 else (not_failing - 1) / n)


def _first(n: int, holds: Callable[[int], bool]) -> int:
    """The first count in 0..n for which a monotone predicate holds; n + 1 where none does."""
    below, above = -1, n + 1
    while above - below > 1:
        middle = (below + above) // 2
        if holds(middle):
            above = middle
        else:
            below = middle
    return above
