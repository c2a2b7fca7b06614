"""What a page shows of tabular fairness: groups in bars and tables, pairs of rows and their search, and moved columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from aitest_lib.reports import plots, tables
from aitest_lib.reports.explain_fairness import search_words
from aitest_lib.reports.fairness_curves import direction_plot, yield_plot
from aitest_lib.reports.fairness_plots import rate_mark, rate_top, ratio_mark, ratio_top
from aitest_lib.reports.fairness_view import (
    columns_words,
    figure_name,
    has_fairness,
    rate_of,
    rate_words,
    rises,
    selected_words,
    should_words,
    shown_groups,
    threshold,
    titles,
    value_words,
    values_words,
    watched_words,
    yield_of,
)
from aitest_lib.reports.records_fairness import (
    Attribute,
    DirectionReport,
    FairGroup,
    GroupReport,
    PairReport,
    PairSearchReport,
    Proxy,
    Segment,
)
from aitest_lib.reports.report import PropertyReport

MAX_GROUPS = 60  # rows of a table of groups, of pairs of groups and of segments
MAX_ATTRIBUTES = 24
MAX_COLUMNS = 40  # moved columns
MAX_STRETCHES = 15
MAX_PROXIES = 20
MAX_FLIPS = 40
# How the cases of pairs and of directions are headed, and what their two answers are; those of groups never fail.
_PAIRS = ("Pairs decided differently", "as it is", "with the other values")
_MOVES = ("Moves against the expectation", "before", "after")


def fairness_view(prop: PropertyReport) -> dict[str, Any] | None:
    """Everything the section on fairness of `prop` shows, None where it has none."""
    if not has_fairness(prop):
        return None
    title, before, after = _PAIRS if prop.pairs else _MOVES
    return {
        "groups": _groups(prop, prop.groups) if prop.groups else None,
        "pairs": _pairs(prop.pairs) if prop.pairs else None,
        "directions": _directions(prop.directions) if prop.directions else None,
        "cases": title,
        "before": before,
        "after": after,
    }


def _groups(prop: PropertyReport, found: GroupReport) -> dict[str, Any]:
    many, scored = found.attributes[:MAX_ATTRIBUTES], found.scores[:MAX_ATTRIBUTES]
    answers = {item.favorable for item in found.attributes}
    return {
        "rate": "Selection rate" if found.selection == "decision" else "Scoring rate",
        "selected": selected_words(found, next(iter(answers)) if len(answers) == 1 else None),
        "by_answer": len(answers) > 1,
        "assumed": found.assumed,
        "attributes": [_attribute(item, title, threshold(prop, item)) for item, title in _titled(many)],
        "scores": [_attribute(item, title, threshold(prop, item, scores=True)) for item, title in _titled(scored)],
        "scored": selected_words(found, scored[0].favorable if scored else None, scores=True),
        "segments": _segments(found.segments),
        "proxies": _proxies(found.proxies),
        "more": len(found.attributes) - len(many),
        "left_out": [tables.clip(one, 200) for one in found.left_out[:MAX_ATTRIBUTES]],
    }


def _titled(attributes: Sequence[Attribute]) -> list[tuple[Attribute, str]]:
    return list(zip(attributes, titles(attributes), strict=True))


def _attribute(item: Attribute, title: str, edge: float | None) -> dict[str, Any]:
    """The groups of an attribute with their rates on one scale and their ratios on another."""
    shown = shown_groups(item, MAX_GROUPS)
    rates = [rate_of(group) for group in shown]
    top = rate_top(edge for rate in rates if rate for edge in (rate.value, rate.high))
    limit = ratio_top(item)
    names = list(dict.fromkeys(one.name for group in shown for one in group.figures))
    rated = {rate.name for rate in rates if rate is not None}
    columns = [name for name in names if name not in rated]
    pairs = sorted(item.pairs, key=lambda pair: pair.p_value)
    return {
        "title": title,
        "item": item,
        "edge": edge,
        "rows": [
            (group, rate, _rate(group, top), _safe(ratio_mark(group, edge, limit, plots.PAGE)))
            for group, rate in zip(shown, rates, strict=True)
        ],
        "rate_axis": _safe(plots.axis((0.0, top), plots.PAGE)) if shown else "",
        "ratio_axis": _safe(plots.axis((0.0, limit), plots.PAGE)) if any(g.ratio_low is not None for g in shown) else "",
        "columns": [figure_name(name) for name in columns],
        "odds": any(group.average_odds is not None for group in shown),
        "figures": [(group, [_figure(group, name) for name in columns]) for group in shown],
        "rest": [group for group in shown if group.rest_gap is not None],
        "pairs": pairs[:MAX_GROUPS],
        "more_pairs": max(0, len(pairs) - MAX_GROUPS),
        "more": len(item.groups) - len(shown),
        "excluded": [(tables.clip(name, 60), rows) for name, rows in item.excluded.items()],
    }


def _figure(group: FairGroup, name: str) -> Any:
    return next((one for one in group.figures if one.name == name), None)


def _rate(group: FairGroup, top: float) -> Markup:
    """The selection rate of a group as a bar."""
    rate = rate_of(group)
    colour = plots.PAGE.muted if group.reference else plots.PAGE.accent
    value, low, high = (rate.value, rate.low, rate.high) if rate else (None, None, None)
    return _safe(rate_mark(value, low, high, top, colour, plots.PAGE, rate_words(rate)))


def _segments(segments: Sequence[Segment]) -> dict[str, Any]:
    """Groups within segments, flagged ones first and each worst first, on one scale."""
    ranked = sorted(segments, key=lambda one: (not one.flagged, one.difference))
    shown = ranked[:MAX_GROUPS]
    domain = plots.span([0.0, *(edge for one in shown for edge in (one.low, one.high))])
    rows = []
    for one in shown:
        colour = plots.PAGE.failed if one.flagged else plots.PAGE.muted
        rows.append((one, _safe(plots.interval_mark(one.difference, one.low, one.high, [0.0], domain, colour, plots.PAGE))))
    return {"rows": rows, "more": len(ranked) - len(shown), "axis": _safe(plots.axis(domain, plots.PAGE)) if rows else ""}


def _proxies(proxies: Sequence[Proxy]) -> dict[str, Any]:
    """The columns that tell a protected one, each attribute's best first."""
    order = list(dict.fromkeys(one.attribute for one in proxies))
    ranked = sorted(proxies, key=lambda one: (order.index(one.attribute), -one.association))
    rows = [
        (one, _safe(rate_mark(one.association, None, None, 1.0, plots.PAGE.accent, plots.PAGE, tables.number(one.association))))
        for one in ranked[:MAX_PROXIES]
    ]
    return {"rows": rows, "more": len(ranked) - len(rows)}


def _pairs(pairs: PairReport) -> dict[str, Any]:
    flips = sorted(pairs.flips, key=lambda one: -(one.rate if one.rate is not None else -1.0))
    shown = flips[:MAX_FLIPS]
    top = rate_top(edge for one in shown for edge in (one.rate, one.high))
    rows = []
    for one in shown:
        words = f"{tables.number(one.rate)} {tables.interval(one.low, one.high)}".strip()
        mark = rate_mark(one.rate, one.low, one.high, top, plots.PAGE.accent, plots.PAGE, words)
        rows.append((values_words(one.values), one, _safe(mark)))
    return {
        "p": pairs,
        "facts": _pair_facts(pairs) if pairs.columns else [],
        "ties": [tables.clip(tie, 200) for tie in pairs.ties[:MAX_FLIPS]],
        "rows": rows,
        "axis": _safe(plots.axis((0.0, top), plots.PAGE)) if rows else "",
        "more": len(flips) - len(shown),
        "search": _search(pairs, pairs.search) if pairs.search else None,
        "proxies": _proxies(pairs.proxies),
        "columns": columns_words(pairs.columns),
        "not_inputs": columns_words(pairs.not_inputs),
    }


def _pair_facts(pairs: PairReport) -> list[tuple[str, str, str]]:
    """Name, figure and addition of what is told first."""
    facts = [
        (
            "Prevalence on real rows",
            f"{tables.number(pairs.prevalence)}",
            f"{tables.interval(pairs.low, pairs.high)}, {pairs.turned:,} of {tables.count(pairs.rows, 'row')}".strip(", "),
        )
    ]
    if pairs.ties:
        figure = tables.interval(pairs.likely_low, pairs.likely_high)
        of = f"{pairs.likely_turned:,} of {tables.count(pairs.likely_rows, 'row')}"
        facts.append(
            ("Without contradicted counterparts", tables.number(pairs.likely_prevalence), f"{figure}, {of}".strip(", "))
        )
    facts.append(("Protected columns", columns_words(pairs.columns), ""))
    facts.append(("Combinations of values", f"{pairs.tried:,}", f"of {pairs.combinations:,} tried"))
    return facts


def _search(pairs: PairReport, search: PairSearchReport) -> dict[str, Any]:
    rate = yield_of(pairs)
    guide = "the model's scores" if search.guided else "labels alone"
    facts = [
        ("Pairs found", f"{search.found:,}", f"with {tables.count(search.queries, 'query', 'queries')}"),
        ("Per 1,000 queries", "–" if rate is None else f"{rate:.1f}", f"guided by {guide}"),
    ]
    if search.real is not None:
        facts.append(("Look like the data", f"{search.real:.1%}", "above the 1st percentile of an isolation forest"))
    if search.of_regions:
        facts.append(("Regions reached", f"{search.regions:,}", f"of {search.of_regions:,}, leaves of a surrogate tree"))
    return {"facts": facts, "plot": _safe(yield_plot(search, plots.PAGE)), "says": search_words(pairs, search)}


def _directions(directions: Sequence[DirectionReport]) -> dict[str, Any]:
    """The moved columns, those that most often go against the expectation first."""
    ranked = sorted(directions, key=lambda one: -(one.rate if one.rate is not None else -1.0))
    shown = ranked[:MAX_COLUMNS]
    top = rate_top(edge for one in shown for edge in (one.rate, one.high))
    rows = []
    for one in shown:
        words = f"{tables.number(one.rate)} {tables.interval(one.low, one.high)}".strip()
        colour = plots.PAGE.failed if one.violating else plots.PAGE.accent
        mark = rate_mark(one.rate, one.low, one.high, top, colour, plots.PAGE, words)
        rows.append((one, should_words(one.expected, one.on, watched_words(one), one.favorable), rises(one), _safe(mark)))
    figures = [direction_plot(one, plots.PAGE) for one in shown]
    stretches = sorted(((one, part) for one in ranked for part in one.stretches), key=_share)
    cut = [(one, value_words(part.start), value_words(part.end), part) for one, part in stretches[:MAX_STRETCHES]]
    return {
        "rows": rows,
        "axis": _safe(plots.axis((0.0, top), plots.PAGE)),
        "more": len(ranked) - len(shown),
        "panels": [_safe(figure) for figure in figures if figure],
        "stretches": cut,
        "more_stretches": len(stretches) - len(cut),
    }


def _share(item: tuple[DirectionReport, Any]) -> float:
    part = item[1]
    return -part.against / part.rows if part.rows else 0.0


def _safe(svg: str) -> Markup:
    # The plots escape their text themselves.
    return Markup(svg)  # noqa: S704 -- our own drawing, in which every text is escaped
