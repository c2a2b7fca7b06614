"""An adversarial search as plain text for a terminal: a line a method, a column a budget."""

from __future__ import annotations

from aitest_lib.reports.attack_view import budgets, method_name, within
from aitest_lib.reports.records import AdversarialReport, SearchCurve
from aitest_lib.reports.tables import clip

NAME = 22  # characters of a method
CELL = 7  # of a figure
ENDS = 20  # of the median and the queries in all
NARROWEST = NAME + 2 * CELL + ENDS


def attack_lines(attack: AdversarialReport, width: int) -> list[str]:
    """The share of images that each method broke within each budget, in lines of `width` characters (56 at least): of many
    budgets the largest."""
    if not any(curve.points for curve in attack.curves):
        return []
    shown = budgets(attack)[-((max(width, NARROWEST) - NAME - ENDS) // CELL) :]
    head = f"{'broken within queries':<{NAME}}{''.join(f'{n:>{CELL},}' for n in shown)}{'median':>8}{'asked':>12}"
    late = [f"{method_name(curve.method)} {curve.unfinished:,}" for curve in attack.curves if curve.unfinished]
    unfinished = [clip(f"unfinished searches: {', '.join(late)}", max(width, NARROWEST))] if late else []
    return ["", head, *(_line(curve, shown) for curve in attack.curves), *unfinished]


def _line(curve: SearchCurve, shown: list[int]) -> str:
    figures = [within(curve, queries) for queries in shown]
    cells = "".join(f"{'–' if point is None else f'{point.rate:.3f}':>{CELL}}" for point in figures)
    median = "–" if curve.median_queries is None else f"{curve.median_queries:,.4g}"
    return f"{clip(method_name(curve.method), NAME - 1):<{NAME}}{cells}{median:>8}{curve.queries:>12,}"
