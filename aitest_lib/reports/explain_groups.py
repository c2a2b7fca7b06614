"""Plain sentences on groups: how each is served beside the reference group, and in which segments. No language model."""

from __future__ import annotations

from collections.abc import Sequence

from aitest_lib.reports.fairness_view import (
    RATES,
    columns_words,
    few_rows,
    figure_name,
    rate_of,
    rate_words,
    ratio_words,
    selected_words,
    titles,
    undefined_ratios,
    whole_ratio_words,
    worst_apart,
    worst_group,
)
from aitest_lib.reports.records_fairness import Attribute, FairGroup, GroupFigure, GroupReport, Proxy, Segment
from aitest_lib.reports.tables import clip, count, interval, listed, number, p_value

MAX_NAMED = 3  # groups, segments or columns named in one sentence
MAX_ATTRIBUTES = 6  # attributes with a sentence of their own


def groups_lead(found: GroupReport, confidence: float) -> list[str]:
    """What was compared, on how many rows, and what counts as selected. `confidence`: that of the bounds, in (0, 1)."""
    if not found.rows:
        return ["No row was answered, so no groups were compared."]
    names = columns_words(list(dict.fromkeys(item.name for item in found.attributes)))
    answers = list(dict.fromkeys(item.favorable for item in found.attributes if item.favorable))
    lead = [
        f"The answers to {count(found.rows, 'row')} were compared between groups{f' by {names}' if names else ''} "
        f"(bounds one-sided at {confidence:.0%}).",
        _selected(found, answers),
    ]
    cuts = [clip(item.cut, 160).rstrip(".") for item in found.attributes if item.cut]
    return [*lead, *(f"{cut[:1].upper()}{cut[1:]}." for cut in dict.fromkeys(cuts))]


def groups_weak_spots(found: GroupReport) -> list[str]:
    """Who is served worst by each attribute, by decisions and by scores, in which segments, and what tells the groups."""
    said = [_attribute(item, title) for item, title in zip(found.attributes, titles(found.attributes), strict=True)]
    scored = [
        (worst.impact_ratio or 0.0, f"By score {_worst(item, worst)}.")
        for item in found.scores
        if len(item.columns) == 1 and not item.unjudged and (worst := worst_group(item)) is not None
    ]
    more = len(said) - MAX_ATTRIBUTES
    rest = f"{count(more, 'more attribute')} {'is' if more == 1 else 'are'} in the tables." if more > 0 else ""
    return [
        *said[:MAX_ATTRIBUTES],
        rest,
        *(said for _, said in sorted(scored)[:1]),
        _segments(found.segments),
        proxy_words(found.proxies),
    ]


def excluded_words(found: GroupReport) -> str:
    """The groups that are left out by request, and the crossings that were not compared.

    >>> excluded_words(GroupReport(selection="decision", rows=9, attributes=[
    ...     Attribute(name="race", columns=["race"], favorable="yes", reference=None, groups=[], excluded={"Other": 3})]))
    'Left out by request: Other (3 rows) of race.'
    """
    named = {
        f"{clip(group, 40)} ({count(rows, 'row')}) of {clip(item.name, 40)}": None
        for item in found.attributes
        for group, rows in item.excluded.items()
    }
    said = [f"Left out by request: {_some(list(named), 6)}."] if named else []
    if found.left_out:
        said.append(f"Not compared: {_some([clip(one, 200).rstrip('.') for one in found.left_out])}.")
    return " ".join(said)


def proxy_words(proxies: Sequence[Proxy]) -> str:
    """The columns that tell a protected one best, for each of these.

    >>> proxy_words([Proxy(attribute="sex", column="relationship", association=0.65)])
    "What the model is sent tells sex best by relationship (Cramér's V 0.650)."
    """
    by_attribute: dict[str, list[Proxy]] = {}
    for item in sorted(proxies, key=lambda one: -one.association):
        by_attribute.setdefault(item.attribute, []).append(item)
    said = []
    for place, (attribute, found) in enumerate(list(by_attribute.items())[:MAX_NAMED]):
        measure = "Cramér's V " if place == 0 else ""
        columns = listed([f"{clip(one.column, 40)} ({measure}{number(one.association)})" for one in found[:MAX_NAMED]])
        said.append(f"{clip(attribute, 40)} best by {columns}")
    return f"What the model is sent tells {'; '.join(said)}." if said else ""


def _selected(found: GroupReport, answers: list[str]) -> str:
    """What counts as selected, and whether anybody said so."""
    if found.selection == "decision" and len(answers) > 1:
        each = f"Each of {columns_words(answers)} is taken as the favourable answer against the rest"
        return f"{each}: nobody named one." if found.assumed else f"{each}."
    sentence = f"Selected is a row with {selected_words(found, answers[0] if answers else None)}"
    return f"{sentence}; nobody said that this is the favourable answer, it is assumed." if found.assumed else f"{sentence}."


def _attribute(item: Attribute, title: str) -> str:
    """The selection rates of an attribute, its worst group, the widest of the other gaps, and what is undefined or open."""
    rates = [(group, rate) for group in item.groups if (rate := rate_of(group)) is not None and rate.value is not None]
    if not rates:
        return f"By {title} nothing can be compared{_why(item)}."
    told = [f"{clip(group.name, 40)} {rate_words(rate)}" for group, rate in rates]
    if len(rates) > MAX_NAMED:
        said = [f"By {title} the selection rate of {len(rates):,} groups runs from {told[0]} to {told[-1]}"]
    else:
        said = [f"By {title} the selection rate is {listed(told)}"]
    worst = worst_group(item)
    if worst is not None:
        said.append(f"{_worst(item, worst, named=False)}{_p(item)}")
    elif item.unjudged is None and undefined_ratios(item):
        said.append(f"every impact ratio is undefined: {_reason(undefined_ratios(item)[0])}")
    few = few_rows(item)
    if few is not None:
        said.append(f"the reference has {count(few, 'row')} only, `min_group_share` would leave such groups out")
    widest = _widest(item)
    apart = worst_apart(item)
    if apart is not None and worst is not None and apart is not worst:
        said.append(f"the lowest that its bounds tell from 1 is {ratio_words(apart)}, of {_sized(apart)}")
    if widest:
        said.append(widest)
    open_ones = undefined_ratios(item) if worst is not None else []
    if open_ones:
        names = _some([f"{clip(group.name, 40)} ({_reason(group)})" for group in open_ones])
        said.append(f"undefined is that of {names}")
    if item.unjudged:
        said.append(f"the groups are not judged as a whole: {clip(item.unjudged, 300).rstrip('.')}")
    return "; ".join(said) + "."


def _worst(item: Attribute, group: FairGroup, named: bool = True) -> str:
    """The lowest impact ratio of an attribute, with the bounds of its gate, and the gap that goes with it."""
    rate = rate_of(group)
    gap = "" if rate is None or rate.gap is None else f", difference {number(rate.gap)} {interval(rate.gap_low, rate.gap_high)}"
    kind = "named in the suite" if item.declared else "the most favoured group"
    reference = f"{clip(item.reference, 40)}, {kind}" if item.reference else "the reference group"
    where = f" by {clip(item.name, 40)}" if named else ""
    ratio = whole_ratio_words(item)
    return f"the lowest impact ratio{where} is {ratio}, of {_sized(group)} beside {reference}{gap.rstrip()}"


def _sized(group: FairGroup) -> str:
    return f"{clip(group.name, 40)} ({count(group.rows, 'row')})"


def _widest(item: Attribute) -> str:
    """The widest gaps that their bounds set apart from 0: of the rates other than that of selection, and of each mean."""
    found: dict[str, tuple[FairGroup, GroupFigure]] = {}
    for group in item.groups:
        for figure in group.figures:
            kind = "" if figure.hits is not None else figure.name  # rates are compared with each other, means are not
            if figure.name in RATES or figure.gap is None or not _beyond(figure):
                continue
            if kind not in found or abs(figure.gap) > abs(found[kind][1].gap or 0.0):
                found[kind] = group, figure
    named = [
        f"in {figure_name(figure.name)} ({clip(group.name, 40)} {number(figure.value)}, "
        f"{number(figure.gap)} {interval(figure.gap_low, figure.gap_high)} from {clip(item.reference or 'the reference', 40)})"
        for group, figure in found.values()
    ]
    return f"of the other figures the widest gap is {_some(named)}" if named else ""


def _beyond(figure: GroupFigure) -> bool:
    return (figure.gap_low or 0.0) > 0 or (figure.gap_high or 0.0) < 0


def _segments(segments: Sequence[Segment]) -> str:
    flagged = sorted((one for one in segments if one.flagged), key=lambda one: one.difference)
    if not flagged:
        return "In no segment is a group selected less often than its reference beyond chance." if segments else ""
    named = [
        f"{clip(one.group, 40)} against {clip(one.reference, 40)} in {clip(one.column, 40)} = {clip(one.value, 40)} "
        f"({number(one.rate)} of {count(one.rows, 'row')} against {number(one.reference_rate)} of {one.reference_rows:,}, "
        f"difference {number(one.difference)} {interval(one.low, one.high)}, q {p_value(one.q_value)})"
        for one in flagged[:MAX_NAMED]
    ]
    more = f" and {count(len(flagged) - MAX_NAMED, 'more segment')}" if len(flagged) > MAX_NAMED else ""
    return f"Within segments the widest differences beyond chance are {'; '.join(named)}{more}."


def _p(item: Attribute) -> str:
    return "" if item.p_value is None else f" (p of no difference between any groups {p_value(item.p_value)})"


def _why(item: Attribute) -> str:
    return f": {clip(item.unjudged, 300).rstrip('.')}" if item.unjudged else ""


def _reason(group: FairGroup) -> str:
    return clip(group.ratio_reason or "no reason given", 120).rstrip(".")


def _some(items: list[str], most: int = MAX_NAMED) -> str:
    """The first items as prose, and how many more there are."""
    more = [f"{len(items) - most:,} more"] if len(items) > most else []
    return listed(items[:most] + more)
