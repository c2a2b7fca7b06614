"""What a page shows of a surrogate tree: its picture, all of it as text to unfold, the worst leaves, and the front."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from aitest_lib.reports import plots, tables
from aitest_lib.reports.explain_tree import repeated_words
from aitest_lib.reports.report import PropertyReport, TreeNode, TreeReport
from aitest_lib.reports.tree_plots import SIZES, front_panel
from aitest_lib.reports.tree_svg import picture_width, tree_svg
from aitest_lib.reports.tree_view import (
    Place,
    answer_colours,
    broken_limits,
    condition,
    most_differing,
    named,
    percent,
    places,
    rule_words,
    unfolded,
)

MAX_WORST = 15  # leaves in the table of those that differ most
SHRINKS = 0.88  # how far a picture may be scaled down before it is scrolled
MAX_RULE = 24  # conditions of a rule
MAX_EXAMPLES = 2  # rows of a leaf
MAX_CELLS = 12  # columns of such a row, those of its rule first
MAX_FRONT = 60  # rows of the table of the front
MAX_CLASSES = 12  # of the model's answers at a leaf
MANY_REPEATED = 0.05  # share of the held-out rows that the tree has seen, from which on a box warns of them
WHOLE = 16  # leaves up to which the text is unfolded from the start
START = 10  # end points that it shows at first of a larger tree
_FACTS = {
    "leaves": "Leaves",
    "mpl": "Longest path (mpl)",
    "apl": "Mean path over leaves (apl)",
    "epl": "Expected path of a row (epl)",
    "fidelity": "Fidelity",
    "majority_fidelity": "Majority class alone",
    "kappa": "Kappa",
    "r2": "R²",
}


def tree_view(prop: PropertyReport, limit: int) -> dict[str, Any] | None:
    """Everything the section on the tree of `prop` shows, None where it has none.

    `limit`: failing cases that the page shows of a property. A page that has to shrink leaves out the rows of the leaves, too,
    and at last the whole tree as text.
    """
    tree = prop.tree
    if tree is None:
        return None
    found, examples = places(tree.root), min(MAX_EXAMPLES, limit // 50)
    colours = answer_colours(tree, found)
    worst = most_differing(found, MAX_WORST)
    return {
        "tree": tree,
        "leaves": found[0].leaves,
        "levels": 1 + max(place.depth for place in found),
        "facts": _facts(prop),
        "repeated": repeated_words(tree) if tree.repeated >= MANY_REPEATED * tree.held_out else "",
        "picture": _safe(tree_svg(tree, plots.PAGE)),
        "least": round(SHRINKS * picture_width(tree)),
        "lines": _lines(found, tree, colours, examples) if limit else [],
        "worst": [
            _leaf(place, tree, colours, examples) | {"rule": rule_words(place.rule, MAX_RULE, characters=200)}
            for place in worst
        ],
        "differing": sum(place.leaves == 1 and place.node.rows > place.node.agree for place in found),
        "panels": [_safe(front_panel(prop, size, plots.PAGE)) for size in SIZES] if tree.front else [],
        "front": _front(prop, tree),
    }


def _facts(prop: PropertyReport) -> list[tuple[str, str, str]]:
    whole = {m.name: m for m in prop.metrics if not m.slice and m.value is not None}
    found = [(label, name, whole[name]) for name, label in _FACTS.items() if name in whole]
    # What is known exactly, as the length of the longest path, has bounds that say nothing.
    return [
        (label, _figure(name, m.value or 0.0), "" if m.low == m.high else tables.interval(m.low, m.high))
        for label, name, m in found
    ]


def _figure(name: str, value: float) -> str:
    return f"{value:,.0f}" if name in ("leaves", "mpl") else f"{value:.2f}" if name in ("apl", "epl") else tables.number(value)


def _lines(found: Sequence[Place], tree: TreeReport, colours: dict[str, str], examples: int) -> list[dict[str, Any]]:
    """The tree in preorder, a line a node; `closes`: how many nodes end after the line, a leaf itself included."""
    whole = found[0].leaves <= WHOLE
    opened = unfolded(found, found[0].leaves if whole else START, len(found))
    ends: list[int] = []
    lines = []
    for number, place in enumerate(found):
        ends.append(number + place.size)
        line = _leaf(place, tree, colours, examples if place.leaves == 1 else 0)
        closes = sum(end == number + 1 for end in ends)
        del ends[len(ends) - closes :]
        lines.append(line | {"open": number in opened, "closes": closes})
    return lines


def _leaf(place: Place, tree: TreeReport, colours: dict[str, str], examples: int) -> dict[str, Any]:
    node = place.node
    return {
        "condition": condition(place.rule[-1]) if place.rule else "every row",
        "leaves": place.leaves,
        "answer": named(node.answer, 40),
        "colour": colours[node.answer],
        "rows": node.rows,
        "share": percent(node.rows, tree.root.rows),
        "differing": node.rows - node.agree,
        "agrees": percent(node.agree, node.rows),
        "differs": f"{100 * (1 - node.agree / node.rows):.1f}%" if node.rows else "0%",
        "counts": _counts(node) if place.leaves == 1 else "",
        "examples": [_cells(row, place.rule) for row in node.examples[:examples]],
    }


def _counts(node: TreeNode) -> str:
    """What the model answers at a leaf, most frequent first."""
    ranked = sorted(((n, name) for name, n in node.counts.items() if n), key=lambda item: (-item[0], item[1]))
    more = [f"{len(ranked) - MAX_CLASSES} more classes"] if len(ranked) > MAX_CLASSES else []
    return ", ".join([f"{named(name, 40)} {n:,}" for n, name in ranked[:MAX_CLASSES]] + more)


def _cells(row: dict[str, str], rule: Sequence[str]) -> list[tuple[str, str, bool]]:
    """Some cells of a row, those that its rule asks about first."""
    asked = [name for name in row if any(text.startswith(f"{name} ") for text in rule)]
    others = [name for name in row if name not in asked]
    shown = (asked + others)[:MAX_CELLS]
    return [(named(name, 40), tables.clip(row[name], 40) or "missing", name in asked) for name in shown]


def _front(prop: PropertyReport, tree: TreeReport) -> dict[str, Any]:
    ranked = sorted(tree.front, key=lambda point: (point.leaves, point.mpl, point.fidelity))
    rows = [(point, broken_limits(point, prop)) for point in ranked]
    kept = [row for row in rows if row[0].chosen] + [row for row in rows if not row[0].chosen]
    shown = {id(point) for point, _ in kept[:MAX_FRONT]}
    return {
        "rows": [row for row in rows if id(row[0]) in shown],
        "more": max(0, len(rows) - MAX_FRONT),
        "judged": bool(prop.gates),
    }


def _safe(svg: str) -> Markup:
    # The pictures escape their text themselves.
    return Markup(svg)  # noqa: S704 -- our own drawing, in which every text is escaped
