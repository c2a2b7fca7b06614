"""Groups, segments and moved columns made of counts, with the bounds of these: what `fairness_sample` is made of."""

from __future__ import annotations

import math
from typing import Any, Literal

from aitest_lib.reports.records_fairness import (
    Attribute,
    DirectionStep,
    FairGroup,
    Flip,
    GroupFigure,
    GroupPair,
    Segment,
)
from aitest_lib.stats.estimates import Estimate
from aitest_lib.stats.intervals import katz, newcombe, wilson

CONFIDENCE = 0.95
FAVORABLE = ">50K"
Counts = tuple[int, int, int, int]  # rows, those with the favourable label, and of these two the selected ones


def attribute(
    name: str,
    counts: dict[str, Counts],
    *,
    favorable: str | None = FAVORABLE,
    labelled: bool = True,
    columns: list[str] | None = None,
    **more: Any,
) -> Attribute:
    """The groups of these counts beside the first of them."""
    base = next(iter(counts))
    made = [_group(group, counts, base, labelled) for group in counts]
    others = [group for group in made if not group.reference and group.impact_ratio is not None]
    lowest = min(others, key=lambda group: group.impact_ratio or 0.0, default=None)
    fields: dict[str, Any] = {
        "name": name,
        "columns": columns or [name],
        "favorable": favorable,
        "reference": base,
        "groups": made,
        "pairs": _pairs(counts),
        "ratio": lowest and lowest.impact_ratio,
        "ratio_low": lowest and lowest.ratio_low,
        "ratio_high": lowest and lowest.ratio_high,
        "p_value": None if more.get("unjudged") else 1e-9,
    }
    return Attribute(**(fields | more))


def segment(
    group: str,
    reference: str,
    column: str,
    value: str,
    here: tuple[int, int],
    there: tuple[int, int],
    q: float,
    flagged: bool,
    attribute_name: str = "sex",
) -> Segment:
    """A segment with its (rows, selected rows) in the group and in the reference group."""
    difference = newcombe(here[1], here[0], there[1], there[0])
    low, high = bounds(difference)
    return Segment(
        attribute=attribute_name,
        group=group,
        reference=reference,
        column=column,
        value=value,
        rows=here[0],
        reference_rows=there[0],
        rate=here[1] / here[0],
        reference_rate=there[1] / there[0],
        difference=difference.value or 0.0,
        low=low,
        high=high,
        q_value=q,
        flagged=flagged,
    )


def flip(values: dict[str, str], rows: int, turned: int) -> Flip:
    return Flip(values=values, rows=rows, turned=turned, rate=turned / rows, **named(wilson(turned, rows)))


def step(value: float | str, middle: float | None, against: int = 0, rows: int = 500) -> DirectionStep:
    edges = {} if middle is None else {"low": middle - 0.012, "high": middle + 0.012}
    return DirectionStep(value=value, mean=middle, rows=rows, against=against, **edges)


def estimate(name: str, found: Estimate, hits: int | None = None) -> GroupFigure:
    edges = {} if found.value is None else named(found)
    return GroupFigure(name=name, value=found.value, n=found.n, hits=hits, reason=found.reason, **edges)


def bounds(found: Estimate) -> tuple[float, float]:
    edges = found.bounds(CONFIDENCE)
    assert edges is not None
    return edges


def named(found: Estimate) -> dict[Literal["low", "high"], Any]:
    low, high = bounds(found)
    return {"low": low, "high": high}


def _rates(counts: Counts, labelled: bool) -> list[tuple[str, int, int]]:
    rows, positives, hits, false = counts
    selected = hits + false
    if not labelled:
        return [("selection_rate", selected, rows)]
    return [
        ("selection_rate", selected, rows),
        ("true_positive_rate", hits, positives),
        ("false_positive_rate", false, rows - positives),
        ("precision", hits, selected),
        ("accuracy", hits + rows - positives - false, rows),
    ]


def _group(name: str, counts: dict[str, Counts], base: str, labelled: bool) -> FairGroup:
    mine, total = counts[name], sum(rows for rows, *_ in counts.values())
    made = []
    for (figure, hits, n), (_, other_hits, other_n) in zip(_rates(mine, labelled), _rates(counts[base], labelled), strict=True):
        one = estimate(figure, wilson(hits, n), hits)
        gap = newcombe(hits, n, other_hits, other_n)
        if name != base and gap.value is not None:
            low, high = bounds(gap)
            one = one.model_copy(update={"gap": gap.value, "gap_low": low, "gap_high": high})
        made.append(one)
    selected, picked = mine[2] + mine[3], counts[base][2] + counts[base][3]
    ratio = katz(selected, mine[0], picked, counts[base][0])
    fields: dict[str, Any] = {"impact_ratio": ratio.value, "ratio_reason": ratio.reason}
    if name != base and ratio.value is not None:
        fields |= {"ratio_low": bounds(ratio)[0], "ratio_high": bounds(ratio)[1]}
    if labelled and name != base:
        gaps = [one.gap for one in made[1:3]]
        if None not in gaps:
            odds = math.fsum(gap or 0.0 for gap in gaps) / 2
            fields |= {"average_odds": odds, "average_odds_low": odds - 0.03, "average_odds_high": odds + 0.03}
    others = [one for other, one in counts.items() if other != name]
    rest = newcombe(selected, mine[0], sum(one[2] + one[3] for one in others), sum(one[0] for one in others))
    low, high = bounds(rest)
    fields |= {"rest_gap": rest.value, "rest_low": low, "rest_high": high, "rest_p": 0.0004}
    return FairGroup(name=name, rows=mine[0], share=mine[0] / total, reference=name == base, figures=made, **fields)


def _pairs(counts: dict[str, Counts]) -> list[GroupPair]:
    made = []
    names = list(counts)
    for place, second in enumerate(names):
        for first in names[place + 1 :]:
            mine, other = counts[first], counts[second]
            ratio = katz(mine[2] + mine[3], mine[0], other[2] + other[3], other[0])
            edges = {} if ratio.value is None else named(ratio)
            made.append(GroupPair(first=first, second=second, ratio=ratio.value, p_value=0.0021, **edges))
    return made
