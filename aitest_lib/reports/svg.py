"""The marks that the figures of a report are drawn with, as SVG text; everything that is text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from aitest_lib.reports.tables import printable

_FONT = (
    "font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;font-variant-numeric:tabular-nums"
)


def figure(width: float, height: float, label: str, marks: Iterable[str], surface: str | None = None) -> str:
    """A whole figure of `width` x `height` px; one that stands alone has a background, its `surface`, and an XML namespace."""
    size = {"width": f"{width:.0f}", "height": f"{height:.0f}", "viewBox": f"0 0 {width:.0f} {height:.0f}"}
    space = {} if surface is None else {"xmlns": "http://www.w3.org/2000/svg"}
    back = "" if surface is None else rect(0, 0, width, height, surface)
    return tag("svg", back, *marks, **space, **size, role="img", style=_FONT, **{"aria-label": printable(label)})


def dot(x: float, y: float, colour: str, title: str) -> str:
    """A point of radius 4 px that says `title` when pointed at."""
    return tag("circle", tag("title", escape(printable(title))), cx=f"{x:.1f}", cy=f"{y:.1f}", r="4", style=f"fill:{colour}")


def line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1, dash: str = "none") -> str:
    """A straight line; `dash` as in `stroke-dasharray`."""
    style = f"stroke:{colour};stroke-width:{width};stroke-dasharray:{dash}"
    return tag("line", x1=f"{x1:.1f}", y1=f"{y1:.1f}", x2=f"{x2:.1f}", y2=f"{y2:.1f}", style=style)


def polyline(points: Sequence[tuple[float, float]], colour: str, width: float = 1.6, dash: str = "none") -> str:
    """A line through points."""
    style = f"fill:none;stroke:{colour};stroke-width:{width};stroke-dasharray:{dash}"
    return tag("polyline", points=_path(points), style=style)


def polygon(points: Sequence[tuple[float, float]], colour: str, opacity: float) -> str:
    """A filled area."""
    return tag("polygon", points=_path(points), style=f"fill:{colour};fill-opacity:{opacity:.3f}")


def rect(x: float, y: float, width: float, height: float, colour: str, opacity: float = 1.0) -> str:
    """A filled rectangle; a negative width is none."""
    size = {"width": f"{max(width, 0):.1f}", "height": f"{height:.1f}"}
    return tag("rect", x=f"{x:.1f}", y=f"{y:.1f}", rx="2", **size, style=f"fill:{colour};fill-opacity:{opacity:.3f}")


def text(x: float, y: float, text: str, colour: str, anchor: str = "start", weight: int = 400, size: int = 12) -> str:
    """A line of text; `anchor` is start, middle or end."""
    style = f"fill:{colour};font-size:{size}px;font-weight:{weight};text-anchor:{anchor}"
    return tag("text", escape(printable(text)), x=f"{x:.1f}", y=f"{y:.1f}", style=style)


def tag(name: str, *children: str, **attributes: str) -> str:
    """An element with its attributes (escaped) and children (SVG text)."""
    given = "".join(f' {key}="{escape(value)}"' for key, value in attributes.items())
    return f"<{name}{given}>{''.join(children)}</{name}>"


def _path(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
