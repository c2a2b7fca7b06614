"""How findings of tabular fairness read wherever they are shown: names, what counts as selected, thresholds, worst groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from aitest_lib.reports.records_fairness import Attribute, DirectionReport, FairGroup, GroupFigure, GroupReport, PairReport
from aitest_lib.reports.report import PropertyReport
from aitest_lib.reports.tables import clip, interval, listed, number

RATES = ("selection_rate", "scoring_rate")  # the share of a group that is selected, by decisions and by scores
FEW_ROWS = 30  # of a reference group, below which one that the data chose may be so by chance
_UP = ("increasing", "never_hurts")


def has_fairness(report: PropertyReport) -> bool:
    """Whether a property looked at groups, pairs of rows or directions."""
    return bool(report.groups or report.pairs or report.directions)


def figure_name(name: str) -> str:
    """The name of a figure of a group in a text.

    >>> figure_name("true_positive_rate")
    'true positive rate'
    """
    return clip(name.replace("_", " "), 40)


def selected_words(report: GroupReport, favorable: str | None = None, scores: bool = False) -> str:
    """What counts as selected; `scores`: where a classifier's scores are looked at.

    >>> selected_words(GroupReport(selection="number", threshold=2080.0, rows=9))
    'a number above 2,080, the median of all rows'
    """
    of = f" of {clip(favorable, 60)}" if favorable else ""
    if scores or report.selection == "score":
        return f"a score{of} above the median of all rows"
    if report.selection == "number":
        edge = "" if report.threshold is None else f" {number(report.threshold)},"
        return f"a number above{edge} the median of all rows"
    return f"the answer {clip(favorable, 60)}" if favorable else "the favourable answer"


def titles(attributes: Sequence[Attribute], limit: int = 60) -> list[str]:
    """A name of at most `limit` characters for each attribute; one that is looked at for several answers is told apart by them.

    >>> made = [Attribute(name="sex", columns=["sex"], favorable=f, reference=None, groups=[]) for f in ("yes", "no")]
    >>> titles(made), titles(made[:1])
    (['sex, yes against the rest', 'sex, no against the rest'], ['sex'])
    """
    seen = Counter(item.name for item in attributes)
    return [
        f"{clip(item.name, limit)}, {clip(item.favorable, limit)} against the rest"
        if seen[item.name] > 1 and item.favorable
        else clip(item.name, limit)
        for item in attributes
    ]


def rate_of(group: FairGroup) -> GroupFigure | None:
    """The selection rate of a group, None where it has none."""
    return next((one for one in group.figures if one.name in RATES), None)


def shown_groups(item: Attribute, most: int) -> list[FairGroup]:
    """The groups of an attribute, of more than `most` the first and the last ones: those served worst."""
    return item.groups if len(item.groups) <= most else [item.groups[0], *item.groups[1 - most :]]


def rate_words(figure: GroupFigure | None) -> str:
    """A figure with its bounds."""
    return "undefined" if figure is None else f"{number(figure.value)} {interval(figure.low, figure.high)}".rstrip()


def whole_ratio_words(item: Attribute) -> str:
    """The lowest impact ratio of an attribute with its bounds, those of its gate."""
    return f"{number(item.ratio)} {interval(item.ratio_low, item.ratio_high)}".rstrip()


def few_rows(item: Attribute) -> int | None:
    """The rows of a reference that the data chose among several groups and that has too few to stand for much; None of any
    other."""
    rows = next((group.rows for group in item.groups if group.reference), FEW_ROWS)
    return rows if rows < FEW_ROWS and len(item.groups) > 1 and not item.declared else None


def ratio_words(group: FairGroup) -> str:
    """The impact ratio of a group with its bounds.

    >>> ratio_words(FairGroup(name="Female", rows=9, share=0.5, figures=[], impact_ratio=0.29, ratio_low=0.2, ratio_high=0.4))
    '0.290 [0.200, 0.400]'
    """
    return f"{number(group.impact_ratio)} {interval(group.ratio_low, group.ratio_high)}".rstrip()


def worst_group(item: Attribute) -> FairGroup | None:
    """The group with the lowest impact ratio, the reference apart; None where no ratio is defined."""
    known = [group for group in item.groups if not group.reference and group.impact_ratio is not None]
    return min(known, key=lambda group: group.impact_ratio or 0.0, default=None)


def worst_apart(item: Attribute) -> FairGroup | None:
    """The group with the lowest impact ratio of those whose bounds tell it from 1; None where no group is."""
    apart = [
        group
        for group in item.groups
        if group.impact_ratio is not None and group.ratio_high is not None and group.ratio_high < 1
    ]
    return min(apart, key=lambda group: group.impact_ratio or 0.0, default=None)


def undefined_ratios(item: Attribute) -> list[FairGroup]:
    """The groups whose impact ratio is undefined, the reference apart."""
    return [group for group in item.groups if not group.reference and group.impact_ratio is None]


def threshold(report: PropertyReport, item: Attribute, scores: bool = False) -> float | None:
    """The impact ratio from which on the gates of `report` let a group of an attribute pass, None without a gate; `scores`: the
    ratio of the rates by a classifier's scores."""
    name = "scoring_ratio" if scores else "impact_ratio"
    edges = [
        gate.min
        for gate in report.gates
        if gate.metric == name and gate.min is not None and (not gate.slice or _about(gate.slice, item))
    ]
    return max(edges, default=None)


def values_words(values: Mapping[str, str]) -> str:
    """Values of protected columns, in one order of these.

    >>> values_words({"sex": "Female", "race": "Black"})
    'race = Black with sex = Female'
    """
    return " with ".join(f"{clip(column, 40)} = {clip(value, 40) or 'missing'}" for column, value in sorted(values.items()))


def columns_words(columns: Sequence[str], most: int = 6) -> str:
    """Columns as prose, of many the first.

    >>> columns_words(["sex", "race", "age"], 2)
    'sex, race and 1 more'
    """
    more = [f"{len(columns) - most:,} more"] if len(columns) > most else []
    return listed([clip(column, 40) for column in columns[:most]] + more)


def watched_words(item: DirectionReport) -> str:
    """What was watched while a column was moved.

    >>> watched_words(DirectionReport(
    ...     column="age", expected="increasing", on="score", favorable="yes", rows=0, violating=0, rate=None))
    'the score of yes'
    """
    if item.on == "number":
        return "the number"
    if item.on == "decision":
        return "the decision"
    return f"the score of {clip(item.favorable, 60)}" if item.favorable else "the score"


def should_words(expected: str, on: str = "score", what: str = "it", favorable: str | None = None, falls: bool = False) -> str:
    """What a move of a column should never do to `what`; `falls`: the column is moved down. `on`, `favorable`: see
    `DirectionReport`.

    >>> should_words("increasing"), should_words("never_helps", falls=True)
    ('more of it should never lower it', 'less of it should never hurt')
    >>> should_words("decreasing", "decision", "the decision", "approved")
    'more of it should never turn the decision to approved'
    """
    up, lead = (expected in _UP) != falls, f"{'less' if falls else 'more'} of it should never"
    if expected in ("never_helps", "never_hurts"):
        return f"{lead} {'hurt' if up else 'help'}"
    if on == "decision":
        answer = clip(favorable, 60) if favorable else "the favourable answer"
        return f"{lead} turn {what} {'away from' if up else 'to'} {answer}"
    return f"{lead} {'lower' if up else 'raise'} {what}"


def rises(item: DirectionReport) -> bool:
    """Whether what is watched may only rise as the column does."""
    return item.expected in _UP


def value_words(value: float | str) -> str:
    """A value that a column was set to.

    >>> value_words(45.0), value_words("Masters"), value_words(0.125)
    ('45', 'Masters', '0.125')
    """
    return f"{value:,.6g}" if isinstance(value, float) else clip(value, 40) or "missing"


def yield_of(pairs: PairReport) -> float | None:
    """Pairs that the search found per 1,000 queries; None where it asked nothing."""
    search = pairs.search
    return None if search is None or not search.queries else 1000 * search.found / search.queries


def _about(where: Mapping[str, object], item: Attribute) -> bool:
    """Whether a slice is of an attribute as a whole or of one of its groups, and of no answer but the favourable one."""
    whole = where.get("attribute") == item.name
    rest = set(where) - {"attribute"} if whole else set(where) - set(item.columns)
    return (whole or set(item.columns) <= set(where)) and all(where[key] == item.favorable for key in rest)
