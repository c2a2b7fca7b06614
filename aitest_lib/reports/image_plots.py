"""Small figures of image robustness as SVG text: accuracy over strength, and where cases break; one panel a transform."""

from __future__ import annotations

import math

from aitest_lib.reports import svg
from aitest_lib.reports.image_sweeps import Sweep
from aitest_lib.reports.plots import LIGHT, Palette, Scale
from aitest_lib.reports.report import BreakingPoints
from aitest_lib.reports.tables import clip, interval, number

WIDTH, HEIGHT = 250, 176  # px of a panel
_LEFT, _RIGHT, _TOP, _BOTTOM = 34, 238, 30, 146
_LABELLED = 6  # strengths of which each is labelled; of more only the first, the middle and the last


def lowest(found: list[Sweep]) -> float:
    """The lower end of the accuracy axis that all panels share: the lowest bound, rounded down to a tenth."""
    metrics = [m for sweep in found for s in sweep.strengths for m in s.figures.values() if m.value is not None]
    edges = [edge for m in metrics for edge in (m.value, m.low) if edge is not None]
    return min(math.floor(10 * min(edges, default=0.0)) / 10, 0.9)


def curve_panel(sweep: Sweep, low: float, palette: Palette = LIGHT) -> str:
    """Accuracy (with its bounds as a band) and pass rate of one transform over its strengths, evenly spaced from weak to
    strong, the clean accuracy dashed; "" where no accuracy is defined. `low`: see `lowest`. A single strength is a dot."""
    places = [i for i, s in enumerate(sweep.strengths) if s.value("accuracy") is not None]
    if not places:
        return ""
    y, n = Scale(low, 1.0, _BOTTOM, _TOP), len(sweep.strengths)
    x = [_LEFT + (_RIGHT - _LEFT) * (i + 0.5) / n for i in range(n)]
    marks = [
        svg.text(4, 14, clip(sweep.name, 30), palette.ink, weight=600),
        svg.text(_RIGHT, 14, sweep.parameter, palette.muted, "end", size=11),
        _rate_axis(y, palette),
    ]
    clean = sweep.clean
    if clean is not None and clean.value is not None:
        marks.append(svg.line(_LEFT, y(clean.value), _RIGHT, y(clean.value), palette.ink, dash="4 3"))
    for name, colour in (("pass_rate", palette.muted), ("accuracy", palette.accent)):
        marks.append(_curve(sweep, name, x, y, colour))
    shown = range(n) if n <= _LABELLED else (0, n // 2, n - 1)
    marks += [svg.text(x[i], 162, clip(sweep.strengths[i].tick, 30), palette.muted, "middle", size=11) for i in shown]
    return svg.figure(WIDTH, HEIGHT, _words(sweep), marks, palette.surface if palette.standalone else None)


def breaking_panel(found: BreakingPoints, palette: Palette = LIGHT) -> str:
    """How many cases of a transform broke at each level, weak to strong, and apart from them how many never did."""
    bars = [*found.counts, found.unbroken]
    height, width = Scale(0, max(*bars, 1), 0, _BOTTOM - _TOP - 14), (_RIGHT - 8) / (len(bars) + 1)
    marks = [
        svg.text(4, 14, clip(found.transform, 30), palette.ink, weight=600),
        svg.text(_RIGHT, 14, clip(found.parameter, 20), palette.muted, "end", size=11),
    ]
    for i, n in enumerate(bars):
        never = i == len(found.counts)
        left = 8 + width * (i + never)
        marks.append(
            svg.rect(left, _BOTTOM - height(n), width - 2, height(n), palette.passed if never else palette.failed, 0.8)
        )
        if n:
            marks.append(svg.text(left + width / 2 - 1, _BOTTOM - height(n) - 4, f"{n:,}", palette.muted, "middle", size=10))
    marks.append(svg.line(8, _BOTTOM, _RIGHT, _BOTTOM, palette.muted))
    marks += [
        svg.text(8 + width * (i + 0.5), 162, f"{found.levels[i]:.3g}", palette.muted, "middle", size=11)
        for i in sorted({0, len(found.levels) // 2, len(found.levels) - 1})
        if found.levels
    ]
    marks.append(svg.text(_RIGHT, 162, "never", palette.muted, "end", size=11))
    broken = f"{sum(found.counts):,} cases of {found.transform} broke, {found.unbroken:,} never did"
    return svg.figure(WIDTH, HEIGHT, broken, marks, palette.surface if palette.standalone else None)


def _curve(sweep: Sweep, name: str, x: list[float], y: Scale, colour: str) -> str:
    known = [(x[i], m) for i, s in enumerate(sweep.strengths) if (m := s.figures.get(name)) is not None and m.value is not None]
    line = [(place, y(m.value or 0.0)) for place, m in known]
    upper = [(place, y(1.0 if m.high is None else m.high)) for place, m in known]
    lower = [(place, y(y.low if m.low is None else m.low)) for place, m in known]
    marks = []
    if len(known) > 1:
        marks = [svg.polygon([*upper, *reversed(lower)], colour, 0.16), svg.polyline(line, colour)]
    else:
        marks = [svg.line(px, top, px, bottom, colour, 2) for (px, top), (_, bottom) in zip(upper, lower, strict=True)]
    for (px, py), (_, m) in zip(line, known, strict=True):
        marks.append(svg.dot(px, py, colour, f"{name}: {number(m.value)} {interval(m.low, m.high)}"))
    return "".join(marks)


def _rate_axis(y: Scale, palette: Palette) -> str:
    middle = (y.low + 1) / 2
    return "".join(
        svg.line(_LEFT, y(t), _RIGHT, y(t), palette.grid)
        + svg.text(_LEFT - 6, y(t) + 4, f"{t:g}", palette.muted, "end", size=11)
        for t in (y.low, middle, 1.0)
    )


def _words(sweep: Sweep) -> str:
    said = [f"{s.label or 'applied'}: {number(s.value('accuracy'))}" for s in sweep.strengths]
    return f"Accuracy under {sweep.name}, {', '.join(said)}"
