"""Figures of a report as SVG text: gates as a forest plot, metrics along a sweep, flips by column, the confusion matrix.

Pure functions: the same report gives the same text. A `Palette` decides the colours: `LIGHT` and `DARK` make figures that
stand alone, `PAGE` takes the colours of the page around it. All text is escaped. A figure with nothing to show is "".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from aitest_lib.reports import svg
from aitest_lib.reports.report import Confusion, GateResult, Metric, PropertyReport
from aitest_lib.reports.tables import bound, clip, gate_metric, interval, minus_signs, number, slice_label
from aitest_lib.types import Status

WIDTH = 860  # px of a full figure
MAX_MARKS = 40  # marks of one figure; what is beyond stays in the tables
_ROW = 30


@dataclass(frozen=True, kw_only=True)
class Palette:
    """The colours of a figure; `standalone` figures carry their own background and XML namespace."""

    ink: str
    muted: str
    grid: str
    surface: str
    accent: str
    passed: str
    failed: str
    inconclusive: str
    standalone: bool = True

    def of(self, verdict: Status) -> str:
        """The colour of a verdict; anything unsettled that is not inconclusive is muted."""
        known = {"passed": self.passed, "failed": self.failed, "error": self.failed, "inconclusive": self.inconclusive}
        return known.get(verdict, self.muted)


LIGHT = Palette(
    ink="#1b2330",
    muted="#56606f",
    grid="#dde2e9",
    surface="#ffffff",
    accent="#2f62c4",
    passed="#1a7a46",
    failed="#bd2f2a",
    inconclusive="#8f5d00",
)
DARK = Palette(
    ink="#e7ebf1",
    muted="#a3aebc",
    grid="#333c49",
    surface="#171c24",
    accent="#86acff",
    passed="#5fca90",
    failed="#ff8b82",
    inconclusive="#eab657",
)
PAGE = Palette(
    ink="var(--ink)",
    muted="var(--muted)",
    grid="var(--grid)",
    surface="var(--surface)",
    accent="var(--accent)",
    passed="var(--passed)",
    failed="var(--failed)",
    inconclusive="var(--inconclusive)",
    standalone=False,
)


@dataclass(frozen=True)
class Scale:
    """A linear map from data in [low, high] to pixels in [start, end]; values outside stop at the ends."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)


def interval_mark(
    value: float | None,
    low: float | None,
    high: float | None,
    edges: Sequence[float],
    domain: tuple[float, float],
    colour: str,
    palette: Palette,
) -> str:
    """One row of a forest plot, 260 x 26 px: the figure, its bounds as a whisker (an open side runs to the end), and the
    thresholds `edges` as dashed lines, on the scale `domain`."""
    scale = Scale(*domain, 8, 252)
    marks = [
        svg.line(8, 13, 252, 13, palette.grid),
        *(svg.line(scale(e), 2, scale(e), 24, palette.ink, dash="3 2") for e in edges),
    ]
    if value is not None:
        marks.append(_whisker(value, low, high, scale, 13, colour))
    label = f"{number(value)} {interval(low, high)}".strip()
    return _figure(260, 26, label, marks, palette)


def axis(domain: tuple[float, float], palette: Palette) -> str:
    """The axis under the rows of `interval_mark` of one `domain`, 260 x 18 px."""
    return _figure(260, 18, "axis", [_axis_row(Scale(*domain, 8, 252), 0, palette)], palette)


def gates_plot(report: PropertyReport, palette: Palette = LIGHT) -> str:
    """The gates as a forest plot, one panel with an axis of its own per metric: figure, bounds, threshold, verdict."""
    marks, y = [], 8.0
    for name in dict.fromkeys(gate.metric for gate in report.gates[:MAX_MARKS]):
        gates = [gate for gate in report.gates[:MAX_MARKS] if gate.metric == name]
        scale = Scale(*gates_domain(report, name), 270, 560)
        marks.append(svg.text(8, y + 14, name, palette.ink, weight=600))
        y += 24
        for gate in gates:
            marks.append(_gate_row(report, gate, scale, y, palette))
            y += _ROW
        marks.append(_axis_row(scale, y, palette))
        y += 34
    return _figure(WIDTH, y, f"Gates of {report.property}", marks, palette) if marks else ""


def gates_domain(report: PropertyReport, name: str) -> tuple[float, float]:
    """The scale that holds every figure, bound and threshold of the gates on metric `name`."""
    values: list[float | None] = []
    for gate in report.gates:
        if gate.metric == name:
            metric = gate_metric(report, gate)
            values += [gate.min, gate.max, *((metric.value, metric.low, metric.high) if metric else ())]
    return span(values)


def metrics_plot(report: PropertyReport, metric: str, palette: Palette = LIGHT) -> str:
    """One metric over its slices with bounds: a panel per transform (or per column) on one scale, strengths from left to
    right joined where they form a sweep, the thresholds of its gates dashed."""
    chosen = [m for m in report.metrics if m.name == metric and m.slice and m.value is not None][:MAX_MARKS]
    panels: dict[str, list[tuple[str, Metric]]] = {}
    for m in chosen:
        title, label = _panel(m)
        panels.setdefault(title, []).append((label, m))
    if not panels:
        return ""
    edges = {
        id(m): [e for g in report.gates if g.metric == metric and g.slice == m.slice for e in (g.min, g.max)] for m in chosen
    }
    scale = Scale(*span([v for m in chosen for v in (m.value, m.low, m.high, *edges[id(m)])]), 190, 34)
    step = min(112.0, (WIDTH - 60 - 26 * len(panels)) / max(len(chosen), 1))
    marks, x = [_grid(scale, 46, 46 + step * len(chosen) + 26 * len(panels) - 18, palette)], 46.0
    for title, points in panels.items():
        marks.append(_panel_marks(title, points, edges, scale, x, step, palette))
        x += step * len(points) + 26
    label = f"{metric} by {'transform' if 'transform' in chosen[0].slice else 'slice'}"
    return _figure(max(x, 220), 232, label, marks, palette)


def flips_plot(report: PropertyReport, palette: Palette = LIGHT) -> str:
    """How often each column alone turned the answer, with the smallest change found, most often first."""
    flips = sorted(report.flips, key=lambda f: -(f.flipped / f.seeds if f.seeds else 0.0))[:MAX_MARKS]
    if not flips:
        return ""
    shares = [f.flipped / f.seeds if f.seeds else 0.0 for f in flips]
    scale = Scale(0.0, max(*shares, 0.01), 200, 500)
    marks = []
    for row, (flip, share) in enumerate(zip(flips, shares, strict=True)):
        y = 8.0 + row * 24
        marks.append(svg.text(190, y + 15, clip(flip.column, 26), palette.ink, anchor="end"))
        marks.append(svg.rect(200, y + 4, 300, 14, palette.grid, opacity=0.5))
        marks.append(svg.rect(200, y + 4, scale(share) - 200, 14, palette.accent))
        marks.append(svg.text(510, y + 15, f"{share:.1%}", palette.ink, weight=600))
        size = "" if flip.smallest_sd is None else f", smallest {number(flip.smallest_sd)} sd"
        middle = "" if flip.median_sd is None else f", median {number(flip.median_sd)} sd"
        marks.append(svg.text(562, y + 15, f"{flip.flipped:,} of {flip.seeds:,}{size}{middle}", palette.muted))
    return _figure(WIDTH, 16 + 24 * len(flips), "Share of seeds whose answer one column alone turned", marks, palette)


def confusion_plot(confusion: Confusion, palette: Palette = LIGHT) -> str:
    """The confusion matrix of at most 20 classes as a heat map: rows = label, columns = answer, shade = share of the row."""
    size = len(confusion.classes)
    if not 0 < size <= 20:
        return ""
    cell, left, top = max(44.0, 96 - 8 * size), 140.0, 54.0
    marks = [svg.text(left, 18, "answer", palette.muted), svg.text(8, top - 8, "label", palette.muted)]
    for row, counts in enumerate(confusion.counts):
        total, y = sum(counts), top + row * cell
        marks.append(svg.text(left - 10, y + cell / 2 + 4, clip(confusion.classes[row], 17), palette.ink, anchor="end"))
        marks.append(
            svg.text(
                left + row * cell + cell / 2,
                top - 8,
                clip(confusion.classes[row], max(4, int(cell / 7))),
                palette.ink,
                "middle",
            )
        )
        for column, n in enumerate(counts):
            share, x = (n / total if total else 0.0), left + column * cell
            marks.append(svg.rect(x, y, cell - 2, cell - 2, palette.grid, opacity=0.35))
            marks.append(
                svg.rect(x, y, cell - 2, cell - 2, palette.accent if row == column else palette.failed, opacity=0.55 * share)
            )
            marks.append(svg.text(x + cell / 2 - 1, y + cell / 2 - 1, f"{n:,}", palette.ink, "middle", 600))
            marks.append(svg.text(x + cell / 2 - 1, y + cell / 2 + 14, f"{share:.1%}", palette.ink, "middle"))
    return _figure(left + size * cell + 8, top + size * cell + 8, "Confusion matrix", marks, palette)


def span(values: Iterable[float | None]) -> tuple[float, float]:
    """A scale that holds `values` with some air, kept inside [0, 1] where they all are.

    >>> span([0.9, None, 0.95])
    (0.894, 0.956)
    """
    known = [v for v in values if v is not None and math.isfinite(v)]
    low, high = min(known, default=0.0), max(known, default=1.0)
    air = 0.12 * (high - low) or 0.05 * max(abs(high), 1.0)
    inside = low >= 0 and high <= 1
    return (max(low - air, 0.0) if inside else low - air), (min(high + air, 1.0) if inside else high + air)


def ticks(low: float, high: float, wanted: int = 4) -> list[float]:
    """About `wanted` round values in [low, high].

    >>> ticks(0.83, 0.97)
    [0.85, 0.9, 0.95]
    """
    raw = (high - low) / wanted
    magnitude = 10.0 ** math.floor(math.log10(raw))
    step = next(m * magnitude for m in (1, 2, 5, 10) if m * magnitude >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 12) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def _gate_row(report: PropertyReport, gate: GateResult, scale: Scale, y: float, palette: Palette) -> str:
    metric, middle, colour = gate_metric(report, gate), y + _ROW / 2, palette.of(gate.verdict)
    parts = [
        svg.text(20, middle + 4, clip(slice_label(gate.slice), 38), palette.muted),
        svg.line(scale.start, middle, scale.end, middle, palette.grid),
        *(
            svg.line(scale(e), y + 3, scale(e), y + _ROW - 3, palette.ink, dash="3 2")
            for e in (gate.min, gate.max)
            if e is not None
        ),
    ]
    figure = "undefined"
    if metric is not None and metric.value is not None:
        parts.append(_whisker(metric.value, metric.low, metric.high, scale, middle, colour))
        figure = f"{number(metric.value, metric.unit)} {interval(metric.low, metric.high)}"
    verdict = f"{gate.verdict}{', waived' if gate.waived else ''}: {bound(gate)}"
    parts += [svg.text(574, middle - 2, figure, palette.ink), svg.text(574, middle + 12, verdict, colour, weight=600)]
    return "".join(parts)


def _panel(metric: Metric) -> tuple[str, str]:
    rest = {key: value for key, value in metric.slice.items() if key != "transform"}
    if "transform" in metric.slice:
        title = ", ".join([str(metric.slice["transform"]), *rest])
    else:
        title = ", ".join(rest)
    return title, ", ".join(f"{v:g}" if isinstance(v, float) else str(v) for v in rest.values())


def _panel_marks(
    title: str,
    points: list[tuple[str, Metric]],
    edges: dict[int, list[float | None]],
    scale: Scale,
    x: float,
    step: float,
    palette: Palette,
) -> str:
    centres = [x + step * (i + 0.5) for i in range(len(points))]
    metrics = [m for _, m in points]
    sweep = len(points) > 1 and all(
        isinstance(v, (int, float)) for m in metrics for k, v in m.slice.items() if k != "transform"
    )
    parts = [svg.text(x + 4, 18, clip(title, max(9, int(step * len(points) / 6.4))), palette.ink, weight=600)]
    for c, m in zip(centres, metrics, strict=True):
        reach = step / 2 - 1
        parts += [
            svg.line(c - reach, scale(e), c + reach, scale(e), palette.ink, dash="3 2") for e in edges[id(m)] if e is not None
        ]
    if sweep:
        heights = (scale(m.value or 0.0) for m in metrics)
        parts.append(svg.polyline(list(zip(centres, heights, strict=True)), palette.accent))
    for c, (label, m) in zip(centres, points, strict=True):
        value = m.value or 0.0
        low, high = scale(value if m.low is None else m.low), scale(value if m.high is None else m.high)
        parts.append(svg.line(c, low, c, high, palette.accent, 2))
        parts.append(
            svg.dot(
                c, scale(value), palette.accent, f"{slice_label(m.slice)}: {number(m.value, m.unit)} {interval(m.low, m.high)}"
            )
        )
        parts.append(svg.text(c, 207, clip(label, max(4, int(step / 6.4))), palette.muted, "middle"))
        parts.append(svg.text(c, 223, number(m.value), palette.ink, "middle"))
    return "".join(parts)


def _grid(scale: Scale, left: float, right: float, palette: Palette) -> str:
    return "".join(
        svg.line(left, scale(t), right, scale(t), palette.grid)
        + svg.text(left - 6, scale(t) + 4, minus_signs(f"{t:g}"), palette.muted, "end")
        for t in ticks(scale.low, scale.high)
    )


def _axis_row(scale: Scale, y: float, palette: Palette) -> str:
    marks = []
    for t in ticks(scale.low, scale.high):
        label = minus_signs(f"{t:g}")
        half = 3.3 * len(label)  # of the text's width: a long label at the end would be cut, there are 8 px beyond the scale
        x = max(scale.start - 8 + half, min(scale(t), scale.end + 8 - half))
        marks.append(svg.line(scale(t), y, scale(t), y + 4, palette.muted))
        marks.append(svg.text(x, y + 15, label, palette.muted, "middle", size=11))
    return "".join(marks)


def _whisker(value: float, low: float | None, high: float | None, scale: Scale, y: float, colour: str) -> str:
    left = scale.start if low is None else scale(low)
    right = scale.end if high is None else scale(high)
    ends = [svg.line(x, y - 4, x, y + 4, colour, 2) for x, edge in ((left, low), (right, high)) if edge is not None]
    return svg.line(left, y, right, y, colour, 2) + "".join(ends) + svg.dot(scale(value), y, colour, number(value))


def _figure(width: float, height: float, label: str, marks: Iterable[str], palette: Palette) -> str:
    return svg.figure(width, height, label, marks, palette.surface if palette.standalone else None)
