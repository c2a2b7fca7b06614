"""What a report is made of: the base of its records, and those of an adversarial search."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Record(BaseModel):
    """A part of a report: no unknown keys, no infinities."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, protected_namespaces=())


class CurvePoint(Record):
    """Of the attacked images, `broken` within `queries` each: `rate` with one-sided bounds."""

    queries: int
    broken: int
    rate: float
    low: float
    high: float


class SearchCurve(Record):
    """What one method did to the attacked images: `attacked` those whose search has begun and was answered, `broken` of them;
    `unfinished`: not begun, or ended by the run's budget, its time limit or errors. `median_queries`: of the broken
    ones; `queries`: asked in all."""

    method: str
    baseline: bool
    attacked: int
    broken: int
    unfinished: int
    points: list[CurvePoint]
    median_queries: float | None
    queries: int


class ClassAttack(Record):
    """Of the attacked images of a label, those that were broken."""

    label: str
    attacked: int
    broken: int


class AdversarialReport(Record):
    """An adversarial search: at most `queries` a seed, noise of at most `levels` of 255 grey levels (`delta` of the range 0 to
    1) in any channel of any pixel. `curves`: the search's own first, then those of the baselines; `classes`: worst first.
    `norms[i]`: broken images whose noise reaches i + 1 grey levels, as stored. `votes`: of how many answers a success needs the
    majority (1: the model answers alike)."""

    method: str
    delta: float
    levels: int
    queries: int
    labels_only: bool
    votes: int = 1
    right: int  # seeds that the model gets right: those that are attacked
    wrong: int  # seeds that it gets wrong untouched
    curves: list[SearchCurve]
    classes: list[ClassAttack] = Field(default_factory=list)
    norms: list[int] = Field(default_factory=list)
    stopped: str | None = None  # why searches are unfinished
