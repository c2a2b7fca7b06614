"""What a model that does not always answer alike does by chance, where every answer is asked for three times."""

from __future__ import annotations

import math
from dataclasses import replace

from aitest_lib.stats.estimates import Estimate

ANSWERS = 3  # to every doubtful input: what turned counts only if all of them agree on either side


def flip_chance(differing: float) -> float:
    """The chance, in [0, 0.5], that one answer is the other one of two, from the share of inputs, in [0, 1], of which three
    answers are not all alike: 3 f (1 - f) of them."""
    return (1 - math.sqrt(max(1 - 4 * min(differing, 0.75) / 3, 0.0))) / 2


def turned_by_chance(flip: float, comparisons: float) -> float:
    """The chance, in [0, 1], that one or more of so many comparisons of two inputs look turned though none is: all answers to
    the one are flipped, and none to the other."""
    once = 2 * math.pow(flip * (1 - flip), ANSWERS)
    return 1 - math.pow(1 - once, comparisons)


def taken_off(estimate: Estimate, amount: float) -> Estimate:
    """A share without what chance explains of it, at least 0."""
    if estimate.value is None or estimate.interval is None:
        return estimate
    inner = estimate.interval

    def interval(confidence: float) -> tuple[float, float]:
        low, high = inner(confidence)
        return max(low - amount, 0.0), max(high - amount, 0.0)

    return replace(estimate, value=max(estimate.value - amount, 0.0), interval=interval)
