"""How an adversarial search reads wherever it is shown: the names of the methods, and how much was broken at which budget."""

from __future__ import annotations

from aitest_lib.reports.records import AdversarialReport, CurvePoint, SearchCurve
from aitest_lib.reports.tables import clip

BUDGETS = (10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000)
MAX_BUDGETS = 8  # shown at once; of more the largest
_NAMES = {
    "bayesian": "Bayesian optimisation",
    "rays": "RayS",
    "square": "Square",
    "sign_hunter": "SignHunter",
    "random": "random tiles",
}


def method_name(method: str) -> str:
    """The name of a method in a text.

    >>> method_name("random"), method_name("auto")
    ('random tiles', 'auto')
    """
    return _NAMES.get(method, clip(method, 40))


def budgets(attack: AdversarialReport) -> list[int]:
    """The numbers of queries at which a success is told: the usual ones within the budget of an image, and the budget."""
    return [*(n for n in BUDGETS if n < attack.queries), attack.queries][-MAX_BUDGETS:]


def within(curve: SearchCurve, queries: int) -> CurvePoint | None:
    """How much was broken within so many queries an image; None where the curve begins later."""
    reached = [point for point in curve.points if point.queries <= queries]
    return max(reached, key=lambda point: point.queries, default=None)


def ordinal(number: int) -> str:
    """A place in a row of queries.

    >>> [ordinal(n) for n in (1, 2, 3, 11, 12, 22, 113, 1001)]
    ['1st', '2nd', '3rd', '11th', '12th', '22nd', '113th', '1,001st']
    """
    suffix = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{suffix}"


def norm_words(attack: AdversarialReport) -> str:
    """How much of the radius the broken images use, where they all use the same; "" where they differ."""
    used = [level for level, images in enumerate(attack.norms, start=1) if images]
    if len(used) != 1:
        return ""
    if used[0] == attack.levels:
        return f"Every adversarial image uses the whole radius of {attack.levels} grey levels."
    return f"In every adversarial image the largest change is {used[0]} of the {attack.levels} grey levels allowed."
