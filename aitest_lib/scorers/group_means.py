"""How a model that answers numbers treats groups: mean answers and errors beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from aitest_lib.data.groups import Groups
from aitest_lib.metrics.fairness import row_count
from aitest_lib.metrics.fairness_means import GroupMean, group_means, mean_difference
from aitest_lib.reports.records_fairness import Attribute, GroupFigure
from aitest_lib.scorers.figures import Figure
from aitest_lib.scorers.group_choice import choose_groups
from aitest_lib.scorers.group_contrasts import NO_TWO_GROUPS, Contrast, Side, contrast_note, from_zero
from aitest_lib.stats.estimates import Estimate, undefined
from aitest_lib.stats.intervals import finite_bounds
from aitest_lib.stats.worst import at_once, largest

MEAN_ANSWER, MEAN_ERROR, MAE = "mean_answer", "mean_error", "mae"
UNIT = "label units"


def mean_figures(
    attribute: Attribute,
    groups: Groups,
    answers: NDArray[np.float64],
    labels: NDArray[np.float64] | None = None,
    units: NDArray[np.int64] | None = None,
    *,
    confidence: float,
    reference: Sequence[str] | None = None,
    sequential: bool = False,
    errors: NDArray[np.bool_] | None = None,
    smallest_share: float | None = None,
) -> tuple[Attribute, list[Figure]]:
    """The record of an attribute with the means of its groups, and their figures; after `attribute_figures`, whose arguments
    of the same name they share.

    `answers`, `labels` (n,), finite where there is a usable answer. By group `mean_answer` and, with labels, `mean_error`
    (answer minus label) and `mae`; for the attribute the largest gap in each between groups, or to a declared reference:
    `mean_answer_gap`, `mean_error_gap`, `mae_gap`. Intervals: Student's and Welch's. A number could be anything where the
    model gave none, so that no gate on such a figure passes with errors in its groups.
    """
    chosen = choose_groups(attribute.name, groups, reference, smallest_share)
    failed = errors if errors is not None else np.zeros(len(chosen.kept), bool)
    answered = ~failed[chosen.kept]
    places = np.flatnonzero(chosen.kept)[answered]
    among = replace(chosen.groups, codes=chosen.groups.codes[answered])
    values = {MEAN_ANSWER: answers[places]}
    if labels is not None:
        with np.errstate(over="ignore"):  # what is too large is undefined
            values[MEAN_ERROR] = answers[places] - labels[places]
        values[MAE] = np.abs(values[MEAN_ERROR])
    own_units = units[places] if units is not None else None
    slices = {
        name: dict(zip(attribute.columns, parts, strict=True)) for name, parts in zip(among.names, among.parts, strict=True)
    }
    comparisons = 1 if attribute.declared else len(among.names)
    without = np.bincount(chosen.groups.codes[~answered], minlength=len(chosen.groups.names)).tolist()
    unanswered = dict(zip(chosen.groups.names, without, strict=True))
    figures: list[Figure] = []
    more: dict[str, list[GroupFigure]] = {group.name: [] for group in attribute.groups}
    for name, column in values.items():
        means = group_means(among, column, own_units, sequential=sequential)
        base = next(one for one in means if one.name == attribute.reference)
        figures.append(_gap_figure(attribute, name, means, confidence, int(failed[chosen.kept].sum())))
        for mean in means:
            better = False if name == MAE else None
            figures.append(
                Figure(
                    name=name,
                    estimate=mean.estimate(),
                    slice=slices[mean.name],
                    pessimistic=_any_number(unanswered[mean.name], mean.rows),
                    unit=UNIT,
                    higher_is_better=better,
                )
            )
            gap = None if mean.name == base.name else at_once(mean_difference(mean, base), comparisons)
            more[mean.name].append(_record(name, mean, gap, confidence))
    records = [group.model_copy(update={"figures": [*group.figures, *more[group.name]]}) for group in attribute.groups]
    return attribute.model_copy(update={"groups": records}), figures


def _gap_figure(attribute: Attribute, name: str, means: Sequence[GroupMean], confidence: float, errors: int) -> Figure:
    reference = attribute.reference if attribute.declared else None
    contrasts = [
        Contrast(lower=_side(low), higher=_side(high), estimate=mean_difference(high, low))
        for low, high in product(means, means)
        if low.name != high.name and (reference is None or reference in (low.name, high.name))
    ]
    found = largest([one.estimate for one in contrasts])
    unjudged = _why_unjudged(means)
    rows = sum(mean.rows for mean in means)
    found = undefined(unjudged or found.reason or NO_TWO_GROUPS, rows) if found.value is None else replace(found, rows=rows)
    return Figure(
        name=f"{name}_gap",
        estimate=from_zero(found),
        slice={"attribute": attribute.name},
        pessimistic=_any_number(errors, rows),
        note=contrast_note(contrasts, found, confidence, side=1, number=",.4g"),
        unit=UNIT,
        higher_is_better=False,
        component=True,
        unjudged=unjudged,
    )


def _any_number(errors: int, rows: int) -> Estimate | None:
    """The worst case of a mean: nothing is known where rows have no usable answer."""
    return undefined(f"{row_count(errors)} without a usable answer could have any number", rows) if errors else None


def _why_unjudged(means: Sequence[GroupMean]) -> str | None:
    """Which groups have no mean, or none with bounds."""
    if len(means) < 2:
        return f"{NO_TWO_GROUPS}: every row is {means[0].name}"
    return "; ".join(reason for mean in means if (reason := mean.estimate().reason) and not mean.sequential) or None


def _side(mean: GroupMean) -> Side:
    return Side(name=mean.name, value=mean.value or 0.0, of=mean.rows)


def _record(name: str, mean: GroupMean, gap: Estimate | None, confidence: float) -> GroupFigure:
    estimate = mean.estimate()
    low, high = finite_bounds(estimate, confidence)
    gap_low, gap_high = finite_bounds(gap, confidence) if gap else (None, None)
    return GroupFigure(
        name=name,
        value=estimate.value,
        low=low,
        high=high,
        n=mean.rows,
        gap=gap.value if gap else None,
        gap_low=gap_low,
        gap_high=gap_high,
        reason=estimate.reason,
    )
