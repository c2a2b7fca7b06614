"""Groups of speakers as a report shows them, and their figures for gates."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from aitest_lib.metrics.wer import WordErrors
from aitest_lib.reports.records import Disparity, GroupErrors
from aitest_lib.reports.records import Errors as WordCounts
from aitest_lib.scorers.figures import Figure
from aitest_lib.scorers.wer import told
from aitest_lib.stats.disparity import TOO_FEW, GroupGaps
from aitest_lib.stats.estimates import Estimate
from aitest_tasks.runs import Run


def of_group(found: WordErrors, speakers: NDArray[np.int64], confidence: float) -> WordCounts:
    """The errors of a group, with bounds by speaker where there are enough of them."""
    errors = told(found, speakers, confidence)
    return errors if len(np.unique(speakers)) >= TOO_FEW else errors.model_copy(update={"low": None, "high": None})


def privileged(run: Run, attribute: str) -> str | None:
    """The group that the suite names as the reference of an attribute."""
    given = run.suite.suite.data.protected.get(attribute)
    return None if given is None or given.privileged is None else str(given.privileged)


def described(
    attribute: str, gaps: GroupGaps, errors: Mapping[str, WordCounts], confidence: float, unsure: str | None = None
) -> tuple[Disparity, list[Figure]]:
    """The groups of an attribute as a report shows them, and their figures. `unsure`: why one cannot be judged."""
    groups, ratios = [], list[Estimate]()
    for group in gaps.groups:
        gap = group.gap.bounds(confidence) if group.gap is not None else None
        ratio = group.ratio.bounds(confidence) if group.ratio is not None else None
        if group.ratio is not None and group.ratio.value is not None:
            ratios.append(group.ratio)
        groups.append(
            GroupErrors(
                name=group.name,
                speakers=group.speakers,
                errors=errors[group.name],
                reference=group.reference,
                gap=group.gap.value if group.gap else None,
                gap_low=gap[0] if gap else None,
                gap_high=gap[1] if gap else None,
                ratio=group.ratio.value if group.ratio else None,
                ratio_low=ratio[0] if ratio else None,
                ratio_high=ratio[1] if ratio else None,
                p_value=group.p_value,
            )
        )
    unjudged = unsure or gaps.unjudged
    where = {"attribute": attribute}
    figures = [
        Figure(name="wer_gap", slice=where, estimate=gaps.worst, higher_is_better=False, component=True, unjudged=unjudged)
    ]
    if ratios:
        worst = max(ratios, key=lambda one: one.value or 0.0)
        figures.append(
            Figure(name="wer_ratio", slice=where, estimate=worst, higher_is_better=False, component=True, unjudged=unjudged)
        )
    return Disparity(attribute=attribute, groups=groups, unjudged=unjudged), figures


def unknown_speakers(one: Disparity, figures: list[Figure], why: str) -> tuple[Disparity, list[Figure]]:
    """The same without bounds: clips of one speaker are not independent, and nobody knows which are."""
    groups = [
        group.model_copy(
            update=dict.fromkeys(("gap_low", "gap_high", "ratio_low", "ratio_high", "p_value"))
            | {"speakers": 0, "errors": group.errors.model_copy(update={"low": None, "high": None})}
        )
        for group in one.groups
    ]
    bare = [
        Figure(
            name=figure.name,
            slice=figure.slice,
            estimate=Estimate(value=figure.estimate.value, n=figure.estimate.n, reason=why),
            higher_is_better=False,
            component=True,
            unjudged=why,
        )
        for figure in figures
    ]
    return one.model_copy(update={"groups": groups, "unjudged": why}), bare
