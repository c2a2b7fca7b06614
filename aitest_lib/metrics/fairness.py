"""Rates of groups of rows, and how far apart two groups are: what fairness metrics are made of.

Definitions as in Hardt, Price and Srebro (2016), Equality of opportunity in supervised learning, and Chouldechova (2017), Fair
prediction with disparate impact. A quotient 0 / 0 is undefined, and so is every contrast that needs it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from aitest_lib.data.groups import Groups
from aitest_lib.stats.clusters import rate_of_rows
from aitest_lib.stats.estimates import Estimate, undefined
from aitest_lib.stats.intervals import rate_difference, rate_ratio, ratio_limits, wilson
from aitest_lib.stats.sequences import rate_sequence

SELECTION = "selection_rate"
TRUE_POSITIVE = "true_positive_rate"
FALSE_POSITIVE = "false_positive_rate"
PRECISION = "precision"
ACCURACY = "accuracy"
AVERAGE_ODDS = "average_odds"  # the mean of true and false positive rate, as a contrast


@dataclass(frozen=True, kw_only=True)
class GroupRates:
    """A group of `rows` and its rates by name, each with the (hits, rows) it is made of.

    `sequential`: the rates have confidence sequences; `clustered`: rows descend from shared units.
    """

    name: str
    rows: int
    rates: dict[str, Estimate]
    counts: dict[str, tuple[int, int]]
    sequential: bool = False
    clustered: bool = False


def group_rates(
    groups: Groups,
    favoured: NDArray[np.bool_],
    deserving: NDArray[np.bool_] | None = None,
    units: NDArray[np.int64] | None = None,
    *,
    sequential: bool = False,
) -> list[GroupRates]:
    """The rates of every group, in the order of `groups`.

    `favoured` (n,): the answer is the favourable one; `deserving` (n,): the label is, which adds all rates but the
    `selection_rate`: `true_positive_rate` (of the deserving rows, how many are favoured), `false_positive_rate` (of the
    others), `precision` (of the favoured rows, how many are deserving) and `accuracy`. `units` (n,), non-negative: what rows
    descend from; then the intervals are by cluster. `sequential`: intervals that stay valid at every look (then without
    `units`).
    """
    everyone = np.ones(len(favoured), bool)
    parts = {SELECTION: (favoured, everyone)}
    if deserving is not None:
        parts[TRUE_POSITIVE] = (favoured, deserving)
        parts[FALSE_POSITIVE] = (favoured, ~deserving)
        parts[PRECISION] = (deserving, favoured)
        parts[ACCURACY] = (favoured == deserving, everyone)
    k = len(groups.names)
    rows = np.bincount(groups.codes, minlength=k).tolist()
    hits = {name: np.bincount(groups.codes[hit & of], minlength=k).tolist() for name, (hit, of) in parts.items()}
    tried = {name: np.bincount(groups.codes[of], minlength=k).tolist() for name, (_, of) in parts.items()}
    members = None if units is None or sequential else _members(groups.codes, k)
    found = []
    for place, group in enumerate(groups.names):
        counts = {name: (hits[name][place], tried[name][place]) for name in parts}
        rates = {}
        for name, (won, n) in counts.items():
            if n == 0:
                rates[name] = undefined(_nothing_of(name, group, rows[place]))
            elif sequential:
                rates[name] = rate_sequence(won, n)
            elif members is None or units is None:
                rates[name] = wilson(won, n)
            else:
                hit, of = parts[name]
                own = members[place][of[members[place]]]
                rates[name] = rate_of_rows(hit[own], np.unique(units[own], return_inverse=True)[1])
        found.append(
            GroupRates(
                name=group, rows=rows[place], rates=rates, counts=counts, sequential=sequential, clustered=members is not None
            )
        )
    return found


def difference(first: GroupRates, second: GroupRates, rate: str) -> Estimate:
    """The rate of the first group minus that of the second, in [-1, 1].

    By `rate`: statistical parity difference (`selection_rate`), equal opportunity difference (`true_positive_rate`),
    predictive parity difference (`precision`), average odds difference (`average_odds`: mean of the differences in true and
    false positive rate; their intervals are put together by square and add, Zou and Donner 2008). Newcombe's interval of
    effective counts; of confidence sequences the box, each rate at half of the error.
    """
    if rate == AVERAGE_ODDS:
        return _mean_of_two(first, second)
    one, other = first.rates[rate], second.rates[rate]
    if one.value is None or other.value is None:
        return undefined(_why(one, other), min(one.n, other.n))
    rows = first.rows + second.rows
    if first.sequential:
        interval = partial(_box_difference, one, other)
        return Estimate(value=one.value - other.value, n=min(one.n, other.n), interval=interval, rows=rows)
    found = rate_difference(one, other)
    return Estimate(value=found.value, n=found.n, interval=found.interval, rows=rows)


def ratio(first: GroupRates, second: GroupRates, rate: str = SELECTION) -> Estimate:
    """The rate of the first group over that of the second, at least 0; undefined where the second's is 0.

    See `rate_ratio`; of confidence sequences the box, each rate at half of the error.
    """
    one, other = first.rates[rate], second.rates[rate]
    if one.value is None or other.value is None:
        return undefined(_why(one, other), min(one.n, other.n))
    if other.value == 0:
        return undefined(f"the rate of the reference group {second.name} is 0: there is no ratio", min(one.n, other.n))
    interval = partial(_box_ratio, one, other) if first.sequential else rate_ratio(one, other).interval
    n, rows = min(one.n, other.n), first.rows + second.rows
    return Estimate(value=one.value / other.value, n=n, interval=interval, rows=rows)


def row_count(n: int) -> str:
    """`1 row`, `1,200 rows`."""
    return f"{n:,} row{'' if n == 1 else 's'}"


def _members(codes: NDArray[np.int64], k: int) -> list[NDArray[np.intp]]:
    """The rows of each group, in their order."""
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.searchsorted(codes[order], np.arange(1, k)))


def _nothing_of(rate: str, group: str, rows: int) -> str:
    if rows == 0:
        return f"{group}: none of its rows has a usable answer"
    if rate == TRUE_POSITIVE:
        return f"{group}: none of its {row_count(rows)} has the favourable label"
    if rate == FALSE_POSITIVE:
        return f"{group}: all of its {row_count(rows)} have the favourable label"
    return f"{group}: none of its {row_count(rows)} is decided favourably"


def _why(one: Estimate, other: Estimate) -> str:
    return "; ".join(part.reason for part in (one, other) if part.value is None and part.reason)


def _mean_of_two(first: GroupRates, second: GroupRates) -> Estimate:
    hits, alarms = (difference(first, second, rate) for rate in (TRUE_POSITIVE, FALSE_POSITIVE))
    if hits.value is None or alarms.value is None:
        return undefined(_why(hits, alarms), min(hits.n, alarms.n))
    value, n = (hits.value + alarms.value) / 2, min(hits.n, alarms.n)
    # Rows with and without the favourable label say nothing of each other, unless they descend from the same units.
    if first.sequential:
        interval = partial(_box_mean, hits, alarms)
    elif first.clustered:
        interval = partial(_mean_of_bounds, hits, alarms)
    else:
        interval = partial(_square_and_add, hits, alarms)
    return Estimate(value=value, n=n, interval=interval, rows=hits.rows)


def _box_difference(one: Estimate, other: Estimate, confidence: float) -> tuple[float, float]:
    (low_1, high_1), (low_2, high_2) = (_of_rate(part, (1 + confidence) / 2) for part in (one, other))
    return low_1 - high_2, high_1 - low_2


def _box_ratio(one: Estimate, other: Estimate, confidence: float) -> tuple[float, float]:
    (low_1, high_1), (low_2, high_2) = (_of_rate(part, (1 + confidence) / 2) for part in (one, other))
    return ratio_limits(low_1 / high_2, high_1 / low_2 if low_2 > 0 else math.inf)


def _box_mean(one: Estimate, other: Estimate, confidence: float) -> tuple[float, float]:
    return _mean_of_bounds(one, other, (1 + confidence) / 2)


def _mean_of_bounds(one: Estimate, other: Estimate, confidence: float) -> tuple[float, float]:
    (low_1, high_1), (low_2, high_2) = (_of_gap(part, confidence) for part in (one, other))
    return (low_1 + low_2) / 2, (high_1 + high_2) / 2


def _square_and_add(one: Estimate, other: Estimate, confidence: float) -> tuple[float, float]:
    (low_1, high_1), (low_2, high_2) = (_of_gap(part, confidence) for part in (one, other))
    value_1, value_2 = one.value or 0.0, other.value or 0.0
    below = math.hypot(value_1 - low_1, value_2 - low_2) / 2
    above = math.hypot(high_1 - value_1, high_2 - value_2) / 2
    return (value_1 + value_2) / 2 - below, (value_1 + value_2) / 2 + above


def _of_rate(rate: Estimate, confidence: float) -> tuple[float, float]:
    # Beyond what a float can say of a confidence nothing is known; likewise below.
    return (rate.bounds(confidence) if confidence < 1 else None) or (0.0, 1.0)


def _of_gap(gap: Estimate, confidence: float) -> tuple[float, float]:
    return (gap.bounds(confidence) if confidence < 1 else None) or (-1.0, 1.0)
