"""A surrogate tree as plain text for a terminal: its top as indented rules, and the trees of the front around it."""

from __future__ import annotations

from collections.abc import Sequence

from aitest_lib.reports.report import FrontPoint, TreeReport
from aitest_lib.reports.tables import count, interval, number
from aitest_lib.reports.tree_view import Place, named, percent, places, shown, unfolded

MAX_ENDS = 10  # end points of the outline
MAX_POINTS = 5  # trees of the front
_SHORTEST = 16  # characters of a condition that are kept however deep it stands


def tree_lines(tree: TreeReport, width: int) -> list[str]:
    """The top of the tree and its nearest neighbours on the front, in lines of `width` characters, deep ones a little more."""
    front = _front_lines(nearest(tree.front, MAX_POINTS)) if len(tree.front) > 1 else []
    return ["", *outline(tree, width), *front]


def outline(tree: TreeReport, width: int) -> list[str]:
    """The tree as indented rules, folded to 10 end points, each with its share of the held-out rows and how many of them the
    model answers alike; at the end, how many leaves that leaves out."""
    found = places(tree.root)
    opened = unfolded(found, MAX_ENDS, depth=MAX_ENDS)
    order = shown(found, opened)
    lines = [_line(found[place], place in opened, tree.root.rows, width) for place in order if place]
    hidden = found[0].leaves - sum(found[place].leaves == 1 for place in order)
    more = [f"… {count(hidden, 'more leaf', 'more leaves')}; see rules.txt"] if hidden else []
    whole = f"the tree (share of held-out rows, agreement){'' if lines else f': {named(tree.root.answer)} to every row'}"
    return [whole, *lines, *more]


def nearest(front: Sequence[FrontPoint], limit: int) -> list[FrontPoint]:
    """At most `limit` trees of the front around the chosen one, small to large."""
    ranked = sorted(front, key=lambda point: (point.leaves, point.mpl, point.fidelity))
    chosen = next((place for place, point in enumerate(ranked) if point.chosen), len(ranked) - 1)
    first = max(0, min(chosen - limit // 2, len(ranked) - limit))
    return ranked[first : first + limit]


def _line(place: Place, is_open: bool, rows: int, width: int) -> str:
    node, indent, end = place.node, "  " * (place.depth - 1), ":"
    if not is_open:
        answer = named(node.answer, 24)
        end = f" -> {answer}" if place.leaves == 1 else f": {place.leaves} leaves, mostly {answer}"
        end += f" ({percent(node.rows, rows)}, {percent(node.agree, node.rows)})"
    return f"{indent}{named(place.rule[-1], max(width - len(indent) - len(end), _SHORTEST))}{end}"


def _front_lines(points: Sequence[FrontPoint]) -> list[str]:
    lines = ["", "leaves    mpl    apl    epl  fidelity"]
    for point in points:
        sizes = f"{point.leaves:>6,} {point.mpl:>6} {point.apl:>6.2f} {point.epl:>6.2f}"
        chosen = "  chosen" if point.chosen else ""
        lines.append(f"{sizes}  {number(point.fidelity)} {interval(point.low, point.high)}{chosen}")
    return lines
