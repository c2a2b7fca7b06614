"""A surrogate tree as people read it: its nodes in order, which of them to unfold, rules in words, colours of the answers.

Everything that shows a tree (page, picture, terminal, sentences) takes its words from here.
"""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from aitest_lib.reports.report import FrontPoint, PropertyReport, TreeNode, TreeReport
from aitest_lib.reports.tables import clip, count

# Told apart in the usual kinds of colour blindness, and at 3:1 from light and dark surfaces alike.
COLOURS = ("#2f74c8", "#b8820b", "#779a66", "#9770a0", "#ac4a2a")
OTHER = "#7f8792"
MAX_CONDITIONS = 4  # of a rule in one sentence
_BOUND = re.compile(r"[-+]?\d[-+:.\deTZ ]*")  # a number or an ISO 8601 time
LIMITS = ("fidelity", "apl", "epl", "mpl", "leaves")  # what a tree of the front can be held to


@dataclass(frozen=True)
class Place:
    """A node where it stands: `rule` are the conditions from the root to it, `leaves` those below it (a leaf is one).

    Places are numbered in preorder, the `yes` branch first, so that the subtree of place i is i .. i + `size` - 1.
    """

    node: TreeNode
    rule: tuple[str, ...]
    leaves: int

    @property
    def depth(self) -> int:
        """Decision nodes above."""
        return len(self.rule)

    @property
    def size(self) -> int:
        """Nodes of the subtree, itself included; every decision node has two branches."""
        return 2 * self.leaves - 1


def places(root: TreeNode) -> list[Place]:
    """All nodes in preorder."""
    found: list[Place] = []

    def add(node: TreeNode, rule: tuple[str, ...]) -> int:
        place = len(found)
        found.append(Place(node, rule, 1))
        if node.yes is not None and node.no is not None:
            test = node.test or ""
            leaves = add(node.yes, (*rule, test)) + add(node.no, (*rule, node.negation or f"not {test}"))
            found[place] = Place(node, rule, leaves)
        return found[place].leaves

    add(root, ())
    return found


def branches(found: Sequence[Place], place: int) -> tuple[int, int]:
    """The places of the `yes` and the `no` branch of a decision node."""
    return place + 1, place + 1 + found[place + 1].size


def unfolded(found: Sequence[Place], ends: int, depth: int) -> set[int]:
    """The decision nodes to show with their branches, those that most rows reach first: at most `ends` end points (leaves, or
    nodes that stay folded), and no node below `depth` decisions."""
    opened: set[int] = set()
    waiting = [(-found[0].node.rows, 0)] if found[0].leaves > 1 else []
    while waiting and len(opened) + 1 < ends:
        _, place = heapq.heappop(waiting)
        if found[place].depth >= depth:
            continue
        opened.add(place)
        for branch in branches(found, place):
            if found[branch].leaves > 1:
                heapq.heappush(waiting, (-found[branch].node.rows, branch))
    return opened


def shown(found: Sequence[Place], opened: set[int]) -> list[int]:
    """The places that are shown when just these decision nodes are unfolded, in preorder."""
    result, place = [], 0
    while place < len(found):
        result.append(place)
        place += 1 if place in opened else found[place].size
    return result


def most_differing(found: Sequence[Place], limit: int) -> list[Place]:
    """The leaves in which tree and model differ on most held-out rows, worst first; those without a difference are left out."""
    leaves = [place for place in found if place.leaves == 1 and place.node.rows > place.node.agree]
    return sorted(leaves, key=lambda place: (place.node.agree - place.node.rows, -place.node.rows))[:limit]


def named(text: str, limit: int = 60) -> str:
    """An answer, a column or a value as text that is never empty.

    >>> named(""), named(">50K")
    ('(empty)', '>50K')
    """
    return clip(text, limit) or "(empty)"


def condition(text: str, limit: int = 120) -> str:
    """A condition as it is shown.

    >>> condition("age <= 34")
    'age ≤ 34'
    """
    return named(text, limit).replace(" <= ", " ≤ ")


def shortened(rule: Iterable[str]) -> list[str]:
    """The conditions of a rule, those on one column made one where they can be: the sharper of two bounds, the values that a
    column is not as one set, and nothing of the kind where it is said what the value is.

    >>> shortened(["age <= 60", "age <= 34", "age > 20 or missing", "job is not Sales", "job is not Clerk"])
    ['age <= 34', 'age > 20', 'job not in {Sales, Clerk}']
    >>> shortened(["job is not Sales", "job is Clerk"])
    ['job is Clerk']
    """
    parts = [_part(text) for text in rule]
    known = {part.column for part in parts if part.sign == " is " and not part.missing}
    present = {part.column for part in parts if part.bounds and not part.missing}
    merged: dict[tuple[object, ...], _Part] = {}
    for part in parts:
        if part.sign == " is not " and part.column in known:
            continue
        kind = (part.column, part.sign, part.values if part.sign == " is " else ())
        before = merged.pop(kind, None)  # a condition stands where it became sharpest
        merged[kind] = part if before is None else before.and_also(part)
    return [replace(part, missing=part.missing and part.column not in present).words() for part in merged.values()]


def rule_words(rule: Iterable[str], limit: int = MAX_CONDITIONS, characters: int = 80) -> str:
    """A rule as one phrase: at most `limit` conditions, then how many more there are.

    >>> rule_words(["age <= 34", "sex is Male"]), rule_words([])
    ('age ≤ 34 and sex is Male', 'every row')
    """
    told = [condition(text, characters) for text in shortened(rule)]
    if len(told) > 1:  # an "or" between commas and "and" would be read otherwise
        told = [f"{text.removesuffix(' or missing')} (or missing)" if text.endswith(" or missing") else text for text in told]
    if not told:
        return "every row"
    if len(told) > limit:
        return f"{', '.join(told[: limit - 1])} and {count(len(told) - limit + 1, 'more condition')}"
    return " and ".join([", ".join(told[:-1]), told[-1]] if len(told) > 2 else told)


def percent(part: int, whole: int) -> str:
    """A share of rows; an unreached node has none.

    >>> percent(1, 3), percent(1, 9000), percent(9, 9), percent(0, 0)
    ('33.3 %', '<0.1 %', '100 %', '–')
    """
    if part in (0, whole):
        return "–" if not whole else "100 %" if part else "0 %"
    share = 100 * part / whole
    return "<0.1 %" if 0 < share < 0.05 else f"{min(share, 99.9):.1f} %"


def answer_colours(tree: TreeReport, found: Sequence[Place]) -> dict[str, str]:
    """A colour for every answer of the tree: classes that most rows get first, the sixth and further ones grey; numbers of a
    regressor from amber (low) to blue (high)."""
    answers = {place.node.answer for place in found}
    if tree.classes:
        order = sorted(answers, key=lambda answer: (-tree.root.counts.get(answer, 0), answer))
        return {answer: COLOURS[rank] if rank < len(COLOURS) else OTHER for rank, answer in enumerate(order)}
    values = {answer: value for answer in answers if (value := _as_number(answer)) is not None}
    low, high = min(values.values(), default=0.0), max(values.values(), default=0.0)
    return {
        answer: OTHER if answer not in values else _between((values[answer] - low) / (high - low) if high > low else 1.0)
        for answer in answers
    }


def broken_limits(point: FrontPoint, prop: PropertyReport) -> list[str]:
    """The gates of the whole tree that a tree of the front does not keep, by name."""
    edges = [(gate.metric, gate.min, gate.max) for gate in prop.gates if gate.metric in LIMITS and not gate.slice]
    return [
        name
        for name, low, high in edges
        if (low is not None and getattr(point, name) < low) or (high is not None and getattr(point, name) > high)
    ]


@dataclass(frozen=True)
class _Part:
    """A condition taken apart; one that cannot be is a `column` without anything else."""

    column: str
    sign: str = ""
    values: tuple[str, ...] = ()
    missing: bool = False

    @property
    def bounds(self) -> bool:
        return self.sign in (" <= ", " > ")

    def and_also(self, other: _Part) -> _Part:
        """Both conditions, which have column and sign in common, as one."""
        if self.bounds:
            sharper = max if self.sign == " > " else min
            return replace(other, values=sharper(self.values, other.values, key=_order))
        return replace(other, values=tuple(dict.fromkeys((*self.values, *other.values))))

    def words(self) -> str:
        value = ", ".join(self.values)
        told = f"{self.column} not in {{{value}}}" if len(self.values) > 1 else f"{self.column}{self.sign}{value}"
        return f"{told} or missing" if self.missing else told


def _order(bound: tuple[str, ...]) -> tuple[float, str]:
    """Orders numbers by value, and times, which are written in one format, as text."""
    number = _as_number(bound[0])
    return (0.0, bound[0]) if number is None else (number, "")


def _part(text: str) -> _Part:
    plain = text.removesuffix(" or missing")
    for sign in (" <= ", " > "):
        column, found, bound = plain.rpartition(sign)
        if found and _BOUND.fullmatch(bound):
            return _Part(column, sign, (bound,), missing=plain != text)
    column, found, value = text.partition(" is not ")
    if found:
        return _Part(column, found, (value,))
    column, found, value = plain.partition(" is ")
    if found:
        return _Part(column, found, (value,), missing=plain != text)
    return _Part(text)


def _as_number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _between(share: float) -> str:
    """A colour between amber (0) and blue (1)."""
    low, high = ([int(colour[i : i + 2], 16) for i in (1, 3, 5)] for colour in (COLOURS[1], COLOURS[0]))
    return "#" + "".join(f"{round(a + share * (b - a)):02x}" for a, b in zip(low, high, strict=True))
