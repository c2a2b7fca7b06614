"""What a page shows of images: accuracy per transform, curves, breaking points, and cases as pictures side by side."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from markupsafe import Markup

from aitest_lib.reports import plots, tables
from aitest_lib.reports.attack_view import ordinal
from aitest_lib.reports.explain_image import median_words, unbroken_share
from aitest_lib.reports.image_plots import breaking_panel, curve_panel, lowest
from aitest_lib.reports.image_sweeps import case_amounts, case_strengths, sweeps
from aitest_lib.reports.pictures import EXACT
from aitest_lib.reports.report import FailingCase, Picture, PropertyReport
from aitest_lib.types import Outcome

MAX_TRANSFORMS = 40  # rows and panels of one property
WORST_DROP = 0.5  # loss of accuracy from which on a cell has the deepest colour
_ORDER: tuple[Outcome, ...] = ("failed", "passed", "skipped", "error")
_NAMES = {"failed": "Failed", "passed": "Passed", "skipped": "Skipped", "error": "Errors"}
_ATTACKED = _NAMES | {"failed": "Broken", "passed": "Resisted"}
CLASS_SLICES = ("label", "class")
_AHEAD = 100  # cases of a transform among which one of a new seed is looked for
_IN_ARRAY = re.compile(r"x\[(\d+)\]")  # the place of an image in an npz file
Amount = Callable[[str | None, float], float]


def sweeps_view(prop: PropertyReport) -> dict[str, Any] | None:
    """The table of accuracy per transform and its curves; None where a property has no accuracy per transform."""
    found = [sweep for sweep in sweeps(prop) if any("accuracy" in s.figures for s in sweep.strengths)]
    if not found:
        return None
    shown, low = found[:MAX_TRANSFORMS], lowest(found)
    labels = {tuple(s.label for s in sweep.strengths) for sweep in shown if sweep.strengths[0].label}
    return {
        "rows": shown,
        "more": len(found) - len(shown),
        "columns": max(len(sweep.strengths) for sweep in shown),
        "heads": labels.pop() if len(labels) == 1 else (),  # one label a column where all transforms have the same strengths
        "whole": {m.name: m for m in prop.metrics if not m.slice},
        "judged": any(sweep.verdict for sweep in shown),
        "curves": [_safe(panel) for sweep in shown if (panel := curve_panel(sweep, low, plots.PAGE))],
    }


def breaking_view(prop: PropertyReport) -> list[dict[str, Any]]:
    """The breaking points of every transform: its histogram and what it says."""
    return [
        {
            "plot": _safe(breaking_panel(found, plots.PAGE)),
            "median": median_words(found),
            "unbroken": unbroken_share(found),
            "non_monotone": found.non_monotone / max(sum(found.counts), 1),
            "found": found,
        }
        for found in prop.breaking_points[:MAX_TRANSFORMS]
    ]


def gallery_view(prop: PropertyReport, cases: list[FailingCase], limit: int) -> dict[str, Any] | None:
    """Cases as cards, at most `limit`; None where no case has pictures."""
    if not any(case.pictures for case in cases):
        return None
    shown = [cases[place] for place in in_turns(cases, limit, case_amounts(prop))]
    attack, label = prop.adversarial is not None, case_strengths(prop)
    if attack:
        shown = _quickest_first(shown)
    cards = [_attempt(case) for case in shown] if attack else [_card(case, label) for case in shown]
    names = _ATTACKED if attack else _NAMES
    outcomes = Counter(case.outcome for case in shown)
    return {
        "cards": cards,
        "outcomes": [(name, names[name], outcomes[name], getattr(prop.cases, name)) for name in _ORDER if outcomes[name]],
        "lead": _gallery_lead(prop, shown),
        "legend": _gallery_legend(prop, shown),
        "transforms": sorted(Counter(case.transform for case in shown if case.transform).items()),
        "total": max(prop.cases.total, len(cases)),
    }


def in_turns(cases: Sequence[FailingCase], limit: int, amount: Amount) -> list[int]:
    """The places of at most `limit` cases in the order in which they are worth showing: one of every transform and outcome,
    then another one, and so on; in each turn those that failed come before the others.

    Of a transform one of the strongest comes first (`amount` orders the strengths); then those of seeds that were not shown
    yet go before the others, the strengths in turn.
    """
    groups: dict[tuple[str | None, Outcome], list[int]] = {}
    for place, case in enumerate(cases):
        groups.setdefault((case.transform, case.outcome), []).append(place)
    ranked = sorted(groups.items(), key=lambda group: _ORDER.index(group[0][1]))
    queues = [_strengths_in_turn(cases, places, amount) for _, places in ranked]
    shown: Counter[str] = Counter()  # by seed
    taken: list[int] = []
    first = True
    while queues and len(taken) < limit:
        for queue in queues:
            open_to = [p for p in queue[:_AHEAD] if not first or cases[p].strength == cases[queue[0]].strength]
            place = min(open_to, key=lambda place: shown[cases[place].seed_id])
            queue.remove(place)
            shown[cases[place].seed_id] += 1
            taken.append(place)
        queues, first = [queue for queue in queues if queue], False
    return taken[:limit]


def drop_words(drop: float) -> str:
    """A loss of accuracy as the change that it is.

    >>> drop_words(0.12), drop_words(-0.01), drop_words(0.0)
    ('−0.120', '+0.010', '±0')
    """
    return "±0" if abs(drop) < 0.0005 else f"{'−' if drop > 0 else '+'}{abs(drop):.3f}"


def cell_words(name: str, value: str) -> tuple[str, str]:
    """A column and its value as people read them; images without a file are numbered.

    >>> cell_words("file", "x[897]"), cell_words("file", "4/1.png")
    (('image', '897'), ('file', '4/1.png'))
    """
    place = _IN_ARRAY.fullmatch(value) if name == "file" else None
    return ("image", place[1]) if place else (name, value)


def depth(drop: float) -> float:
    """How deep the colour of a loss of accuracy is, in [0, 1]."""
    return min(max(drop / WORST_DROP, 0.0), 1.0)


def _strengths_in_turn(cases: Sequence[FailingCase], places: list[int], amount: Amount) -> list[int]:
    """The places of cases of one transform, the first of every strength (strong to weak) before the second ones."""
    seen: Counter[float | None] = Counter()
    ranked = []
    for place in places:
        strength = cases[place].strength
        ranked.append((seen[strength], 0.0 if strength is None else -amount(cases[place].transform, strength), place))
        seen[strength] += 1
    return [place for *_, place in sorted(ranked)]


def _quickest_first(cases: Sequence[FailingCase]) -> list[FailingCase]:
    """Cases of a search by outcome, broken ones first; of each outcome every class in turn, the fewest queries first."""
    seen: Counter[tuple[Outcome, str | None]] = Counter()
    turns = []
    for case in sorted(cases, key=lambda case: case.query or 0):
        group = (case.outcome, case.seed_label)
        turns.append((_ORDER.index(case.outcome), seen[group], case))
        seen[group] += 1
    return [case for *_, case in sorted(turns, key=lambda turn: turn[:2])]


def _gallery_lead(prop: PropertyReport, shown: Sequence[FailingCase]) -> str:
    if prop.adversarial is not None:
        return "Adversarial images first, those of every class that took the fewest queries; then what resisted"
    if any(case.transform for case in shown):
        return "Some of every transform and outcome, the strongest changes first"
    return "The first ones"


def _gallery_legend(prop: PropertyReport, shown: Sequence[FailingCase]) -> str:
    what = "a difference" if prop.adversarial is None else "the noise"
    if not any(case.transform for case in shown):
        return ""
    return f"In {what} grey is no change, lighter is brighter than the seed and darker is darker."


def _card(case: FailingCase, label: Callable[[str | None, float], str]) -> dict[str, Any]:
    return {
        "case": case,
        "words": _words(case),
        "strength": None if case.strength is None else label(case.transform, case.strength),
        "query": None,
        "pictures": [(picture, *_caption(case, picture)) for picture in case.pictures],
        "exact": all(max(picture.width, picture.height) <= EXACT for picture in case.pictures),
        "cells": [cell_words(name, value) for name, value in list(case.case.items())[:3]],
    }


def _attempt(case: FailingCase) -> dict[str, Any]:
    """The card of an attempt on an image; where there was none, the untouched image alone."""
    card = _card(case, lambda _, delta: f"delta {delta:g}")
    if case.outcome not in ("failed", "passed"):
        return card | {"pictures": card["pictures"][:1], "strength": None}
    names = {"Case": "Adversarial" if case.outcome == "failed" else "Nearest attempt", "Difference": "Noise"}
    pictures = [(picture, names.get(title, title), said) for picture, title, said in card["pictures"]]
    return card | {"pictures": pictures, "query": None if case.query is None else f"{ordinal(case.query)} query"}


def _words(case: FailingCase) -> str:
    """Why a case failed, was skipped or had an error; that it passed."""
    if case.outcome in ("skipped", "error"):
        return tables.skip_reason(case.reason or case.outcome)
    return case.explanation or f"still read as {tables.clip(case.observed, 60)}"


def _caption(case: FailingCase, picture: Picture) -> tuple[str, str]:
    """The title of a picture and what is said of it: the label of the seed, the answer to the case."""
    score = "" if case.score is None else f" ({case.score:.2f})"
    answer = "no answer" if case.observed is None else f"read as {tables.clip(case.observed, 40)}{score}"
    if picture.title == "difference":
        return "Difference", picture.note
    if picture.title == "case":
        return "Case", answer
    label = None if case.seed_label is None else f"label {tables.clip(case.seed_label, 40)}"
    if case.transform is None:
        return "Image", ", ".join(filter(None, (label, answer)))
    read = None if case.expected in (None, case.seed_label) else f"read as {tables.clip(case.expected, 40)}"
    return "Seed", ", ".join(filter(None, (label, read)))


def _safe(svg: str) -> Markup:
    # The plots escape their text themselves.
    return Markup(svg)  # noqa: S704
