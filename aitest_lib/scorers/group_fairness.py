"""How the groups of a protected attribute are served: figures for gates, and the record of the report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aitest_lib.data.groups import Groups
from aitest_lib.metrics.fairness import (
    ACCURACY,
    AVERAGE_ODDS,
    FALSE_POSITIVE,
    PRECISION,
    SELECTION,
    TRUE_POSITIVE,
    GroupRates,
    difference,
    group_rates,
    ratio,
)
from aitest_lib.reports.records_fairness import Attribute, FairGroup, GroupFigure, GroupPair
from aitest_lib.scorers.figures import Figure
from aitest_lib.scorers.group_choice import choose_groups
from aitest_lib.scorers.group_contrasts import Compared, alike, component_figures, two_sided, why_unjudged
from aitest_lib.stats.estimates import Estimate
from aitest_lib.stats.intervals import finite_bounds
from aitest_lib.stats.multiple import holm
from aitest_lib.stats.worst import at_once

ONE_OF_SEVERAL = "class"
HIGHER_IS_BETTER = {SELECTION: None, TRUE_POSITIVE: True, FALSE_POSITIVE: False, PRECISION: True, ACCURACY: True}
DIFFERENCES = {
    TRUE_POSITIVE: "equal_opportunity_difference",
    AVERAGE_ODDS: "average_odds_difference",
    PRECISION: "predictive_parity_difference",
}


@dataclass(frozen=True, kw_only=True)
class _Rows:
    """The rows that are compared: arguments of `attribute_figures`, without the groups that are left out."""

    groups: Groups
    favoured: NDArray[np.bool_]
    deserving: NDArray[np.bool_] | None
    units: NDArray[np.int64] | None
    failed: NDArray[np.bool_]
    sequential: bool

    def rates(self) -> list[GroupRates]:
        """Of the rows with a usable answer."""
        return self._of(self.favoured, ~self.failed)

    def worst_rates(self, good: bool) -> list[GroupRates]:
        """Of all rows, those without a usable answer counted as if they spoke for (`good`) or against their group."""
        answered = self.favoured & ~self.failed
        everyone = np.ones(len(answered), bool)
        found = self._of(answered | self.failed if good else answered, everyone)
        if self.deserving is None:
            return found
        # Errors that are wrong throughout: the undeserving are favoured, the deserving are not.
        other = self._of(answered | (self.failed & (self.deserving == good)), everyone)
        return [
            replace(one, rates=one.rates | _only(two.rates), counts=one.counts | _only(two.counts))
            for one, two in zip(found, other, strict=True)
        ]

    def rest_gaps(self) -> dict[str, Estimate]:
        """By group its selection rate minus that of all other rows with a usable answer."""
        gaps = {}
        answered = ~self.failed
        for place, name in enumerate(self.groups.names):
            codes = np.where(self.groups.codes == place, 0, 1)[answered]
            two = Groups(codes=codes, names=[name, "all others"], parts=[(name,), ("all others",)])
            units = self.units[answered] if self.units is not None else None
            own, rest = group_rates(two, self.favoured[answered], None, units, sequential=self.sequential)
            gaps[name] = difference(own, rest, SELECTION)
        return gaps

    def _of(self, favoured: NDArray[np.bool_], counted: NDArray[np.bool_]) -> list[GroupRates]:
        return group_rates(
            replace(self.groups, codes=self.groups.codes[counted]),
            favoured[counted],
            self.deserving[counted] if self.deserving is not None else None,
            self.units[counted] if self.units is not None else None,
            sequential=self.sequential,
        )


def attribute_figures(
    name: str,
    columns: Sequence[str],
    groups: Groups,
    favoured: NDArray[np.bool_],
    deserving: NDArray[np.bool_] | None = None,
    units: NDArray[np.int64] | None = None,
    *,
    confidence: float,
    reference: Sequence[str] | None = None,
    favorable: str | None = None,
    one_of_several: bool = False,
    sequential: bool = False,
    errors: NDArray[np.bool_] | None = None,
    smallest_share: float | None = None,
    rate_name: str = SELECTION,
    ratio_name: str = "impact_ratio",
) -> tuple[Attribute, list[Figure]]:
    """The record of an attribute ("sex", or "sex × race" of two `columns`) and its figures.

    `favoured`, `deserving`, `units`, `sequential`: as for `group_rates`, one entry a row. `reference`: the declared group, or
    several that are pooled into one; without one it is the group that is selected most often (of equal ones the larger).
    `favorable`: the answer that is meant; `one_of_several`: the figures are told apart by it (slice `class`). `errors` (n,):
    rows without a usable answer: in no rate, but in the worst case that a gate has to stand. Groups with less than
    `smallest_share` of the rows are left out. `rate_name` and `ratio_name`: what the selection rate and the impact ratio are
    called; differences and the gap are named after the rate where that is not "selection_rate".

    A figure of the attribute (slice `attribute`) is the worst over all ordered pairs of groups, or over those with a declared
    reference; see `largest` for its bounds. Those of a single group beside a reference that the data chose hold for as many
    comparisons at once as there are groups.
    """
    chosen = choose_groups(name, groups, reference, smallest_share)
    kept = chosen.kept
    failed = errors[kept] if errors is not None else np.zeros(int(kept.sum()), bool)
    rows = _Rows(
        groups=chosen.groups,
        favoured=favoured[kept],
        deserving=deserving[kept] if deserving is not None else None,
        units=units[kept] if units is not None else None,
        failed=failed,
        sequential=sequential,
    )
    rates = rows.rates()
    compared = Compared.of(
        rates,
        below=rows.worst_rates(good=False) if failed.any() else None,
        above=rows.worst_rates(good=True) if failed.any() else None,
        declared=chosen.reference,
        confidence=confidence,
    )
    told_apart: dict[str, Any] = {ONE_OF_SEVERAL: favorable} if one_of_several else {}
    figures = component_figures(compared, {"attribute": name} | told_apart, rate_name, ratio_name)
    [whole] = [figure.estimate for figure in figures if figure.name == ratio_name]
    ratio_low, ratio_high = finite_bounds(whole, confidence)
    sizes = np.bincount(chosen.groups.codes, minlength=len(chosen.groups.names)).tolist()
    rest = rows.rest_gaps() if len(rates) > 1 else {}
    rest_p = dict(zip(rest, holm([two_sided(gap) for gap in rest.values()]).tolist(), strict=True))
    records = []
    for place, group in enumerate(compared.rates):
        at = chosen.groups.names.index(group.name)
        slice = dict(zip(columns, chosen.groups.parts[at], strict=True)) | told_apart
        figures += _group_figures(compared, place, slice, rate_name, ratio_name)
        record = _record(compared, place, rate_name, sizes[at], sizes[at] / len(kept))
        if group.name in rest:
            low, high = finite_bounds(rest[group.name], confidence)
            more = {"rest_gap": rest[group.name].value, "rest_low": low, "rest_high": high, "rest_p": rest_p[group.name]}
            record = record.model_copy(update=more)
        records.append(record)
    attribute = Attribute(
        name=name,
        columns=list(columns),
        favorable=favorable,
        reference=compared.base,
        declared=chosen.reference is not None,
        groups=records,
        pairs=_pairs(compared),
        ratio=whole.value,
        ratio_low=ratio_low,
        ratio_high=ratio_high,
        excluded=chosen.excluded,
        cut=groups.cut,
        p_value=alike(compared.rates),
        unjudged=why_unjudged(compared, [SELECTION]),
    )
    return attribute, figures


def _only(of: dict[str, Any]) -> dict[str, Any]:
    return {name: of[name] for name in (PRECISION, ACCURACY)}


def _group_figures(compared: Compared, place: int, slice: dict[str, Any], rate_name: str, ratio_name: str) -> list[Figure]:
    """The rates of a group and its contrasts with the reference, those of the reference itself known; the worst case holds
    whichever way a gate looks."""
    own, below, above = compared.rates[place], compared.below[place], compared.above[place]
    figures = [
        Figure(
            name=rate_name if rate == SELECTION else rate,
            estimate=estimate,
            slice=slice,
            pessimistic=_hull(estimate, below.rates[rate], above.rates[rate]) if compared.erring else None,
            higher_is_better=HIGHER_IS_BETTER[rate],
        )
        for rate, estimate in own.rates.items()
    ]
    base = compared.base_place
    other, other_below, other_above = compared.rates[base], compared.below[base], compared.above[base]
    contrasts: list[tuple[str, str, Callable[[GroupRates, GroupRates, str], Estimate], bool | None]]
    contrasts = [(ratio_name, SELECTION, ratio, True)]
    parity = "statistical_parity_difference" if rate_name == SELECTION else f"{rate_name}_difference"
    contrasts.append((parity, SELECTION, difference, None))
    if TRUE_POSITIVE in own.rates:
        contrasts += [(named, rate, difference, None) for rate, named in DIFFERENCES.items()]
    for named, rate, contrast, better in contrasts:
        estimate = compared.beside(contrast(own, other, rate)) if place != base else _known(contrast(own, own, rate))
        erring = compared.erring and place != base
        worst = (contrast(below, other_above, rate), contrast(above, other_below, rate)) if erring else None
        figures.append(
            Figure(
                name=named,
                estimate=estimate,
                slice=slice,
                pessimistic=_hull(estimate, *(compared.beside(one) for one in worst)) if worst else None,
                higher_is_better=better,
            )
        )
    return figures


def _known(estimate: Estimate) -> Estimate:
    """A contrast of a group with itself, which is known and not estimated."""
    if estimate.value is None:
        return estimate
    return replace(estimate, interval=partial(_at_a_point, estimate.value), rows=None)


def _at_a_point(value: float, confidence: float) -> tuple[float, float]:
    return value, value


def _hull(estimate: Estimate, below: Estimate, above: Estimate) -> Estimate:
    """The figure between its two extremes."""
    if estimate.value is None or below.value is None or above.value is None:
        return next(one for one in (estimate, below, above) if one.value is None)
    return replace(estimate, interval=partial(_hull_interval, below, above), effective_n=None, rows=None)


def _hull_interval(below: Estimate, above: Estimate, confidence: float) -> tuple[float, float]:
    low, high = below.bounds(confidence), above.bounds(confidence)
    return low[0] if low else -np.inf, high[1] if high else np.inf


def _record(compared: Compared, place: int, rate_name: str, rows: int, share: float) -> FairGroup:
    own, base = compared.rates[place], compared.rates[compared.base_place]
    is_base = place == compared.base_place
    figures = []
    for rate, estimate in own.rates.items():
        low, high = finite_bounds(estimate, compared.confidence)
        gap = None if is_base else compared.beside(difference(own, base, rate))
        gap_low, gap_high = finite_bounds(gap, compared.confidence) if gap else (None, None)
        figures.append(
            GroupFigure(
                name=rate_name if rate == SELECTION else rate,
                value=estimate.value,
                low=low,
                high=high,
                n=own.counts[rate][1],
                hits=own.counts[rate][0],
                gap=gap.value if gap else None,
                gap_low=gap_low,
                gap_high=gap_high,
                reason=estimate.reason,
            )
        )
    found = FairGroup(name=own.name, rows=rows, share=share, reference=is_base, figures=figures)
    quotient = compared.beside(ratio(own, base))
    more: dict[str, Any] = {"impact_ratio": quotient.value, "ratio_reason": quotient.reason}
    if not is_base:
        more["ratio_low"], more["ratio_high"] = finite_bounds(quotient, compared.confidence)
        if TRUE_POSITIVE in own.rates:
            odds = compared.beside(difference(own, base, AVERAGE_ODDS))
            low, high = finite_bounds(odds, compared.confidence)
            more |= {"average_odds": odds.value, "average_odds_low": low, "average_odds_high": high}
    return found.model_copy(update=more)


def _pairs(compared: Compared) -> list[GroupPair]:
    """All pairs of groups, with bounds and p-values that hold for all at once."""
    pairs = [(low, high) for place, high in enumerate(compared.rates) for low in compared.rates[place + 1 :]]
    if not pairs:
        return []
    p_values = holm([two_sided(difference(low, high, SELECTION)) for low, high in pairs]).tolist()
    found = []
    for (lower, higher), p_value in zip(pairs, p_values, strict=True):
        quotient = at_once(ratio(lower, higher), len(pairs))
        low, high = finite_bounds(quotient, compared.confidence)
        found.append(GroupPair(first=lower.name, second=higher.name, ratio=quotient.value, low=low, high=high, p_value=p_value))
    return found
