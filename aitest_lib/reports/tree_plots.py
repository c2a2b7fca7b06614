"""The front of surrogate trees: fidelity with its bounds against the longest path, and against the number of leaves."""

from __future__ import annotations

import math
from html import escape

from aitest_lib.reports import svg
from aitest_lib.reports.plots import LIGHT, Palette, Scale, span, ticks
from aitest_lib.reports.report import FrontPoint, PropertyReport
from aitest_lib.reports.tables import interval, minus_signs, number
from aitest_lib.reports.tree_view import broken_limits

SIZES = {"mpl": "longest path (decisions)", "leaves": "leaves"}
WIDTH, HEIGHT = 470.0, 262.0  # px of a panel
MAX_POINTS = 120
_FAR = 2  # a limit further than so many times the largest tree is not drawn


def front_svg(report: PropertyReport, palette: Palette = LIGHT) -> str:
    """Both panels side by side, with a legend; "" where there is no front."""
    if report.tree is None or not report.tree.front:
        return ""
    marks = [
        mark for place, size in enumerate(SIZES) for mark in _panel(report, report.tree.front, size, WIDTH * place, palette)
    ]
    legend = "ring: the chosen tree · hollow: breaks a limit · dashed: limits of the gates · dotted: the majority class alone"
    marks.append(svg.text(12, HEIGHT + 14, legend, palette.muted))
    surface = palette.surface if palette.standalone else None
    return svg.figure(2 * WIDTH, HEIGHT + 26, "Fidelity of the trees of the front against their size", marks, surface)


def front_panel(report: PropertyReport, size: str, palette: Palette) -> str:
    """One panel, `size` being `mpl` or `leaves`; "" where there is no front."""
    if report.tree is None or not report.tree.front:
        return ""
    marks = _panel(report, report.tree.front, size, 0, palette)
    return svg.figure(WIDTH, HEIGHT, f"Fidelity against {SIZES[size]}", marks, palette.surface if palette.standalone else None)


def _panel(report: PropertyReport, front: list[FrontPoint], size: str, left: float, palette: Palette) -> list[str]:
    points = sorted(front, key=lambda point: (point.chosen, point.leaves))[-MAX_POINTS:]  # the chosen one last, on top
    baseline = next((m.value for m in report.metrics if m.name == "majority_fidelity" and not m.slice), None)
    edges = {name: _edges(report, name) for name in ("fidelity", size)}
    up = Scale(*span([v for p in points for v in (p.low, p.high)] + [baseline, *edges["fidelity"]]), 214, 34)
    largest = max(1, *(getattr(point, size) for point in points))
    limits = [edge for edge in edges[size] if edge <= _FAR * largest]
    along = _Along(size, max(largest, *limits, 1), left)
    marks = [svg.text(left + 12, 16, "fidelity", palette.ink, weight=600)]
    for tick in ticks(up.low, up.high):
        marks.append(svg.line(left + 52, up(tick), left + WIDTH - 12, up(tick), palette.grid))
        marks.append(svg.text(left + 46, up(tick) + 4, minus_signs(f"{tick:g}"), palette.muted, "end"))
    for tick in along.ticks():
        marks.append(svg.line(along(tick), 214, along(tick), 219, palette.muted))
        marks.append(svg.text(along(tick), 233, f"{tick:g}", palette.muted, "middle"))
    marks.append(svg.text(left + (WIDTH + 40) / 2, 253, SIZES[size], palette.ink, "middle", 600))
    if baseline is not None:
        marks.append(svg.line(left + 52, up(baseline), left + WIDTH - 12, up(baseline), palette.muted, 1.5, dash="1 4"))
    marks += [svg.line(left + 52, up(e), left + WIDTH - 12, up(e), palette.ink, dash="5 3") for e in edges["fidelity"]]
    marks += [svg.line(along(edge), 28, along(edge), 214, palette.ink, dash="5 3") for edge in limits]
    return [*marks, *(_point(point, report, along(getattr(point, size)), up, palette) for point in points)]


class _Along:
    """The horizontal scale: paths are linear, leaves logarithmic (base 2)."""

    def __init__(self, size: str, largest: float, left: float) -> None:
        self._log = size == "leaves"
        self._largest = largest
        high = math.log2(largest) if self._log else largest
        self._scale = Scale(-0.04 * max(high, 1), 1.04 * max(high, 1), left + 52, left + WIDTH - 12)

    def __call__(self, value: float) -> float:
        return self._scale(math.log2(max(value, 1)) if self._log else value)

    def ticks(self) -> list[float]:
        """Powers of two, or whole numbers of decisions."""
        if self._log:
            return [2.0**power for power in range(math.floor(math.log2(self._largest)) + 1)]
        return [tick for tick in ticks(0, max(self._largest, 1), 6) if tick == int(tick)]


def _point(point: FrontPoint, report: PropertyReport, x: float, up: Scale, palette: Palette) -> str:
    broken = broken_limits(point, report)
    colour = palette.accent if point.chosen else palette.muted
    y, fill = up(point.fidelity), palette.surface if broken else colour
    said = f"{point.leaves} leaves, mpl {point.mpl}: fidelity {number(point.fidelity)} {interval(point.low, point.high)}"
    said += f", beyond the limit of {' and '.join(broken)}" if broken else ""
    style = f"fill:{fill};stroke:{colour};stroke-width:1.6"
    marks = [svg.tag("title", escape(said)), svg.line(x, up(point.low), x, up(point.high), colour, 1.4)]
    if point.chosen:
        ring = f"fill:none;stroke:{palette.accent};stroke-width:2"
        marks.append(svg.tag("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r="8", style=ring))
    marks.append(svg.tag("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r="4", style=style))
    return svg.tag("g", *marks)


def _edges(report: PropertyReport, name: str) -> list[float]:
    """The limits that the gates of the whole tree set on a figure."""
    gates = [gate for gate in report.gates if gate.metric == name and not gate.slice]
    return [edge for gate in gates for edge in (gate.min, gate.max) if edge is not None]
