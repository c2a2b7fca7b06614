"""Curves of tabular fairness as SVG text: what comes of moving a column, and how many pairs a search found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import pairwise

from aitest_lib.reports import svg
from aitest_lib.reports.fairness_view import rises, should_words, value_words, watched_words
from aitest_lib.reports.plots import LIGHT, Palette, Scale, span, ticks
from aitest_lib.reports.records_fairness import DirectionReport, DirectionStep, PairSearchReport
from aitest_lib.reports.tables import clip, interval, minus_signs, number, printable

WIDTH, HEIGHT = 470.0, 262.0  # px
MAX_TICKS = 8  # values named under a curve
_LEFT, _RIGHT, _TOP, _BOTTOM = 56.0, 452.0, 46.0, 208.0


def yield_plot(search: PairSearchReport, palette: Palette = LIGHT) -> str:
    """How many pairs a search had found after so many queries; "" without a curve."""
    if len(search.curve) < 2:
        return ""
    points = sorted(search.curve, key=lambda point: point.queries)
    x = Scale(0.0, float(max(points[-1].queries, 1)), _LEFT, _RIGHT - 8)
    up = Scale(0.0, 1.08 * max(1, points[-1].found), _BOTTOM, _TOP - 16)
    marks = [svg.text(12, 16, "pairs found", palette.ink, weight=600)]
    for tick in ticks(0.0, up.high):
        if not float(tick).is_integer():
            continue
        marks.append(svg.line(_LEFT, up(tick), _RIGHT, up(tick), palette.grid))
        marks.append(svg.text(_LEFT - 6, up(tick) + 4, f"{tick:,.0f}", palette.muted, "end"))
    marks += _value_ticks([(tick, f"{tick:,.0f}") for tick in ticks(0.0, x.high, 5)], x, palette)
    marks.append(svg.text((_LEFT + _RIGHT) / 2, HEIGHT - 14, "queries", palette.ink, "middle", 600))
    path = [(x(point.queries), up(point.found)) for point in points]
    marks.append(svg.polygon([(path[0][0], _BOTTOM), *path, (path[-1][0], _BOTTOM)], palette.accent, 0.12))
    marks.append(svg.polyline(path, palette.accent, 2))
    last = f"{points[-1].found:,} pairs after {points[-1].queries:,} queries"
    marks.append(svg.dot(*path[-1], palette.accent, last))
    return _figure(WIDTH, HEIGHT, f"Pairs found by queries: {last}", marks, palette)


def direction_plot(item: DirectionReport, palette: Palette = LIGHT) -> str:
    """The mean of what was watched over the values of a column, with bounds as a band; the stretches in which rows go against
    the expectation in red, the more rows the stronger; an arrow for the expected direction. "" without two known means."""
    known = [(place, step) for place, step in enumerate(item.steps) if step.mean is not None]
    if len(known) < 2:
        return ""
    x, names = _columns(item.steps)
    heights = [edge for _, step in known for edge in (step.mean, step.low, step.high) if edge is not None]
    up = Scale(*span(heights), _BOTTOM, _TOP)
    marks = [svg.text(12, 16, clip(item.column, 24), palette.ink, weight=600)]
    marks.append(_arrow(rises(item), palette))
    marks.append(svg.text(28, 34, clip(should_words(item.expected, item.on, "it", item.favorable), 52), palette.muted, size=11))
    for tick in ticks(up.low, up.high):
        marks.append(svg.line(_LEFT, up(tick), _RIGHT, up(tick), palette.grid))
        marks.append(svg.text(_LEFT - 6, up(tick) + 4, minus_signs(f"{tick:g}"), palette.muted, "end"))
    marks += _value_ticks(names, x, palette)
    decided = f"share of {item.favorable or 'the favourable answer'}"
    said = decided if item.on == "decision" else f"mean of {watched_words(item)}"
    marks.append(svg.text(_RIGHT, 16, clip(said, 27), palette.muted, "end"))
    where = [x(place) for place in _places(item.steps)]
    marks += _stretches(item, where, palette)
    upper = [(where[place], up(step.high)) for place, step in known if step.high is not None]
    lower = [(where[place], up(step.low)) for place, step in known if step.low is not None]
    if len(upper) > 1:
        marks.append(svg.polygon([*upper, *reversed(lower)], palette.accent, 0.16))
    path = [(where[place], up(step.mean or 0.0)) for place, step in known]
    marks.append(svg.polyline(path, palette.accent, 2))
    for (_, step), (at, height) in zip(known, path, strict=True):
        against = f", {step.against:,} of {step.rows:,} rows against the expectation" if step.against else ""
        title = f"{value_words(step.value)}: {number(step.mean)} {interval(step.low, step.high)}{against}"
        marks.append(svg.dot(at, height, palette.accent, title))
    told = ", ".join(f"{value_words(step.value)} {number(step.mean)}" for _, step in known[:12])
    return _figure(WIDTH, 238.0, f"{clip(item.column, 60)}: mean of {watched_words(item)} at {told}", marks, palette)


def _columns(steps: Sequence[DirectionStep]) -> tuple[Scale, list[tuple[float, str]]]:
    """The scale of the values, and those that are named: as numbers where all are, else side by side."""
    places = _places(steps)
    x = Scale(min(places), max(places), _LEFT + 10, _RIGHT - 10) if max(places) > min(places) else Scale(-1, 1, _LEFT, _RIGHT)
    if all(isinstance(step.value, float) for step in steps):
        if len(steps) <= MAX_TICKS and _spaced(places, x):
            return x, [(place, f"{place:.6g}") for place in places]
        return x, [(tick, f"{tick:.6g}") for tick in ticks(x.low, x.high, 5)]
    every = -(-len(steps) // MAX_TICKS)
    room = int((_RIGHT - _LEFT) / max(1, -(-len(steps) // every)) / 6.6)
    return x, [(place, clip(value_words(steps[int(place)].value), max(3, room))) for place in places[::every]]


def _places(steps: Sequence[DirectionStep]) -> list[float]:
    """Where the values of a column stand: at themselves if all are numbers, else one beside the other."""
    if all(isinstance(step.value, float) for step in steps):
        return [float(step.value) for step in steps]
    return [float(place) for place in range(len(steps))]


def _spaced(places: Sequence[float], x: Scale) -> bool:
    """Whether every value has room for its name."""
    ends = sorted(x(place) for place in places)
    return all(b - a > 7.0 * 6 for a, b in pairwise(ends))


def _value_ticks(names: Sequence[tuple[float, str]], x: Scale, palette: Palette) -> list[str]:
    marks = [svg.line(_LEFT, _BOTTOM, _RIGHT, _BOTTOM, palette.grid)]
    for place, name in names:
        marks.append(svg.line(x(place), _BOTTOM, x(place), _BOTTOM + 5, palette.muted))
        marks.append(svg.text(x(place), _BOTTOM + 19, minus_signs(name), palette.muted, "middle"))
    return marks


def _stretches(item: DirectionReport, where: Sequence[float], palette: Palette) -> list[str]:
    """The stretches against the expectation as red bands, the redder the more rows go against it."""
    at = {value_words(step.value): place for step, place in zip(item.steps, where, strict=True)}
    marks = []
    for one in item.stretches:
        start, end = at.get(value_words(one.start)), at.get(value_words(one.end))
        if start is None or end is None or not one.rows:
            continue
        left, width = min(start, end), max(abs(end - start), 2.0)
        title = (
            f"{value_words(one.start)} to {value_words(one.end)}: {one.against:,} of {one.rows:,} rows against the expectation"
        )
        band = svg.rect(left, _TOP - 4, width, _BOTTOM - _TOP + 4, palette.failed, 0.03 + 0.42 * one.against / one.rows)
        marks.append(svg.tag("g", svg.tag("title", escape(printable(title))), band))
    return marks


def _arrow(up: bool, palette: Palette) -> str:
    """The expected direction, 12 px."""
    start, end = (36.0, 26.0) if up else (26.0, 36.0)
    head = 1.0 if up else -1.0
    shaft = svg.line(13, start, 23, end, palette.muted, 1.6)
    return shaft + svg.polyline([(17.5, end), (23, end), (23, end + 5.5 * head)], palette.muted)


def _figure(width: float, height: float, label: str, marks: Iterable[str], palette: Palette) -> str:
    return svg.figure(width, height, label, marks, palette.surface if palette.standalone else None)
