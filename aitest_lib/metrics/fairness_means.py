"""Means of groups of rows, and how far apart two groups are: fairness of models that answer numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from aitest_lib.data.groups import Groups
from aitest_lib.stats.estimates import Estimate, t_quantile, undefined

LARGEST = 1e75  # of a mean and its error, whose fourth powers a float has to hold
NO_SEQUENCE = "numbers without limits have no bounds that stay valid at every look"


@dataclass(frozen=True, kw_only=True)
class GroupMean:
    """The mean of a group of `rows`, in the unit of the answers, and its standard error (None with fewer than two units) of so
    many degrees of freedom. `sequential`: no bounds, since looks at the growing data would make them wrong."""

    name: str
    rows: int
    value: float | None
    error: float | None = None
    degrees: int = 0
    sequential: bool = False

    def estimate(self) -> Estimate:
        """The mean with Student's t interval."""
        if self.value is None:
            return undefined(_nothing(self))
        if self.sequential:
            return Estimate(value=self.value, n=self.rows, reason=NO_SEQUENCE)
        if self.error is None:
            return Estimate(value=self.value, n=self.rows, reason=_alone(self))
        return Estimate(
            value=self.value, n=self.rows, interval=partial(_t_interval, self.value, self.error, float(self.degrees))
        )


def group_means(
    groups: Groups, values: NDArray[np.float64], units: NDArray[np.int64] | None = None, *, sequential: bool = False
) -> list[GroupMean]:
    """The mean of finite `values` (n,) in every group, in the order of `groups`.

    `units` (n,): what rows descend from; then the standard error is the linearised one between units (ultimate clusters).
    A mean, or its error, beyond 1e75 is undefined.
    """
    found = []
    for place, name in enumerate(groups.names):
        inside = groups.codes == place
        own = values[inside]
        if len(own) == 0:
            found.append(GroupMean(name=name, rows=0, value=None))
            continue
        with np.errstate(over="ignore", invalid="ignore"):
            centre = float(own.mean())
            totals = own - centre
            if units is not None:
                totals = np.bincount(np.unique(units[inside], return_inverse=True)[1], totals)
            n = len(totals)
            error = math.sqrt(n / (n - 1) * float(totals @ totals)) / len(own) if n > 1 else None
        if not (abs(centre) <= LARGEST and (error or 0.0) <= LARGEST):
            found.append(GroupMean(name=name, rows=len(own), value=None))
            continue
        found.append(GroupMean(name=name, rows=len(own), value=centre, error=error, degrees=n - 1, sequential=sequential))
    return found


def mean_difference(first: GroupMean, second: GroupMean) -> Estimate:
    """The mean of the first group minus that of the second, with Welch's (1947) t interval."""
    rows = first.rows + second.rows
    n = min(first.rows, second.rows)
    if first.value is None or second.value is None:
        return undefined("; ".join(_nothing(one) for one in (first, second) if one.value is None), n)
    value = first.value - second.value
    if first.sequential:
        return Estimate(value=value, n=n, reason=NO_SEQUENCE)
    if first.error is None or second.error is None:
        return Estimate(value=value, n=n, reason="; ".join(_alone(one) for one in (first, second) if one.error is None))
    squares = [(one.error or 0.0) ** 2 for one in (first, second)]
    spread = sum(squares)
    # Welch and Satterthwaite; two constant groups have no spread to estimate.
    parts = sum(square**2 / one.degrees for square, one in zip(squares, (first, second), strict=True))
    degrees = spread**2 / parts if parts > 0 else float(n - 1)
    interval = partial(_t_interval, value, math.sqrt(spread), degrees)
    return Estimate(value=value, n=n, interval=interval, rows=rows)


def _nothing(group: GroupMean) -> str:
    return f"{group.name}: {'its numbers are too large for a mean' if group.rows else 'none of its rows has a usable answer'}"


def _alone(group: GroupMean) -> str:
    return f"{group.name}: its {'one row' if group.rows == 1 else 'rows of one seed'} alone says nothing of the spread"


def _t_interval(centre: float, error: float, degrees: float, confidence: float) -> tuple[float, float]:
    half = t_quantile(confidence, degrees) * error
    return centre - half, centre + half
