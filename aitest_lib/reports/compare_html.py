"""A comparison as one self-contained HTML page, in the dress of the report: no request leaves it, everything is escaped."""

from __future__ import annotations

from functools import partial
from typing import Any

from markupsafe import Markup

from aitest_lib.reports import plots
from aitest_lib.reports.compare_text import (
    gate_words,
    margin_words,
    metric_values,
    overview_change,
    points,
    run_words,
    verdict_words,
)
from aitest_lib.reports.comparison import ChangedCase, ChangeVerdict, Comparison, PropertyComparison
from aitest_lib.reports.html import MAX_BYTES, MAX_CELLS, MAX_ROWS, page_environment, sealed

MAX_SLICES = 8
# The report's colours and signs for verdicts on a change.
TONES: dict[ChangeVerdict, str] = {
    "regression": "failed",
    "not_comparable": "inconclusive",
    "not_shown": "inconclusive",
    "no_evidence": "unjudged",
    "non_inferior": "passed",
    "improvement": "passed",
}
_COLOURS = {"failed": plots.PAGE.failed, "passed": plots.PAGE.passed}


def comparison_html(found: Comparison) -> str:
    """The page. One that would be larger than 5 MB shows fewer cases."""
    limit = max((len(item.newly_failing) for item in found.properties), default=0)
    while True:
        page = _render(found, limit)
        if len(page.encode()) <= MAX_BYTES or limit == 0:
            return page
        limit //= 2


def _render(found: Comparison, limit: int) -> str:
    shares = [item.test for item in found.properties if item.test is not None and item.test.unit == "1"]
    # Symmetric around no change, so that the middle of every row means the same.
    reach = max([0.01, *(abs(v) for test in shares for v in (test.change, test.low, test.high) if v is not None)]) * 1.1
    page = (
        page_environment()
        .get_template("compare.html")
        .render(
            c=found,
            runs=run_words(found),
            notices=found.notices,
            weaker=sum(change.weaker for change in found.changes),
            properties=[_property(item, reach, limit, place) for place, item in enumerate(found.properties)],
            margin=margin_words(found.margin),
            words=partial(verdict_words, margin=found.margin),
            tones=TONES,
            points=points,
            gate_words=gate_words,
            metric_values=metric_values,
            max_rows=MAX_ROWS,
            max_slices=MAX_SLICES,
        )
    )
    return sealed(page)


def _property(item: PropertyComparison, reach: float, limit: int, place: int) -> dict[str, Any]:
    return {
        "id": f"p{place}",
        "p": item,
        "mark": _mark(item, reach),
        "change": overview_change(item),
        "cases": [_case(case) for case in item.newly_failing[:limit]],
        "transforms": sorted({case.transform for case in item.newly_failing[:limit] if case.transform}),
    }


def _mark(item: PropertyComparison, reach: float) -> Markup:
    test = item.test
    if test is None:
        return Markup("")
    if test.unit != "1":  # in the units of its label: a scale of its own
        reach = max(abs(value) for value in (test.change, test.low or 0.0, test.high or 0.0)) * 1.1 or 1.0
    colour = _COLOURS.get(TONES[item.verdict], plots.PAGE.muted)
    mark = plots.interval_mark(test.change, test.low, test.high, [0.0], (-reach, reach), colour, plots.PAGE)
    return Markup(mark)  # noqa: S704 -- plots escape their text themselves


def _case(case: ChangedCase) -> dict[str, Any]:
    shown = case.shown
    if shown is None:
        return {"case": case, "cells": []}
    names = [*shown.changed, *(name for name in shown.case if name not in set(shown.changed))][:MAX_CELLS]
    changed = set(shown.changed)
    return {"case": case, "cells": [(n, shown.seed.get(n, ""), shown.case.get(n, ""), n in changed) for n in names]}
