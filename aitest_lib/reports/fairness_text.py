"""Tabular fairness as plain text for a terminal: a line a group, two lines on pairs, a line a moved column."""

from __future__ import annotations

from textwrap import wrap

from aitest_lib.reports.fairness_view import rate_of, should_words, shown_groups, titles, values_words, yield_of
from aitest_lib.reports.records_fairness import Attribute, DirectionReport, FairGroup, PairReport
from aitest_lib.reports.report import PropertyReport
from aitest_lib.reports.tables import clip, interval, number

NAME = 24  # characters of a group or a column
ROWS, RATE, RATIO = 9, 9, 24  # of the figures
NARROWEST = NAME + ROWS + RATE + RATIO
WHOSE_BOUNDS = (
    "bounds of one group beside the reference are its own; those of the attribute and of its gate hold at once for all pairs "
    "of groups that are compared"
)
MAX_LINES = 30  # groups of an attribute, and columns


def fairness_lines(report: PropertyReport, width: int) -> list[str]:
    """Groups, pairs and directions of a property in lines of `width` characters (66 at least)."""
    width = max(width, NARROWEST)
    lines: list[str] = []
    if report.groups:
        attributes = report.groups.attributes
        for item, title in zip(attributes, titles(attributes), strict=True):
            lines += _groups(item, title, width)
        if any(item.ratio is not None for item in attributes):
            lines += wrap(WHOSE_BOUNDS, width)
    if report.pairs and report.pairs.prevalence is not None:
        lines += ["", *_pairs(report.pairs, width)]
    if report.directions:
        lines += ["", *_directions(report.directions, width)]
    return lines


def _groups(item: Attribute, title: str, width: int) -> list[str]:
    head = f"{clip(f'by {title}', NAME - 1):<{NAME}}{'rows':>{ROWS}}{'rate':>{RATE}}{'impact ratio':>{RATIO}}"
    unjudged = wrap(f"unjudged: {clip(item.unjudged, 400)}", width) if item.unjudged else []
    if not item.groups:
        return ["", f"by {clip(title, NAME)}", *unjudged]
    lines = []
    for group in shown_groups(item, MAX_LINES):
        rate = rate_of(group)
        figure = "–" if rate is None or rate.value is None else number(rate.value)
        name = f"{clip(group.name, NAME - 1):<{NAME}}"
        lines.append(f"{name}{group.rows:>{ROWS},}{figure:>{RATE}} {_ratio(group):>{RATIO - 1}}")
    return ["", head, *lines, *_more(len(item.groups), "groups"), *unjudged]


def _ratio(group: FairGroup) -> str:
    if group.reference:
        return "reference"
    if group.impact_ratio is None:
        return "undefined"
    return f"{number(group.impact_ratio)} {interval(group.ratio_low, group.ratio_high)}".rstrip()


def _pairs(pairs: PairReport, width: int) -> list[str]:
    figure = f"{number(pairs.prevalence)} {interval(pairs.low, pairs.high)}".rstrip()
    most = max((one for one in pairs.flips if one.rate), key=lambda one: one.rate or 0.0, default=None)
    by = "" if most is None else f"; most by {values_words(most.values)} ({number(most.rate)})"
    lines = [f"decided otherwise: {figure} of {pairs.rows:,} rows{by}"]
    rate = yield_of(pairs)
    if pairs.search is not None and rate is not None:
        found = f"{pairs.search.found:,} more with {pairs.search.queries:,} queries, {rate:.1f} per 1,000"
        lines.append(f"found by a search: {found}")
    return [clip(line, width) for line in lines]


def _directions(directions: list[DirectionReport], width: int) -> list[str]:
    lines = []
    for item in sorted(directions, key=lambda one: -(one.rate or 0.0))[:MAX_LINES]:
        if item.rate is None:
            said = "no row was answered"
        else:
            figure = f"{number(item.rate)} {interval(item.low, item.high)}".rstrip()
            should = should_words(item.expected, item.on, "it", item.favorable).removeprefix("more of it ")
            said = f"{figure} of {item.rows:,} rows go against: {should}"
        lines.append(f"{clip(item.column, NAME - 1):<{NAME}}{clip(said, width - NAME)}")
    return lines + _more(len(directions), "columns")


def _more(rows: int, noun: str) -> list[str]:
    return [f"and {rows - MAX_LINES:,} more {noun}"] if rows > MAX_LINES else []
