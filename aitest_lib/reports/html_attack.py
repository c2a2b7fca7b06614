"""What a page shows of an adversarial search: key figures, success against queries, every method at every budget, classes."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from aitest_lib.reports import plots, tables
from aitest_lib.reports.attack_plots import classes_plot, key_mark, norms_plot, success_plot
from aitest_lib.reports.attack_view import budgets, method_name, norm_words, within
from aitest_lib.reports.records import AdversarialReport, SearchCurve
from aitest_lib.reports.report import PropertyReport

_FACTS = {"clean_accuracy": "Untouched accuracy", "attacked_accuracy": "Attacked accuracy", "success_rate": "Images broken"}


def attack_view(prop: PropertyReport) -> dict[str, Any] | None:
    """Everything the section on the search of `prop` shows, None where it has none."""
    attack = prop.adversarial
    if attack is None:
        return None
    curves = [curve for curve in attack.curves if curve.points]
    shown = budgets(attack)
    return {
        "facts": _facts(prop, attack),
        "curve": _safe(success_plot(attack, plots.PAGE)),
        "legend": [
            (_safe(key_mark(place, curve.baseline, plots.PAGE)), method_name(curve.method))
            for place, curve in enumerate(curves)
        ],
        "panels": [
            _safe(panel) for panel in (classes_plot(attack.classes, plots.PAGE), norms_plot(attack, plots.PAGE)) if panel
        ],
        "norms": norm_words(attack),
        "budgets": shown,
        "rows": [_row(curve, shown) for curve in curves],
    }


def _facts(prop: PropertyReport, attack: AdversarialReport) -> list[tuple[str, str, str]]:
    """Name, figure and bounds of what is told first."""
    whole = {m.name: m for m in prop.metrics if not m.slice and m.value is not None}
    rates = [
        (label, tables.number(whole[name].value), tables.interval(whole[name].low, whole[name].high))
        for name, label in _FACTS.items()
        if name in whole
    ]
    main = attack.curves[0] if attack.curves else None
    median = None if main is None else main.median_queries
    return [
        *rates,
        ("Median queries of those", "–" if median is None else f"{median:,.4g}", ""),
        ("Attacked", f"{attack.right:,} of {tables.count(attack.right + attack.wrong, 'image')}", ""),
        ("Noise at most", f"{attack.levels} of 255 levels", f"delta {attack.delta:g}"),
        ("Budget", f"{attack.queries:,} an image", "labels alone" if attack.labels_only else "with scores"),
        ("Method", method_name(attack.method), f"majority of {attack.votes}" if attack.votes > 1 else ""),
    ]


def _row(curve: SearchCurve, shown: list[int]) -> dict[str, Any]:
    notes = ["baseline"] if curve.baseline else []
    if curve.unfinished:
        notes.append(f"{curve.unfinished:,} unfinished")
    return {
        "method": method_name(curve.method),
        "notes": ", ".join(notes),
        "points": [(f"{queries:,}", within(curve, queries)) for queries in shown],
        "median": "–" if curve.median_queries is None else f"{curve.median_queries:,.4g}",
        "asked": f"{curve.queries:,}",
    }


def _safe(svg: str) -> Markup:
    # The plots escape their text themselves.
    return Markup(svg)  # noqa: S704 -- our own drawing, in which every text is escaped
