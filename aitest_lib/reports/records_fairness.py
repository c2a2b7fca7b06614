"""What a report holds of tabular fairness: groups, pairs of rows, and directions."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from aitest_lib.reports.records import Record


class GroupFigure(Record):
    """One figure of one group: `value` with one-sided bounds, of which `hits` of `n` rows (None: no rate, but a mean).

    `gap`: value minus that of the reference group, with one-sided bounds; None at the reference itself. What is undefined
    is None, with the `reason`."""

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    n: int
    hits: int | None = None
    gap: float | None = None
    gap_low: float | None = None
    gap_high: float | None = None
    reason: str | None = None


class FairGroup(Record):
    """A group of an attribute. `share`: of all rows; `figures`: `selection_rate` first. `impact_ratio`: selection rate over
    that of the reference group (1 there, without bounds). `rest_gap`: selection rate minus that of all other rows, `rest_p`
    its two-sided p-value, Holm-corrected over the groups."""

    name: str
    rows: int
    share: float
    reference: bool = False
    figures: list[GroupFigure]
    impact_ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    ratio_reason: str | None = None
    average_odds: float | None = None  # mean of the gaps in true and false positive rate
    average_odds_low: float | None = None
    average_odds_high: float | None = None
    rest_gap: float | None = None
    rest_low: float | None = None
    rest_high: float | None = None
    rest_p: float | None = None


class GroupPair(Record):
    """Two groups: selection rate of the `first` over that of the `second`, the better served one, with bounds; `p_value`:
    two-sided, of "no difference", Holm-corrected over all pairs of the attribute."""

    first: str
    second: str
    ratio: float | None
    low: float | None = None
    high: float | None = None
    p_value: float


class Attribute(Record):
    """The groups of a protected column, or of two crossed (`sex × race`), most favoured first.

    `favorable`: the answer that is meant; None for scores and numbers, where a row is selected if its score is above the
    median of all. `declared`: the suite names the reference. `cut`: how numbers were made groups. `excluded`: groups that
    are left out by request, with their rows. `p_value`: of "all groups are served alike", over all pairs at once.
    `unjudged`: why the groups cannot be judged as a whole. `ratio`: the lowest impact ratio, as gates judge it: its bounds hold
    for all pairs of groups at once (with a declared reference for all groups beside it)."""

    name: str
    columns: list[str]
    favorable: str | None
    reference: str | None
    declared: bool = False
    groups: list[FairGroup]
    pairs: list[GroupPair] = Field(default_factory=list)
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    excluded: dict[str, int] = Field(default_factory=dict)
    cut: str | None = None
    p_value: float | None = None
    unjudged: str | None = None


class Segment(Record):
    """A group beside the reference group within one segment of the data (`column` = `value`): share of selected rows in
    each, their difference (group minus reference) with one-sided bounds, Benjamini-Hochberg q-value over all segments
    looked at."""

    attribute: str
    group: str
    reference: str
    column: str
    value: str
    rows: int
    reference_rows: int
    rate: float
    reference_rate: float
    difference: float
    low: float
    high: float
    q_value: float
    flagged: bool


class Proxy(Record):
    """How well a column that the model is sent tells a protected one: Cramér's V, bias-corrected, from 0 (nothing) to 1."""

    attribute: str
    column: str
    association: float


class GroupReport(Record):
    """Groups and how they are served. `selection`: what counts as selected: the favourable decision, a score above the
    median, or a number above the median (`threshold`). `assumed`: nobody named the favourable answer. `labelled`: the rows
    have labels, so that there are more figures than those of selection. `left_out`: crossings that were not compared, and
    why."""

    selection: Literal["decision", "score", "number"]
    threshold: float | None = None
    assumed: bool = False
    labelled: bool = False
    rows: int
    attributes: list[Attribute] = Field(default_factory=list)
    scores: list[Attribute] = Field(default_factory=list)  # the same by scores, where a classifier gives them
    segments: list[Segment] = Field(default_factory=list)
    proxies: list[Proxy] = Field(default_factory=list)
    left_out: list[str] = Field(default_factory=list)


class Flip(Record):
    """What one other value (or combination) of the protected columns did: of `rows` real rows that got it, `turned` were
    decided otherwise: `rate` with one-sided bounds."""

    values: dict[str, str]
    rows: int
    turned: int
    rate: float | None
    low: float | None = None
    high: float | None = None


class YieldPoint(Record):
    """How many pairs a search had found after so many queries."""

    queries: int
    found: int


class PairSearchReport(Record):
    """What a search for further pairs found: existence, no prevalence. `real`: share of the found rows that look like the
    data (above the 1st percentile of an isolation forest of them); `regions`: leaves of a surrogate tree that they reach,
    `of_regions` in all. `guided`: by the model's scores, else by labels alone."""

    queries: int
    found: int
    guided: bool
    real: float | None = None
    regions: int = 0
    of_regions: int = 0
    curve: list[YieldPoint] = Field(default_factory=list)
    stopped: str | None = None


class PairReport(Record):
    """Rows that differ in protected columns alone. `columns`: those that were changed; `not_inputs`: protected ones that
    the model is not sent; `combinations` of their values there are, of which `tried` were tried. `rows`: real rows looked
    at; `turned`: decided otherwise with other protected values (`prevalence`). `likely_turned` of `likely_rows`
    (`likely_prevalence`): the same without counterparts that contradict what goes together in the data (`ties`)."""

    columns: list[str]
    not_inputs: list[str] = Field(default_factory=list)
    combinations: int
    tried: int
    rows: int
    turned: int
    prevalence: float | None
    low: float | None = None
    high: float | None = None
    likely_rows: int = 0
    likely_turned: int = 0
    likely_prevalence: float | None = None
    likely_low: float | None = None
    likely_high: float | None = None
    ties: list[str] = Field(default_factory=list)
    flips: list[Flip] = Field(default_factory=list)
    search: PairSearchReport | None = None
    proxies: list[Proxy] = Field(default_factory=list)


class DirectionStep(Record):
    """One value that the column was set to in every row: `mean` of the score (or number, or share of favourable decisions)
    with one-sided bounds over the rows; `against`: rows in which it moved against the expectation since the step before, of
    `rows`."""

    value: float | str
    mean: float | None
    low: float | None = None
    high: float | None = None
    rows: int
    against: int = 0


class Stretch(Record):
    """Two neighbouring values of a column between which the score moves against the expectation in `against` of `rows`
    rows, by `mean` on average (of those) and at most by `largest`."""

    start: float | str
    end: float | str
    rows: int
    against: int
    mean: float
    largest: float


class DirectionReport(Record):
    """A column that was moved alone, and what should have come of it. `on`: what was watched; `rows`: looked at;
    `violating`: in which some move went against the expectation (`rate` with one-sided bounds), at most by `largest`."""

    column: str
    expected: Literal["increasing", "decreasing", "never_helps", "never_hurts"]
    on: Literal["score", "decision", "number"]
    favorable: str | None = None
    rows: int
    violating: int
    rate: float | None
    low: float | None = None
    high: float | None = None
    largest: float | None = None
    steps: list[DirectionStep] = Field(default_factory=list)
    stretches: list[Stretch] = Field(default_factory=list)
