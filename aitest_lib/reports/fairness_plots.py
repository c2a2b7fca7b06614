"""Figures of tabular fairness as SVG text: groups, segments, and what other protected values turned, row by row."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from aitest_lib.reports import svg
from aitest_lib.reports.fairness_curves import direction_plot, yield_plot
from aitest_lib.reports.fairness_view import rate_of, rate_words, ratio_words, shown_groups, threshold, titles, values_words
from aitest_lib.reports.plots import LIGHT, Palette, Scale, interval_mark, span, ticks
from aitest_lib.reports.records_fairness import Attribute, FairGroup, PairReport, Segment
from aitest_lib.reports.report import PropertyReport
from aitest_lib.reports.tables import clip, interval, minus_signs, number, p_value

WIDE = 860.0  # px of a figure of rows
MAX_ROWS = 40  # rows of one figure; what is beyond stays in the tables
MAX_RATIO = 2.0  # upper end of an axis of impact ratios; bounds beyond it run to the end, open
_ROW = 26.0


@dataclass(frozen=True)
class _Bar:
    """A row of a figure: a rate with bounds as a bar, and what is written beside it."""

    label: str
    value: float | None
    low: float | None
    high: float | None
    words: str
    colour: str


def fairness_figures(report: PropertyReport) -> dict[str, str]:
    """Every figure of groups, pairs and directions that has something to show, by its name, standing alone."""
    made: dict[str, str] = {}
    if report.groups is not None:
        found = [*report.groups.attributes, *report.groups.scores]
        names = [*titles(report.groups.attributes), *(f"{title} by score" for title in titles(report.groups.scores))]
        for item, title in zip(found, names, strict=True):
            edge = threshold(report, item, scores=item in report.groups.scores)
            made[_free(f"groups_{file_name(title)}", made)] = groups_plot(item, title, edge)
        made["segments"] = segments_plot(report.groups.segments)
    if report.pairs is not None:
        made["pairs_flips"] = pairs_plot(report.pairs)
        made["search_yield"] = yield_plot(report.pairs.search) if report.pairs.search else ""
    for moved in report.directions:
        made[_free(f"direction_{file_name(moved.column)}", made)] = direction_plot(moved)
    return {name: figure for name, figure in made.items() if figure}


def file_name(text: str) -> str:
    """A name that every file system takes.

    >>> file_name("sex × race"), file_name("../a b")
    ('sex_race', 'a_b')
    """
    return re.sub(r"[^A-Za-z0-9-]+", "_", text)[:60].strip("_") or "unnamed"


def rate_mark(
    value: float | None, low: float | None, high: float | None, top: float, colour: str, palette: Palette, label: str
) -> str:
    """A rate in [0, `top`] as a bar with its bounds as a whisker, 260 x 26 px; `label` says it in words."""
    scale = Scale(0.0, top, 8, 252)
    marks = [svg.rect(8, 5, 244, 16, palette.grid, 0.5)]
    if value is not None:
        marks.append(_bar(value, low, high, scale, 13, colour, palette))
    return _figure(260, 26, label, marks, palette)


def ratio_mark(group: FairGroup, edge: float | None, top: float, palette: Palette) -> str:
    """The impact ratio of a group in [0, `top`] with bounds, the threshold `edge` and 1 dashed, 260 x 26 px; "" where it is
    undefined or that of the reference itself."""
    if group.impact_ratio is None or group.reference:
        return ""
    low, high = ratio_bounds(group, top)
    edges = [1.0] if edge is None else [edge]
    return interval_mark(group.impact_ratio, low, high, edges, (0.0, top), ratio_colour(group, edge, palette), palette)


def ratio_colour(group: FairGroup, edge: float | None, palette: Palette) -> str:
    """How a ratio stands to the threshold of its gate: beyond it, clear of it, or open; without a gate none of these."""
    if edge is None or group.ratio_low is None or group.ratio_high is None:
        return palette.accent
    if group.ratio_high < edge:
        return palette.failed
    return palette.passed if group.ratio_low >= edge else palette.inconclusive


def ratio_top(item: Attribute) -> float:
    """The upper end of an axis that holds the impact ratios of an attribute, from 1.25 to 2."""
    edges = [edge for group in item.groups for edge in (group.impact_ratio, group.ratio_high) if edge is not None]
    return min(max(1.05 * max(edges, default=0.0), 1.25), MAX_RATIO)


def rate_top(rates: Iterable[float | None]) -> float:
    """The upper end of an axis that holds these rates and bounds: a round one of at least 0.01 and at most 1."""
    highest = max((rate for rate in rates if rate is not None), default=0.0)
    return next(top for top in (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0) if top >= min(highest, 1.0))


def ratio_bounds(group: FairGroup, top: float) -> tuple[float | None, float | None]:
    """The bounds of a ratio as they are drawn: without an end where they leave the axis, the ratio alone without any."""
    if group.ratio_low is None and group.ratio_high is None:
        return group.impact_ratio, group.impact_ratio
    return group.ratio_low, None if group.ratio_high is None or group.ratio_high > top else group.ratio_high


def groups_plot(item: Attribute, title: str, edge: float | None, palette: Palette = LIGHT) -> str:
    """The groups of an attribute, most favoured first: selection rate as a bar, and beside it the impact ratio with bounds
    against 1, or against the threshold `edge` of its gate. "" without a rate."""
    shown = [(group, rate) for group in shown_groups(item, MAX_ROWS) if (rate := rate_of(group)) is not None]
    if not any(rate.value is not None for _, rate in shown):
        return ""
    top = rate_top(edge for _, rate in shown for edge in (rate.value, rate.high))
    bars = []
    for group, rate in shown:
        colour = palette.muted if group.reference else palette.accent
        bars.append(_Bar(clip(group.name, 28), rate.value, rate.low, rate.high, rate_words(rate), colour))
    ratios, limit = Scale(0.0, ratio_top(item), 640, 846), 1.0 if edge is None else edge
    marks = [_rows(bars, top, (230.0, 430.0), f"{clip(title, 60)}: selection rate", palette)]
    words = "impact ratio" if edge is None else f"impact ratio, at least {edge:g}"
    marks.append(svg.text(640, 18, words, palette.ink, weight=600))
    end = 32 + _ROW * len(shown)
    marks.append(svg.line(ratios(limit), 28, ratios(limit), end, palette.ink, dash="3 2"))
    for place, (group, _) in enumerate(shown):
        y = 32 + _ROW * place + _ROW / 2
        marks.append(svg.line(640, y, 846, y, palette.grid))
        if group.reference or group.impact_ratio is None:
            said = "reference" if group.reference else "undefined"
            marks.append(svg.text(646, y - 3, said, palette.muted, size=11))
            continue
        low, high = ratio_bounds(group, ratios.high)
        marks.append(_whisker(group.impact_ratio, low, high, ratios, y, ratio_colour(group, edge, palette), ratio_words(group)))
    marks += _axis(ratios, end, palette)
    more = len(item.groups) - len(shown)
    marks += [svg.text(230, end + 18, f"and {more:,} more groups", palette.muted)] if more else []
    return _figure(WIDE, end + 26, f"Selection rates and impact ratios by {clip(title, 60)}", marks, palette)


def segments_plot(segments: Sequence[Segment], palette: Palette = LIGHT) -> str:
    """The difference in selection rate of a group from its reference within each segment, with bounds, worst first."""
    ranked = sorted(segments, key=lambda one: (not one.flagged, one.difference))[:MAX_ROWS]
    if not ranked:
        return ""
    scale = Scale(*span([0.0, *(edge for one in ranked for edge in (one.low, one.high))]), 372, 622)
    heading = "selection rate, group minus reference, within a segment"
    marks = [svg.text(12, 18, heading, palette.ink, weight=600)]
    end = 32 + _ROW * len(ranked)
    marks.append(svg.line(scale(0.0), 28, scale(0.0), end, palette.ink, dash="3 2"))
    for place, one in enumerate(ranked):
        y = 32 + _ROW * place + _ROW / 2
        name = f"{clip(one.group, 22)}: {clip(one.column, 18)} = {clip(one.value, 18)}"
        words = f"{one.difference:+.3f} {interval(one.low, one.high)}, q {p_value(one.q_value)}"
        colour = palette.failed if one.flagged else palette.muted
        marks += [svg.text(362, y + 4, clip(name, 54), palette.ink, "end"), svg.line(372, y, 622, y, palette.grid)]
        marks.append(_whisker(one.difference, one.low, one.high, scale, y, colour, minus_signs(words)))
        marks.append(svg.text(634, y + 4, minus_signs(words), palette.muted, size=11))
    return _figure(WIDE, end + 26, "Differences within segments", [*marks, *_axis(scale, end, palette)], palette)


def pairs_plot(pairs: PairReport, palette: Palette = LIGHT) -> str:
    """The share of rows that each other value of the protected columns turned, most first; "" where nothing was tried."""
    ranked = sorted((one for one in pairs.flips if one.rate is not None), key=lambda one: -(one.rate or 0.0))[:MAX_ROWS]
    if not ranked:
        return ""
    top = rate_top(edge for one in ranked for edge in (one.rate, one.high))
    bars = [
        _Bar(
            clip(values_words(one.values), 38),
            one.rate,
            one.low,
            one.high,
            f"{number(one.rate)} {interval(one.low, one.high)}, {one.turned:,} of {one.rows:,} rows",
            palette.accent,
        )
        for one in ranked
    ]
    heading = "share of rows decided otherwise with these values"
    marks = [_rows(bars, top, (282.0, 560.0), heading, palette)]
    return _figure(WIDE, 40 + _ROW * len(bars), "What other protected values turned", marks, palette)


def _rows(bars: Sequence[_Bar], top: float, ends: tuple[float, float], heading: str, palette: Palette) -> str:
    """Rates as bars one below the other, from y = 32 on, on a scale from 0 to `top` between `ends`."""
    scale = Scale(0.0, top, *ends)
    marks = [svg.text(12, 18, heading, palette.ink, weight=600)]
    for place, bar in enumerate(bars):
        y = 32 + _ROW * place + _ROW / 2
        marks.append(svg.text(ends[0] - 10, y + 4, bar.label, palette.ink, "end"))
        marks.append(svg.rect(ends[0], y - 8, ends[1] - ends[0], 16, palette.grid, 0.5))
        if bar.value is not None:
            marks.append(_bar(bar.value, bar.low, bar.high, scale, y, bar.colour, palette))
        marks.append(svg.text(ends[1] + 10, y + 4, bar.words, palette.muted, size=11))
    return "".join(marks)


def _bar(value: float, low: float | None, high: float | None, scale: Scale, y: float, colour: str, palette: Palette) -> str:
    """A bar from 0 to `value` and the whisker of its bounds."""
    marks = svg.rect(scale.start, y - 8, scale(value) - scale.start, 16, colour, 0.7)
    if low is not None and high is not None:
        ends = (svg.line(scale(edge), y - 4, scale(edge), y + 4, palette.ink, 1.4) for edge in (low, high))
        marks += svg.line(scale(low), y, scale(high), y, palette.ink, 1.4) + "".join(ends)
    return marks


def _whisker(value: float, low: float | None, high: float | None, scale: Scale, y: float, colour: str, title: str) -> str:
    """A figure as a dot with its bounds; an open side runs to the end of the scale."""
    left, right = scale.start if low is None else scale(low), scale.end if high is None else scale(high)
    ends = [svg.line(x, y - 4, x, y + 4, colour, 2) for x, edge in ((left, low), (right, high)) if edge is not None]
    return svg.line(left, y, right, y, colour, 2) + "".join(ends) + svg.dot(scale(value), y, colour, title)


def _axis(scale: Scale, y: float, palette: Palette) -> list[str]:
    return [
        svg.line(scale(tick), y, scale(tick), y + 4, palette.muted)
        + svg.text(scale(tick), y + 16, minus_signs(f"{tick:g}"), palette.muted, "middle", size=11)
        for tick in ticks(scale.low, scale.high)
    ]


def _free(name: str, taken: dict[str, str]) -> str:
    """A name that no figure has yet."""
    number_ = 2
    free = name
    while free in taken:
        free, number_ = f"{name}_{number_}", number_ + 1
    return free


def _figure(width: float, height: float, label: str, marks: Iterable[str], palette: Palette) -> str:
    return svg.figure(width, height, label, marks, palette.surface if palette.standalone else None)
