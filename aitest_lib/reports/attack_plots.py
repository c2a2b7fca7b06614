"""Figures of an adversarial search as SVG text: success against queries, what broke of each class, the norms of the noise."""

from __future__ import annotations

import math
from html import escape
from itertools import pairwise

from aitest_lib.reports import svg
from aitest_lib.reports.attack_view import method_name, norm_words, within
from aitest_lib.reports.plots import LIGHT, Palette, Scale
from aitest_lib.reports.records import AdversarialReport, ClassAttack, CurvePoint, SearchCurve
from aitest_lib.reports.tables import clip, interval, number, printable

WIDTH, HEIGHT = 470.0, 262.0  # px of a panel
MAX_CLASSES = 20  # bars
MAX_BARS = 24  # of the histogram of norms
ROOM = 36.0  # px that the label of a budget needs beside the one before it
_LEFT, _RIGHT, _TOP, _BOTTOM = 50.0, 456.0, 30.0, 214.0
_DASHES = ("7 4", "2 3", "9 3 2 3", "4 2")  # of the baselines, in their order


def attack_figures(attack: AdversarialReport) -> dict[str, str]:
    """Every figure of a search that has something to show, by its name, standing alone."""
    made = {
        "success_by_queries": success_plot(attack),
        "broken_by_class": classes_plot(attack.classes),
        "norms": norms_plot(attack),
    }
    return {name: figure for name, figure in made.items() if figure}


def success_plot(attack: AdversarialReport, palette: Palette = LIGHT) -> str:
    """The share of broken images over the queries an image (logarithmic): the search bold with its bounds as a band, the
    baselines thin and dashed; with a legend where it stands alone. "" where no search has come to its end."""
    curves = [curve for curve in attack.curves if curve.points]
    if not curves:
        return ""
    x = _Queries(attack.queries)
    up = Scale(0.0, 1.0, _BOTTOM, _TOP)
    marks = [svg.text(12, 16, "share of images broken", palette.ink, weight=600)]
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        marks.append(svg.line(_LEFT, up(share), _RIGHT, up(share), palette.grid))
        marks.append(svg.text(_LEFT - 6, up(share) + 4, f"{share:g}", palette.muted, "end"))
    for tick in x.ticks():
        marks.append(svg.line(x(tick), _BOTTOM, x(tick), _BOTTOM + 5, palette.muted))
        marks.append(svg.text(x(tick), _BOTTOM + 19, f"{tick:,}", palette.muted, "middle"))
    marks.append(svg.text((_LEFT + _RIGHT) / 2, HEIGHT - 9, "queries an image", palette.ink, "middle", 600))
    order = sorted(enumerate(curves), key=lambda item: not item[1].baseline)  # the search last, on top
    marks += [_curve(curve, place, x, up, attack.queries, palette) for place, curve in order]
    legend = _legend(attack, palette) if palette.standalone else []
    label = f"Share of images broken over the queries an image: {_told(attack)}"
    height = HEIGHT + 20 * len(legend)
    return svg.figure(WIDTH, height, label, [*marks, *legend], palette.surface if palette.standalone else None)


def key_mark(place: int, baseline: bool, palette: Palette) -> str:
    """A piece of the line of the curve at `place` of a report, 26 x 10 px, for a legend."""
    colour, width, dash = _style(place, baseline, palette)
    mark = svg.line(0, 5, 26, 5, colour, width, dash)
    return svg.figure(26, 10, "line", [mark], palette.surface if palette.standalone else None)


def classes_plot(classes: list[ClassAttack], palette: Palette = LIGHT) -> str:
    """A bar a class: how many of its attacked images broke, worst first, 20 at most; "" for fewer than two classes."""
    known = [item for item in classes if item.attacked]
    if len(known) < 2:
        return ""
    shown, row = known[:MAX_CLASSES], 22.0
    names = [clip(item.label, 13) or "(empty)" for item in shown]
    left, right = 24 + 8 * max(map(len, names)), 366.0
    scale = Scale(0.0, 1.0, left, right)
    marks = [svg.text(12, 16, "images broken by class", palette.ink, weight=600)]
    for place, (item, name) in enumerate(zip(shown, names, strict=True)):
        y, share = 28 + row * place, item.broken / item.attacked
        marks.append(svg.text(left - 8, y + 13, name, palette.ink, "end"))
        marks.append(svg.rect(left, y + 2, right - left, 14, palette.grid, 0.5))
        marks.append(svg.rect(left, y + 2, scale(share) - left, 14, palette.failed, 0.8))
        marks.append(svg.text(right + 8, y + 13, f"{item.broken:,} of {item.attacked:,}", palette.muted))
    more = len(known) - len(shown)
    if more:
        marks.append(svg.text(left, 28 + row * len(shown) + 13, f"and {more:,} more, which break less", palette.muted))
    worst = shown[0]
    label = f"Images broken by class; most in {clip(worst.label, 40)}: {worst.broken:,} of {worst.attacked:,}"
    height = 36 + row * (len(shown) + bool(more))
    return svg.figure(WIDTH, height, label, marks, palette.surface if palette.standalone else None)


def norms_plot(attack: AdversarialReport, palette: Palette = LIGHT) -> str:
    """How many adversarial images have noise of which norm, in grey levels; "" where all have the same or there are none."""
    if not any(attack.norms) or norm_words(attack):
        return ""
    per = math.ceil(len(attack.norms) / MAX_BARS)
    bars = [sum(attack.norms[i : i + per]) for i in range(0, len(attack.norms), per)]
    width = (_RIGHT - _LEFT) / len(bars)
    height = Scale(0, max(bars), 0, 110)
    marks = [svg.text(12, 16, "largest change of a pixel, adversarial images", palette.ink, weight=600)]
    for place, images in enumerate(bars):
        left, top = _LEFT + width * place, 160 - height(images)
        first, last = place * per + 1, min((place + 1) * per, len(attack.norms))
        levels = f"{first}" if first == last else f"{first} to {last}"
        title = svg.tag("title", f"{levels} grey levels: {images:,}")
        marks.append(svg.tag("g", title, svg.rect(left + 1, top, width - 2, 160 - top, palette.accent, 0.8)))
        if images:
            marks.append(svg.text(left + width / 2, top - 4, f"{images:,}", palette.muted, "middle", size=10))
    marks.append(svg.line(_LEFT, 160, _RIGHT, 160, palette.muted))
    for place in sorted({0, len(bars) // 2, len(bars) - 1}):
        last = min((place + 1) * per, len(attack.norms))
        marks.append(svg.text(_LEFT + width * (place + 0.5), 178, f"{last:,}", palette.muted, "middle"))
    marks.append(svg.text((_LEFT + _RIGHT) / 2, 200, "grey levels of 255", palette.ink, "middle", 600))
    label = f"Norms of the noise, up to {len(attack.norms)} grey levels"
    return svg.figure(WIDTH, 210, label, marks, palette.surface if palette.standalone else None)


class _Queries:
    """The horizontal scale: logarithmic, from the first query to the budget."""

    def __init__(self, budget: int) -> None:
        self._budget = max(budget, 2)
        self._scale = Scale(0.0, math.log10(self._budget), _LEFT, _RIGHT - 8)

    def __call__(self, queries: float) -> float:
        return self._scale(math.log10(max(queries, 1)))

    def ticks(self) -> list[int]:
        """1, 2, 5, 10, …, of large budgets 1, 10, 100, …, and the budget in place of those next to it."""
        steps = (1, 2, 5) if self._budget <= 1_000 else (1,)
        usual = [m * 10**power for power in range(math.ceil(math.log10(self._budget))) for m in steps]
        kept = [tick for tick in usual if tick < self._budget and self(self._budget) - self(tick) > ROOM]
        return [*kept, self._budget]


def _curve(curve: SearchCurve, place: int, x: _Queries, up: Scale, budget: int, palette: Palette) -> str:
    """Steps: what was broken within q queries holds until the next success."""
    points = _distinct(curve, x)
    colour, width, dash = _style(place, curve.baseline, palette)
    line = svg.polyline(_steps([(x(p.queries), up(p.rate)) for p in points], x(budget)), colour, width, dash)
    end = points[-1]
    title = f"{method_name(curve.method)}: {number(end.rate)} {interval(end.low, end.high)}".rstrip()
    band = ""
    if not curve.baseline:
        upper = _steps([(x(p.queries), up(p.high)) for p in points], x(budget))
        lower = _steps([(x(p.queries), up(p.low)) for p in points], x(budget))
        band = svg.polygon([*upper, *reversed(lower)], colour, 0.16)
    return svg.tag("g", svg.tag("title", escape(printable(title))), band, line)


def _distinct(curve: SearchCurve, x: _Queries) -> list[CurvePoint]:
    """One point a pixel: nobody sees more, and a budget of thousands has thousands."""
    ordered = sorted(curve.points, key=lambda point: point.queries)
    return list({round(x(point.queries)): point for point in ordered}.values())


def _steps(points: list[tuple[float, float]], end: float) -> list[tuple[float, float]]:
    path = [points[0]]
    for left, right in pairwise(points):
        path += [(right[0], left[1]), right]
    return [*path, (end, points[-1][1])]


def _style(place: int, baseline: bool, palette: Palette) -> tuple[str, float, str]:
    """Colour, width and dashes of a line."""
    if not baseline:
        return palette.accent, 2.6, "none"
    colours = (palette.ink, palette.inconclusive, palette.passed, palette.failed)
    return colours[(place - 1) % len(colours)], 1.5, _DASHES[(place - 1) % len(_DASHES)]


def _legend(attack: AdversarialReport, palette: Palette) -> list[str]:
    lines = []
    for place, curve in enumerate(curve for curve in attack.curves if curve.points):
        y = HEIGHT + 8 + 20 * place
        line = svg.line(_LEFT, y, _LEFT + 26, y, *_style(place, curve.baseline, palette))
        lines.append(line + svg.text(_LEFT + 36, y + 4, _end(attack, curve), palette.ink))
    return lines


def _end(attack: AdversarialReport, curve: SearchCurve) -> str:
    found = within(curve, attack.queries)
    figure = "" if found is None else f" {number(found.rate)} {interval(found.low, found.high)}".rstrip()
    return f"{method_name(curve.method)}{' (baseline)' if curve.baseline else ''}{figure}"


def _told(attack: AdversarialReport) -> str:
    return ", ".join(_end(attack, curve) for curve in attack.curves if curve.points)
