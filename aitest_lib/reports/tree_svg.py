"""The top of a surrogate tree as a picture, left to right: every node a box, every branch a band as wide as its share of rows.

Boxes of one column stand in rows of their own and text is cut to its box, so that nothing overlaps, whatever the names.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from html import escape
from unicodedata import east_asian_width

from aitest_lib.reports import svg
from aitest_lib.reports.plots import LIGHT, Palette
from aitest_lib.reports.report import TreeReport
from aitest_lib.reports.tables import clip, count, printable
from aitest_lib.reports.tree_view import (
    Place,
    answer_colours,
    branches,
    condition,
    named,
    percent,
    places,
    shown,
    unfolded,
)

MAX_ENDS = 24  # end points of a picture; a tree of at most so many leaves is shown whole
MAX_DEPTH = 4  # decisions on a path of the picture of a larger tree
WHOLE_DEPTH = 8  # the same of a tree that is shown whole
BAND = 30.0  # px of the band of all rows
_ROW, _BOX = 61.0, 53.0  # px from box to box, and of a box
_LEFT, _TOP = 12.0, 58.0


def tree_svg(tree: TreeReport, palette: Palette = LIGHT) -> str:
    """The picture of `tree`: each node with its test or answer, its share of the held-out rows and how often the model agrees.

    A tree of more than 24 leaves is folded below 4 decisions; a folded node says how many leaves it stands for.
    """
    return _Picture(tree, palette).drawn()


def picture_width(tree: TreeReport) -> float:
    """Width of the picture of `tree` in px."""
    return _Picture(tree, LIGHT).width


@dataclass(frozen=True)
class _Picture:
    tree: TreeReport
    palette: Palette

    @cached_property
    def found(self) -> list[Place]:
        return places(self.tree.root)

    @cached_property
    def opened(self) -> set[int]:
        return unfolded(self.found, MAX_ENDS, WHOLE_DEPTH if self.found[0].leaves <= MAX_ENDS else MAX_DEPTH)

    @cached_property
    def colours(self) -> dict[str, str]:
        return answer_colours(self.tree, self.found)

    @cached_property
    def columns(self) -> int:
        return 1 + max(self.found[place].depth for place in shown(self.found, self.opened))

    @property
    def box(self) -> float:
        """Width of a box."""
        return 170.0 if self.columns <= MAX_DEPTH + 1 else 158.0

    @property
    def pitch(self) -> float:
        """From column to column."""
        return self.box + (38.0 if self.columns <= MAX_DEPTH + 1 else 32.0)

    @property
    def width(self) -> float:
        return max(2 * _LEFT + self.pitch * (self.columns - 1) + self.box + 4, 640.0)

    @cached_property
    def middles(self) -> dict[int, float]:
        """The height of every box that is shown: ends one under the other, a decision node between its branches."""
        heights: dict[int, float] = {}
        order = shown(self.found, self.opened)
        ends = [place for place in order if place not in self.opened]
        heights |= {place: _TOP + _ROW * (row + 0.5) for row, place in enumerate(ends)}
        for place in reversed(order):  # branches come after their node
            if place in self.opened:
                yes, no = branches(self.found, place)
                heights[place] = (heights[yes] + heights[no]) / 2
        return heights

    def drawn(self) -> str:
        order = shown(self.found, self.opened)
        ends = sum(place not in self.opened for place in order)
        bands = [band for place in order if place in self.opened for band in self._bands(place)]
        boxes = [self._box(place) for place in order]
        leaves = self.found[0].leaves
        folded = "" if ends == leaves else f", folded to {ends} end points"
        label = f"Surrogate tree of {count(leaves, 'leaf', 'leaves')}{folded}"
        surface = self.palette.surface if self.palette.standalone else None
        return svg.figure(self.width, _TOP + _ROW * ends + 6, label, [*self._legend(), *bands, *boxes], surface)

    def _legend(self) -> list[str]:
        marks, x = [], _LEFT
        if self.tree.classes:
            for answer, colour in self.colours.items():
                name = fitted(named(answer), 150, 12)
                if x + 20 + text_width(name, 12) > self.width - 60:
                    marks.append(svg.text(x, 20, "…", self.palette.muted))
                    break
                marks += [svg.rect(x, 10, 12, 12, colour), svg.text(x + 18, 20, name, self.palette.ink)]
                x += 36 + text_width(name, 12)
        else:
            ramp = sorted(self.colours, key=_number)
            for word, answer in (("lowest", ramp[0]), ("highest", ramp[-1])):
                name = f"{word} {named(answer, 20)}"
                marks += [svg.rect(x, 10, 12, 12, self.colours[answer]), svg.text(x + 18, 20, name, self.palette.ink)]
                x += 36 + text_width(name, 12)
        note = "upper branch: yes · band: share of held-out rows · red: tree and model differ"
        return [*marks, svg.text(_LEFT, 42, note, self.palette.muted)]

    def _bands(self, place: int) -> list[str]:
        """The two bands from a decision node to its branches, and what each answers."""
        total = max(self.tree.root.rows, 1)
        start = _LEFT + self.pitch * self.found[place].depth + self.box
        widths = [BAND * self.found[branch].node.rows / total for branch in branches(self.found, place)]
        edge = self.middles[place] - sum(widths) / 2
        halo = f"fill:{self.palette.ink};font-size:11px;text-anchor:end;paint-order:stroke"
        halo += f";stroke:{self.palette.surface};stroke-width:3px"
        marks = []
        for branch, width, word in zip(branches(self.found, place), widths, ("yes", "no"), strict=True):
            end, middle = _LEFT + self.pitch * self.found[branch].depth, self.middles[branch]
            colour = self.colours[self.found[branch].node.answer]
            marks.append(_band(start, edge + width / 2, end, middle, max(width, 1.2), colour))
            marks.append(svg.tag("text", word, x=f"{end - 4:.1f}", y=f"{middle + 4:.1f}", style=halo))
            edge += width
        return marks

    def _box(self, place: int) -> str:
        here, node = self.found[place], self.found[place].node
        x, y = _LEFT + self.pitch * here.depth, self.middles[place] - _BOX / 2
        colour, room = self.colours[node.answer], self.box - 22
        lines = [fitted(named(node.answer), room, 13)]
        if place in self.opened:
            lines = wrapped(condition(node.test or "").replace(" ≤ ", " ≤\N{NO-BREAK SPACE}"), room)
        elif here.leaves > 1:
            lines = [f"{here.leaves} leaves folded", fitted(f"mostly {named(node.answer)}", room, 12)]
        back = "" if place in self.opened or here.leaves == 1 else svg.rect(x + 4, y + 4, self.box, _BOX, colour, 0.3)
        shade = svg.rect(x, y, self.box, _BOX, self.palette.surface)
        if place in self.opened:
            shade += svg.rect(x, y, self.box, _BOX, self.palette.grid, 0.45)
        else:
            shade += svg.rect(x, y, self.box, _BOX, colour, 0.14) + svg.rect(x, y, 6, _BOX, colour)
        size, weight = (13, 650) if here.leaves == 1 else (12, 400)
        first, ink = y + (16 if len(lines) == 2 else 22), self.palette.ink
        told = [svg.text(x + 14, first + 15 * i, line, ink, weight=weight, size=size) for i, line in enumerate(lines)]
        share = "all rows" if not place else percent(node.rows, self.tree.root.rows)
        share = f"{share}, agrees {percent(node.agree, node.rows)}" if node.rows else "no held-out row"
        told.append(svg.text(x + 14, y + 46.5, share, self.palette.muted, size=11))
        differ = 1 - node.agree / node.rows if node.rows else 0.0
        bar = svg.rect(x + self.box * (1 - differ), y + _BOX - 3, self.box * differ, 3, self.palette.failed) if differ else ""
        return svg.tag("g", svg.tag("title", escape(printable(self._title(here)))), back, shade, *told, bar)

    def _title(self, here: Place) -> str:
        """What a box says when pointed at: everything in full."""
        node = here.node
        test = f"{clip(node.test or '', 400)}? {count(here.leaves, 'leaf', 'leaves')}"
        what = f"answers {named(node.answer, 200)}" if here.leaves == 1 else test
        counts = ", ".join(f"{named(name, 60)} {n:,}" for name, n in list(node.counts.items())[:12])
        model = f"; the model answers {counts}" if counts else ""
        return f"{what}; {count(node.rows, 'held-out row')}, the model agrees on {node.agree:,}{model}"


def text_width(text: str, size: float, bold: bool = False) -> float:
    """The width of a line of text in px in a wide sans serif font, so that it holds for narrower ones, too."""
    return size * sum(map(_advance, text)) * (1.13 if bold else 1.0)


def fitted(text: str, room: float, size: float) -> str:
    """`text` cut to `room` px, the last character an ellipsis where something was cut."""
    bold = size >= 13
    if text_width(text, size, bold) <= room:
        return text
    kept = text
    while kept and text_width(kept + "…", size, bold) > room:
        kept = kept[:-1]
    return kept.rstrip() + "…"


def wrapped(text: str, room: float, size: float = 12) -> list[str]:
    """`text` on at most two lines of `room` px, broken between words where that helps."""
    if text_width(text, size) <= room:
        return [text]
    words = text.split(" ")
    fits = [n for n in range(1, len(words)) if text_width(" ".join(words[:n]), size) <= room]
    first = " ".join(words[: fits[-1]]) if fits else fitted(text, room, size)
    return [first, fitted(" ".join(words[fits[-1] :]), room, size)] if fits else [first]


def _advance(char: str) -> float:
    """Width of a character in em, of the widest common sans serif font."""
    if east_asian_width(char) in "WF":
        return 1.05
    if char in "mwMW%@—…":
        return 1.0
    if char in "ilIjtfr.,:;|'! ()[]{}":
        return 0.42
    return 0.72 if char.isupper() or not char.isascii() else 0.64


def _band(x1: float, y1: float, x2: float, y2: float, width: float, colour: str) -> str:
    middle = (x1 + x2) / 2
    path = f"M{x1:.1f},{y1:.1f}C{middle:.1f},{y1:.1f} {middle:.1f},{y2:.1f} {x2:.1f},{y2:.1f}"
    return svg.tag("path", d=path, style=f"fill:none;stroke:{colour};stroke-width:{width:.2f};stroke-opacity:0.42")


def _number(answer: str) -> float:
    try:
        return float(answer)
    except ValueError:
        return 0.0
