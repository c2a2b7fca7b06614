"""The worst contrast between the groups of an attribute, as a figure that a gate judges, with a word on which groups it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

from aitest_lib.metrics.fairness import (
    AVERAGE_ODDS,
    FALSE_POSITIVE,
    PRECISION,
    SELECTION,
    TRUE_POSITIVE,
    GroupRates,
    difference,
    ratio,
    row_count,
)
from aitest_lib.scorers.figures import Figure
from aitest_lib.stats.estimates import Estimate, undefined
from aitest_lib.stats.worst import at_once, largest, smallest

NO_TWO_GROUPS = "there are no two groups to compare"
NO_SELECTION = "nobody was selected: there is no ratio"
GAPS = {
    "equal_opportunity_gap": [TRUE_POSITIVE],
    "predictive_parity_gap": [PRECISION],
    "average_odds_gap": [AVERAGE_ODDS],
    "equalized_odds_gap": [TRUE_POSITIVE, FALSE_POSITIVE],
}


RATE_WORDS = {  # what a rate is called before its value, and the rows that it is of
    TRUE_POSITIVE: ("true positive rate ", " that deserve it"),
    FALSE_POSITIVE: ("false positive rate ", " that do not deserve it"),
    PRECISION: ("precision ", " decided favourably"),
    AVERAGE_ODDS: ("mean of true and false positive rate ", ""),
}


@dataclass(frozen=True, kw_only=True)
class Compared:
    """The groups of an attribute, most favoured first, and the one that the others stand beside (`base`).

    `below`, `above`: the same with the rows without a usable answer counted against and for the group (`erring`: there are such
    rows). `declared`: the base was named beforehand.
    """

    rates: list[GroupRates]
    below: list[GroupRates]
    above: list[GroupRates]
    erring: bool
    base: str
    declared: bool
    confidence: float

    @classmethod
    def of(
        cls,
        rates: Sequence[GroupRates],
        *,
        below: Sequence[GroupRates] | None,
        above: Sequence[GroupRates] | None,
        declared: str | None,
        confidence: float,
    ) -> Compared:
        """The groups in order, with the declared base or the first of them."""
        order = sorted(range(len(rates)), key=lambda place: _rank(rates[place]))
        first, second, third = ([list(part)[at] for at in order] for part in (rates, below or rates, above or rates))
        return cls(
            rates=first,
            below=second,
            above=third,
            erring=below is not None,
            base=declared if declared is not None else first[0].name,
            declared=declared is not None,
            confidence=confidence,
        )

    @property
    def base_place(self) -> int:
        """Where the base stands among the groups."""
        return next(place for place, one in enumerate(self.rates) if one.name == self.base)

    def beside(self, contrast: Estimate) -> Estimate:
        """A contrast of one group and the base: any group could have become a base that the data chose."""
        return contrast if self.declared else at_once(contrast, len(self.rates))


@dataclass(frozen=True, kw_only=True)
class Side:
    """One group of a contrast: its figure `of` so many rows. `rate`: which figure that is, and `which` rows, where the name of
    the contrast does not say so."""

    name: str
    value: float
    of: int
    rate: str = ""
    which: str = ""


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """A `lower` group against a `higher` one: the ratio of their figures, or the higher one minus the lower one."""

    lower: Side
    higher: Side
    estimate: Estimate


def ratio_contrasts(below: Sequence[GroupRates], above: Sequence[GroupRates], reference: str | None) -> list[Contrast]:
    """The ratio of the selection rates of each ordered pair of groups, or of each group to a declared reference.

    The numerators are taken from `below` and the denominators from `above`, lists of the same groups.
    """
    return [
        Contrast(lower=_side(low, SELECTION), higher=_side(high, SELECTION), estimate=ratio(low, high))
        for low, high in product(below, above)
        if low.name != high.name and (reference is None or high.name == reference)
    ]


def gap_contrasts(
    below: Sequence[GroupRates], above: Sequence[GroupRates], rates: Sequence[str], reference: str | None
) -> list[Contrast]:
    """The difference in each rate of each ordered pair of groups, or of each group and a declared reference, either way."""
    return [
        Contrast(lower=_side(low, rate), higher=_side(high, rate), estimate=difference(high, low, rate))
        for rate in rates
        for low, high in product(below, above)
        if low.name != high.name and (reference is None or reference in (low.name, high.name))
    ]


def component_figures(compared: Compared, slice: dict[str, Any], rate_name: str, ratio_name: str) -> list[Figure]:
    """The figures of an attribute as a whole: the smallest ratio, and the largest gaps in either direction."""
    figures = [ratio_figure(compared, ratio_name, slice)]
    parity = "statistical_parity_gap" if rate_name == SELECTION else f"{rate_name}_gap"
    figures.append(gap_figure(compared, parity, [SELECTION], slice))
    if TRUE_POSITIVE in compared.rates[0].rates:
        figures += [gap_figure(compared, name, rates, slice) for name, rates in GAPS.items()]
    return figures


def ratio_figure(compared: Compared, name: str, slice: dict[str, Any]) -> Figure:
    """The smallest ratio of selection rates, `smallest` of the ordered pairs or of those against the declared reference."""
    reference = compared.base if compared.declared else None
    contrasts = ratio_contrasts(compared.rates, compared.rates, reference)
    worst = ratio_contrasts(compared.below, compared.above, reference)
    found = smallest([one.estimate for one in contrasts])
    unjudged = why_unjudged(compared, [SELECTION])
    return Figure(
        name=name,
        estimate=_whole(compared, found, unjudged or _no_ratio(compared)),
        slice=slice,
        pessimistic=_whole(compared, smallest([one.estimate for one in worst]), unjudged) if compared.erring else None,
        note=contrast_note(contrasts, found, compared.confidence, side=0),
        component=True,
        unjudged=unjudged,
    )


def gap_figure(compared: Compared, name: str, rates: Sequence[str], slice: dict[str, Any]) -> Figure:
    """The largest difference in any of the rates, `largest` of the ordered pairs or of those with the declared reference."""
    reference = compared.base if compared.declared else None
    contrasts = gap_contrasts(compared.rates, compared.rates, rates, reference)
    worst = gap_contrasts(compared.below, compared.above, rates, reference)
    found = largest([one.estimate for one in contrasts])
    unjudged = why_unjudged(compared, rates)
    return Figure(
        name=name,
        estimate=from_zero(_whole(compared, found, unjudged)),
        slice=slice,
        pessimistic=from_zero(_whole(compared, largest([one.estimate for one in worst]), unjudged))
        if compared.erring
        else None,
        note=contrast_note(contrasts, found, compared.confidence, side=1),
        higher_is_better=False,
        component=True,
        unjudged=unjudged,
    )


def why_unjudged(compared: Compared, rates: Sequence[str]) -> str | None:
    """Which groups lack one of the rates, and why; None where none does. Fewer than two groups cannot be compared at all."""
    if len(compared.rates) < 2:
        return f"{NO_TWO_GROUPS}: every row is {compared.rates[0].name}" if compared.rates else NO_TWO_GROUPS
    parts = [part for rate in rates for part in ([TRUE_POSITIVE, FALSE_POSITIVE] if rate == AVERAGE_ODDS else [rate])]
    reasons = [group.rates[part].reason for group in compared.rates for part in parts if group.rates[part].value is None]
    return "; ".join(dict.fromkeys(reason for reason in reasons if reason)) or None


def alike(rates: Sequence[GroupRates]) -> float | None:
    """p-value of "all groups are selected alike", over all ordered pairs at once (Bonferroni); None without two groups.

    From 0.5 on it is 1: bounds are not looked at below a confidence of one half.
    """
    gaps = [one.estimate for one in gap_contrasts(rates, rates, [SELECTION], None)]
    if all(gap.value is None for gap in gaps):
        return None
    found = largest(gaps).p_above(0.0)
    return found if found < 0.5 else 1.0


def two_sided(gap: Estimate) -> float:
    """Two-sided p-value of "the figure is 0"; 1 where it is undefined."""
    if not gap.value:
        return 1.0
    return min(1.0, 2 * (gap.p_above(0.0) if gap.value > 0 else gap.p_below(0.0)))


def _rank(group: GroupRates) -> tuple[float, int, str]:
    rate = group.rates[SELECTION].value
    return (math.inf if rate is None else -rate, -group.rows, group.name)


def _no_ratio(compared: Compared) -> str:
    if not any(one.rates[SELECTION].value for one in compared.rates):
        return NO_SELECTION
    return f"the rate of the reference group {compared.base} is 0: there is no ratio"


def _whole(compared: Compared, found: Estimate, reason: str | None) -> Estimate:
    rows = sum(one.rows for one in compared.rates)
    return undefined(reason or found.reason or NO_TWO_GROUPS, rows) if found.value is None else replace(found, rows=rows)


def from_zero(gap: Estimate) -> Estimate:
    """The largest gap in either direction is never below 0, and so is its lower bound."""
    return gap if gap.interval is None else replace(gap, interval=partial(_cut_interval, gap))


def _cut_interval(gap: Estimate, confidence: float) -> tuple[float, float]:
    low, high = gap.bounds(confidence) or (0.0, math.inf)
    return max(low, 0.0), high


def contrast_note(
    contrasts: Sequence[Contrast], found: Estimate, confidence: float, side: int, number: str = ".3f"
) -> str | None:
    """Which groups the worst contrast is of, and which group leaves the most open where that is another one.

    `side`: the bound that a gate wants to clear, 0 the lower, 1 the upper one; `number`: how figures are written.
    """
    defined = [one for one in contrasts if one.estimate.value is not None]
    worst = next((one for one in defined if one.estimate.value == found.value), None)
    if worst is None:
        return None
    lower, higher = (
        f"{one.name} ({one.rate}{one.value:{number}} of {row_count(one.of)}{one.which})" for one in (worst.lower, worst.higher)
    )
    text = f"lowest: {lower} against {higher}"
    if all(one.estimate.interval is None for one in defined):
        return text
    ends = [((one.estimate.bounds(confidence) or (-math.inf, math.inf))[side], one) for one in defined]
    widest = (max if side else min)(ends, key=lambda end: end[0])[1]
    least = min(widest.lower, widest.higher, key=lambda one: one.of)
    if least.name in (worst.lower.name, worst.higher.name):
        return text
    return f"{text}; {least.name}, with {row_count(least.of)}, leaves the most open"


def _side(group: GroupRates, rate: str) -> Side:
    parts = [TRUE_POSITIVE, FALSE_POSITIVE] if rate == AVERAGE_ODDS else [rate]
    value = sum(group.rates[part].value or 0.0 for part in parts) / len(parts)
    named, which = RATE_WORDS.get(rate, ("", ""))
    rows = group.rows if rate == AVERAGE_ODDS else group.counts[rate][1]
    return Side(name=group.name, value=value, of=rows, rate=named, which=which)
