"""A figure together with its uncertainty, and the quantiles that every interval is made of."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import NormalDist

from aitest_lib.errors import InputError

Interval = Callable[[float], tuple[float, float]]

_SMALLEST_P = 1e-15
_NORMAL = NormalDist()


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """One estimated figure.

    `value`: the figure, None where it is undefined (then `reason` says why; never NaN). `n`: the number of independent
    units behind it (seeds, clusters, cases of one class). `interval`: maps a confidence in [0.5, 1) to the two one-sided
    bounds, growing with it; None where there are none (one value alone), then `reason` says so.
    `effective_n`: for rates only, the number of independent trials that would carry as much information as the data.
    `rows`: for contrasts of groups, the rows behind the figure: with four times as many its bounds lie half as far away.
    """

    value: float | None
    n: int
    reason: str | None = None
    interval: Interval | None = field(default=None, repr=False, compare=False)
    effective_n: float | None = field(default=None, repr=False, compare=False)
    rows: int | None = field(default=None, repr=False, compare=False)

    def bounds(self, confidence: float) -> tuple[float, float] | None:
        """The lower and the upper one-sided bound, each at `confidence` in [0.5, 1); None where undefined.

        0.95 gives the two-sided 90 % interval, 0.975 the two-sided 95 % interval. The value always lies inside.
        """
        if not 0.5 <= confidence < 1:
            raise InputError(f"got confidence {confidence!r}, expected a number from 0.5 up to, but without, 1; use 0.95")
        if self.value is None or self.interval is None:
            return None
        low, high = self.interval(confidence)
        return min(low, self.value), max(high, self.value)

    def p_below(self, threshold: float) -> float:
        """p-value of "the true value is at least `threshold`" against "it is below", by inverting the interval.

        The smallest 1 - confidence whose upper bound is below `threshold`, in [1e-15, 1]; 1 where undefined.
        """
        if self.value is None or self.interval is None:
            return 1.0
        if self.value < threshold:
            return _smallest_alpha(lambda confidence: self._high(confidence) < threshold)
        return 1 - _smallest_alpha(lambda confidence: self._low(confidence) > threshold)

    def p_above(self, threshold: float) -> float:
        """p-value of "the true value is at most `threshold`" against "it is above"; see `p_below`."""
        if self.value is None or self.interval is None:
            return 1.0
        if self.value > threshold:
            return _smallest_alpha(lambda confidence: self._low(confidence) > threshold)
        return 1 - _smallest_alpha(lambda confidence: self._high(confidence) < threshold)

    def _low(self, confidence: float) -> float:
        found = self.bounds(confidence)
        return -math.inf if found is None else found[0]

    def _high(self, confidence: float) -> float:
        found = self.bounds(confidence)
        return math.inf if found is None else found[1]


def undefined(reason: str, n: int = 0) -> Estimate:
    """An estimate that has no value, and why."""
    return Estimate(value=None, n=n, reason=reason)


def normal_quantile(confidence: float) -> float:
    """The standard normal quantile, 1.645 at 0.95."""
    return _NORMAL.inv_cdf(confidence)


def t_quantile(confidence: float, degrees: float) -> float:
    """Student's t quantile with `degrees` > 0 of freedom, 2.132 at 0.95 with 4."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, confidence))


def bisect(holds: Callable[[float], bool], inside: float, outside: float, steps: int = 60) -> float:
    """The border of a monotone predicate that holds at `inside` and not at `outside`, from the inner side."""
    for _ in range(steps):
        middle = (inside + outside) / 2
        if holds(middle):
            inside = middle
        else:
            outside = middle
    return inside


def _smallest_alpha(beyond: Callable[[float], bool]) -> float:
    """The smallest alpha in [1e-15, 0.5] for which `beyond(1 - alpha)` holds; 0.5 where it never does."""
    if not beyond(0.5):
        return 0.5
    if beyond(1 - _SMALLEST_P):
        return _SMALLEST_P
    # Bisected on the logarithm: small p-values matter to their last factor of ten, not to their last decimal.
    return math.exp(bisect(lambda log_alpha: beyond(1 - math.exp(log_alpha)), math.log(0.5), math.log(_SMALLEST_P), steps=40))
