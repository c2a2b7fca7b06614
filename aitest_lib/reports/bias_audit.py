"""The table of a bias audit as CSV: applicants, selected, selection rate and impact ratio of every category.

The columns are those of the published audits under Local Law 144 of New York City (6 RCNY § 5-301), with bounds beside.
"""

from __future__ import annotations

import csv
from io import StringIO

from aitest_lib.reports.fairness_view import rate_of, titles
from aitest_lib.reports.records_fairness import GroupReport
from aitest_lib.reports.tables import printable

COLUMNS = (
    "attribute",
    "category",
    "applicants",
    "selected",
    "rate",
    "rate_low",
    "rate_high",
    "impact_ratio",
    "impact_ratio_low",
    "impact_ratio_high",
    "reference",
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def bias_audit_csv(groups: GroupReport) -> str:
    """One line a group, with a head, attribute by attribute, groups that are left out by request last, without figures.

    `rate` and `impact_ratio` are in [0, 1] and at least 0, empty where they are undefined; bounds are one-sided at the
    suite's confidence. `reference`: the group that the ratio is to. A text that a spreadsheet would run as a formula has a `'`
    before it.
    """
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for item, title in zip(groups.attributes, titles(groups.attributes, 1000), strict=True):
        for group in item.groups:
            rate = rate_of(group)
            figures = [None] * 5 if rate is None else [rate.n, rate.hits, rate.value, rate.low, rate.high]
            ratios = [group.impact_ratio, group.ratio_low, group.ratio_high]
            writer.writerow([_text(title), _text(group.name), *map(_figure, [*figures, *ratios]), _text(item.reference or "")])
        for name, rows in item.excluded.items():
            writer.writerow([_text(title), _text(name), rows, *[""] * 7, _text(item.reference or "")])
    return text.getvalue()


def _figure(value: float | None) -> str:
    return "" if value is None else str(value) if isinstance(value, int) else f"{value:.6g}"


def _text(value: str) -> str:
    # Spreadsheets run a cell that begins like a formula, whatever its quotes (CWE-1236), and skip the spaces before it.
    clean = printable(value)
    return f"'{clean}" if clean.startswith(_FORMULA) or clean.lstrip().startswith(_FORMULA[:4]) else clean
