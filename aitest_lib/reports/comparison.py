"""Two runs side by side: `aitest compare --format json`, and the source of its pages and tables."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from aitest_lib.reports.report import FailingCase, GateResult, Metric, ModelReport, SliceFinding
from aitest_lib.types import Status

SCHEMA_VERSION = 1

Area = Literal["gates", "data", "settings", "model", "versions"]
# Worst first. `no_evidence`: the cases could not show a change; `non_inferior`, `not_shown`: with a margin alone.
ChangeVerdict = Literal["regression", "not_comparable", "not_shown", "no_evidence", "non_inferior", "improvement"]
Now = Literal["failed", "misclassified_seed"]
# Of a gate's figure: its bounds in the two runs lie apart, or overlap; lost: the candidate's is undefined.
Moved = Literal["worse", "better", "overlap", "lost"]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, protected_namespaces=())


class ComparedRun(_Record):
    """One of the two runs."""

    run_id: str
    suite: str
    status: Status
    model: ModelReport
    started: str
    rows: int
    seeds: int


class SettingChange(_Record):
    """What is not the same in both runs. `weaker`: the candidate's suite asks for less, so that it passes more easily."""

    area: Area
    name: str
    base: str | None
    candidate: str | None
    weaker: bool = False


class CaseChanges(_Record):
    """Cases by what became of them. Failing: failed, or the model gets the seed wrong (`misclassified_seed`); these are
    counted apart, too. Not comparable: neither passed nor failing in one of the runs."""

    newly_failing: int = 0
    newly_misclassified: int = 0  # among the newly failing
    fixed: int = 0
    still_failing: int = 0
    still_misclassified: int = 0  # among the still failing, in both runs
    still_passing: int = 0
    new: int = 0
    gone: int = 0
    not_comparable: int = 0
    newly_unanswered: int = 0  # among the not comparable: the candidate gave no usable answer, the base did
    reasons: dict[str, int] = Field(default_factory=dict)  # why not comparable -> cases

    @property
    def compared(self) -> int:
        """Cases that passed or failed in both runs."""
        return self.newly_failing + self.fixed + self.still_failing + self.still_passing


class PairedFigure(_Record):
    """The tested figure on the shared cases: both values and the change, candidate - base, with its two-sided 95 % interval.
    Higher is worse. `adjusted_p_value`: after Holm, over the properties."""

    metric: str
    unit: str = "1"
    base: float
    candidate: float
    change: float
    low: float | None
    high: float | None
    p_value: float
    adjusted_p_value: float
    method: str
    seeds: int


class ComponentChange(_Record):
    """One transform at one strength; None where the property has no transforms. `change`: of the share of failing cases."""

    transform: str | None
    strength: float | None
    compared: int
    newly_failing: int
    fixed: int
    still_failing: int
    change: float | None


class MetricChange(_Record):
    """One figure in both runs, each over all of its own cases; None where a run does not have it."""

    name: str
    slice: dict[str, Any]
    base: Metric | None
    candidate: Metric | None


class GateChange(_Record):
    """One gate in both runs and the figure that it judges; None where a run does not have it. `moved`: how the figure changed
    by its one-sided bounds, for properties whose verdict lies in figures (groups, pairs, directions); None elsewhere, where
    the base's is undefined, and where neither side of the figure is the better one."""

    metric: str
    slice: dict[str, Any]
    base: GateResult | None
    candidate: GateResult | None
    base_figure: Metric | None = None
    candidate_figure: Metric | None = None
    moved: Moved | None = None


class ChangedCase(_Record):
    """A newly failing case. `expected`: the answer on the seed (the label, for a group property); `shown`: seed and case,
    where the candidate's run keeps them to be shown."""

    case_id: str
    seed_id: str
    transform: str | None
    strength: float | None
    now: Now
    base_expected: str | None
    base_observed: str | None
    candidate_expected: str | None
    candidate_observed: str | None
    explanation: str
    shown: FailingCase | None = None


class PropertyComparison(_Record):
    """One property of both runs."""

    property: str
    verdict: ChangeVerdict
    summary: str
    base_status: Status
    candidate_status: Status
    shared_seeds: int
    cases: CaseChanges
    test: PairedFigure | None
    metrics: list[MetricChange]
    gates: list[GateChange]
    components: list[ComponentChange]
    slices: list[SliceFinding]  # where the newly failing cases sit: failing = seeds with one
    newly_failing: list[ChangedCase]  # the first ones of every component


class Comparison(_Record):
    """Two runs. `margin`: how much worse is still good enough, in points (of an error: in percent of the base's)."""

    schema_version: int = SCHEMA_VERSION
    verdict: ChangeVerdict
    headline: str
    base: ComparedRun
    candidate: ComparedRun
    margin: float | None
    notices: list[str]
    changes: list[SettingChange]
    properties: list[PropertyComparison]
    only_base: list[str]  # properties that the candidate's run does not have
    only_candidate: list[str]

    def __repr__(self) -> str:
        """One line for a notebook."""
        return f"<Comparison of {self.base.run_id[:8]} and {self.candidate.run_id[:8]}: {self.headline}>"

    __str__ = __repr__
