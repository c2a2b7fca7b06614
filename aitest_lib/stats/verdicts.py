"""From figures and gates to verdicts: passed, failed, or inconclusive and what would settle it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from aitest_lib.errors import InputError
from aitest_lib.stats.estimates import Estimate
from aitest_lib.stats.multiple import holm
from aitest_lib.stats.planning import rows_needed, seeds_needed
from aitest_lib.types import Status

MOST_ROWS = 1_000_000  # beyond which nobody asks how many more there would have to be
Decide = Literal["interval", "point"]


@dataclass(frozen=True, kw_only=True)
class GateInput:
    """One gate and the figure it judges.

    `min`, `max`: the thresholds, at least one of them, both inclusive. `pessimistic`: the same figure with every error case
    counted as a failure, None when there are no errors or it does not apply. `incomplete`: why not everything was asked
    ("budget"), `unjudged`: why the figure cannot speak for the whole; such a gate can fail, but not pass.
    """

    metric: str
    estimate: Estimate
    slice: dict[str, Any] = field(default_factory=dict)
    min: float | None = None
    max: float | None = None
    pessimistic: Estimate | None = None
    incomplete: str | None = None
    unjudged: str | None = None


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The verdict on one gate and why."""

    metric: str
    slice: dict[str, Any]
    min: float | None
    max: float | None
    verdict: Status
    reason: str


@dataclass(frozen=True)
class _Side:
    """One threshold of a gate: the figure must lie above it (`floor`) or below it."""

    threshold: float
    floor: bool

    def cleared(self, low: float, high: float) -> bool:
        return low >= self.threshold if self.floor else high <= self.threshold

    def missed(self, low: float, high: float) -> bool:
        return high < self.threshold if self.floor else low > self.threshold

    def p_missed(self, estimate: Estimate) -> float:
        return estimate.p_below(self.threshold) if self.floor else estimate.p_above(self.threshold)

    @property
    def beyond(self) -> str:
        return f"is {'below' if self.floor else 'above'} {self.threshold:g}"


def judge(gates: Sequence[GateInput], confidence: float = 0.95, decide: Decide = "interval") -> list[Judgement]:
    """The verdicts on the gates of one property, in their order.

    A gate passes if the one-sided bound at `confidence` clears the threshold, also with every error counted as a failure.
    It fails if the whole interval is beyond the threshold; these verdicts are Holm-corrected over the list. Else it is
    inconclusive. `decide="point"` compares the values alone.
    """
    sides = [_sides(gate) for gate in gates]
    if decide == "point":
        return [_result(gate, *_complete(gate, _by_value(gate, own))) for gate, own in zip(gates, sides, strict=True)]
    family = [(gate, side) for gate, own in zip(gates, sides, strict=True) for side in own]
    adjusted = iter(holm([side.p_missed(gate.estimate) for gate, side in family]).tolist())
    results = []
    for gate, own in zip(gates, sides, strict=True):
        rulings = [_by_interval(gate, side, next(adjusted), len(family), confidence) for side in own]
        results.append(_result(gate, *_complete(gate, _merged(own, rulings))))
    return results


Ruling = tuple[Status, str]


def _sides(gate: GateInput) -> list[_Side]:
    sides = [_Side(limit, floor) for limit, floor in ((gate.min, True), (gate.max, False)) if limit is not None]
    if not sides:
        raise InputError(f"gate {gate.metric}: got neither min nor max, expected at least one; write {gate.metric}: {{min: …}}")
    if gate.min is not None and gate.max is not None and gate.min > gate.max:
        raise InputError(f"gate {gate.metric}: got min {gate.min:g} above max {gate.max:g}, expected min <= max; swap them")
    return sides


def _by_value(gate: GateInput, sides: list[_Side]) -> Ruling:
    value = gate.estimate.value
    if value is None:
        return "inconclusive", _undefined(gate)
    for side in sides:
        if side.missed(value, value):
            return "failed", f"{_number(value, side.threshold)} {side.beyond} (the value alone decides)"
    thresholds = " and ".join(f"{side.threshold:g}" for side in sides)
    return "passed", f"{_number(value, sides[0].threshold)} clears {thresholds} (the value alone decides)"


def _by_interval(gate: GateInput, side: _Side, adjusted_p: float, family: int, confidence: float) -> Ruling:
    estimate = gate.estimate
    bounds = estimate.bounds(confidence)
    if estimate.value is None or bounds is None:
        return "inconclusive", _undefined(gate)
    shown = _figure(estimate, side.threshold, confidence)
    if side.missed(*bounds):
        if adjusted_p < 1 - confidence:
            return "failed", f"{shown} {side.beyond}"
        chance = f"may be chance among {family} gates (Holm-corrected p = {adjusted_p:.2g})"
        return "inconclusive", f"{shown} {side.beyond}, but that {chance}{_remedy(estimate, side, confidence)}"
    if not side.cleared(*bounds):
        return "inconclusive", f"{shown} straddles {side.threshold:g}{_remedy(estimate, side, confidence)}"
    if gate.pessimistic is not None:
        worse = gate.pessimistic.bounds(confidence)
        if worse is None or not side.cleared(*worse):
            counted = _figure(gate.pessimistic, side.threshold, confidence)
            return "inconclusive", f"{shown} clears {side.threshold:g}, but not with the errors counted as failures: {counted}"
    return "passed", f"{shown} clears {side.threshold:g}"


def _merged(sides: list[_Side], rulings: list[Ruling]) -> Ruling:
    """A gate with two thresholds: failed before inconclusive before passed."""
    for status in ("failed", "inconclusive"):
        for ruling in rulings:
            if ruling[0] == status:
                return ruling
    return "passed", " and ".join([rulings[0][1], *(f"{side.threshold:g}" for side in sides[1:])])


def _complete(gate: GateInput, ruling: Ruling) -> Ruling:
    status, reason = ruling
    if status == "failed" or not (gate.incomplete or gate.unjudged):
        return ruling
    if gate.unjudged:
        return "inconclusive", reason if gate.unjudged in reason else f"{reason}; {gate.unjudged}"
    return "inconclusive", f"{reason}; not everything was asked: {gate.incomplete}"


def _result(gate: GateInput, status: Status, reason: str) -> Judgement:
    return Judgement(metric=gate.metric, slice=gate.slice, min=gate.min, max=gate.max, verdict=status, reason=reason)


def _undefined(gate: GateInput) -> str:
    value, reason = gate.estimate.value, gate.estimate.reason or "no reason given"
    return f"undefined: {reason}" if value is None else f"{_number(value, value)} has no interval: {reason}"


def _remedy(estimate: Estimate, side: _Side, confidence: float) -> str:
    """How many seeds, or rows, would decide; empty where that cannot be said, and where more are not the answer."""
    if estimate.rows and not estimate.effective_n:
        needed_rows = rows_needed(estimate, side.threshold, confidence)
        rows = None if needed_rows is None else _two_digits(needed_rows)
        if rows and rows > MOST_ROWS:
            return f": so near to it, more than {MOST_ROWS:,} rows would decide ({estimate.rows:,} here)"
        return f": about {rows:,} rows would decide ({estimate.rows:,} here)" if rows and rows > estimate.rows else ""
    if estimate.value is None or not estimate.effective_n or not 0 <= side.threshold <= 1:
        return ""
    needed = seeds_needed(estimate.value, side.threshold, confidence)
    if needed is None:
        return ": at exactly this rate no number of seeds decides"
    seeds = _two_digits(needed * estimate.n / estimate.effective_n)
    return f": about {seeds:,} seeds would decide ({estimate.n:,} here)" if seeds > estimate.n else ""


def _two_digits(count: float) -> int:
    return int(float(f"{count:.1e}"))


def _figure(estimate: Estimate, threshold: float, confidence: float) -> str:
    """Value and bounds: "0.930 [0.909, 0.947]", an open side as a dash; a value that is known, not estimated, has none."""
    bounds = estimate.bounds(confidence)
    if estimate.value is None or bounds is None:
        return f"undefined ({estimate.reason})"
    low, high = bounds
    if low == high:
        return f"{low:,.0f}" if low.is_integer() else _number(low, threshold)
    sides = (_number(side, threshold) if math.isfinite(side) else "–" for side in bounds)
    return f"{_number(estimate.value, threshold)} [{', '.join(sides)}]"


def _number(value: float, threshold: float) -> str:
    """With 3 decimals, or as many (up to 6) as it takes to show on which side of the threshold the value lies."""
    decimals = next((d for d in range(3, 7) if value == threshold or float(f"{value:.{d}f}") != threshold), 6)
    return f"{value:,.{decimals}f}"
