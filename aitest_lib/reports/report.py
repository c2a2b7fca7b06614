"""The report of a run (contract, section 5): `report.json`, and the source of every page and table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Literal

from pydantic import Field

from aitest_lib.reports.records import AdversarialReport, Record, Sound, SpeechReport
from aitest_lib.reports.records_fairness import DirectionReport, GroupReport, PairReport
from aitest_lib.types import Outcome, Status

SCHEMA_VERSION = 1


class Metric(Record):
    """One figure with its one-sided bounds at the suite's confidence. Undefined: `value` null and a `reason`."""

    name: str
    slice: dict[str, Any] = Field(default_factory=dict)
    value: float | None
    low: float | None = None
    high: float | None = None
    n: int
    unit: str = "1"
    higher_is_better: bool | None = True
    reason: str | None = None


class GateResult(Record):
    """The verdict on one gate and why."""

    metric: str
    slice: dict[str, Any] = Field(default_factory=dict)
    min: float | None = None
    max: float | None = None
    verdict: Status
    waived: bool = False
    reason: str


class CaseCounts(Record):
    """How the cases of a property ended."""

    total: int = 0
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    error: int = 0


class Queries(Record):
    """Distinct inputs: needed, put on the wire by this run, answered from the store; sentinels and retries apart."""

    planned: int = 0
    sent: int = 0
    cached: int = 0
    sentinel: int = 0
    retries: int = 0
    errors: int = 0


class PropertyQueries(Record):
    """Queries of one property."""

    planned: int = 0
    sent: int = 0
    cached: int = 0


class SliceFinding(Record):
    """A slice that fails more than the rest: `rate` of it and of the rest, difference with bounds, BH q-value. The rates are
    shares of failing seeds, or, where a seed has many cases (`share_of`), of failing cases; `failing`: seeds with a failure."""

    name: str
    value: str
    seeds: int
    failing: int
    rate: float
    rest_rate: float
    difference: float
    low: float
    high: float
    q_value: float
    flagged: bool
    share_of: Literal["seeds", "cases"] = "seeds"


class Confusion(Record):
    """Counts, rows = label, columns = answer, both in the order of `classes`."""

    classes: list[str]
    counts: list[list[int]]


class FeatureFlip(Record):
    """How easily one column alone turns the model's answer (an existence proof, not a rate)."""

    column: str
    seeds: int
    flipped: int
    smallest: float | None = None  # in units of the column
    smallest_sd: float | None = None  # in standard deviations of the column
    median_sd: float | None = None


class Picture(Record):
    """A picture as the page shows it: `src` a data URI, so that the page asks for nothing; `width` and `height` in px of the
    image it was made from; `note`: what was done to show it, e.g. how much a difference is amplified."""

    title: Literal["seed", "case", "difference"]
    src: str = Field(pattern=r"^data:image/(png|webp|jpeg);base64,[A-Za-z0-9+/]+=*$")
    alt: str
    note: str = ""
    width: int
    height: int


class FailingCase(Record):
    """One case beside its seed, ready to be shown: cells as text, private columns absent; images as `pictures`.

    Of images, cases that did not fail may stand among them as examples of their `outcome`, with the `reason` of a skip or
    an error; `seed_label` is the label of the untouched image. `query`: of an adversarial search, the number of the query that
    found the case, which is the nearest attempt where none succeeded.
    """

    case_id: str
    seed_id: str
    transform: str | None
    strength: float | None
    expected: str | None
    observed: str | None
    score: float | None
    explanation: str
    seed: dict[str, str]
    case: dict[str, str]
    changed: list[str]
    outcome: Outcome = "failed"
    reason: str | None = None
    pictures: list[Picture] = Field(default_factory=list)
    sounds: list[Sound] = Field(default_factory=list)
    seed_label: str | None = None
    query: int | None = None


class BreakingPoints(Record):
    """The smallest failing strengths found of one transform: `counts[i]` of the cases broke at level `levels[i]` (upper edges,
    weak to strong, of `parameter` in its `unit`), `unbroken` at none; `non_monotone` pass again above their first failure.
    `median` is that of the cases that broke."""

    transform: str
    parameter: str
    unit: str
    levels: list[float]
    counts: list[int]
    unbroken: int
    median: float | None
    non_monotone: int
    queries_per_case: float


class Attribution(Record):
    """What a link of a chain of transforms does: `turned` of the `of` failing cases of the chain pass without it."""

    transform: str
    link: str
    turned: int
    of: int


class TreeNode(Record):
    """A node of a surrogate tree as it is shown. `rows`: held-out rows that reach it, `agree`: those of them to which the tree
    answers as the model does; `counts`: the model's answers to them. At a leaf `answer` is the tree's; a decision node has a
    `test` and its two branches. `examples`: some rows of a leaf, cells as text, private columns absent."""

    answer: str
    rows: int
    agree: int
    counts: dict[str, int] = Field(default_factory=dict)
    test: str | None = None
    negation: str | None = None
    yes: TreeNode | None = None
    no: TreeNode | None = None
    examples: list[dict[str, str]] = Field(default_factory=list)


class FrontPoint(Record):
    """One tree of the front: how much it agrees with the model on held-out rows (one-sided bounds), and how large it is."""

    fidelity: float
    low: float
    high: float
    apl: float
    epl: float
    mpl: int
    leaves: int
    chosen: bool = False


class TreeReport(Record):
    """A surrogate tree: what it was grown on, what it looks like, and which others there were."""

    root: TreeNode
    columns: list[str]  # that it may ask about
    classes: list[str]  # empty: a regressor
    front: list[FrontPoint]
    generation: str  # swap, trepan or none
    grown_on: int  # rows asked to grow it, generated ones apart
    generated: int
    pruned_on: int
    held_out: int
    unasked: int = 0  # rows that the budget has left out
    repeated: int = 0  # held-out rows that equal a row it was grown or pruned on
    satisfied: bool = True  # the tree keeps within every limit, as far as the rows it was pruned on can tell
    missed: str | None = None  # where none satisfies every gate: the nearest one, in one sentence
    seconds: float = 0.0  # CPU seconds to grow, prune and choose it


class UnreadableFile(Record):
    """A file of the data that could not be read, and why."""

    place: str
    reason: str


class UnansweredCase(Record):
    """One case to which the model gave no usable answer, and why; cells as text, private columns absent."""

    case_id: str
    transform: str | None
    strength: float | None
    reason: str
    case: dict[str, str]


class PropertyReport(Record):
    """What one property found."""

    property: str
    status: Status
    cases: CaseCounts = Field(default_factory=CaseCounts)
    skipped: dict[str, int] = Field(default_factory=dict)  # reason -> cases
    metrics: list[Metric] = Field(default_factory=list)
    gates: list[GateResult] = Field(default_factory=list)
    explanation: str = ""
    queries: PropertyQueries = Field(default_factory=PropertyQueries)
    seconds: float = 0.0
    artifacts: dict[str, str] = Field(default_factory=dict)
    slices: list[SliceFinding] = Field(default_factory=list)
    confusion: Confusion | None = None
    flips: list[FeatureFlip] = Field(default_factory=list)
    errors: dict[str, int] = Field(default_factory=dict)  # reason -> cases
    unanswered: list[UnansweredCase] = Field(default_factory=list)  # the first ones
    breaking_points: list[BreakingPoints] = Field(default_factory=list)
    attributions: list[Attribution] = Field(default_factory=list)
    tree: TreeReport | None = None
    adversarial: AdversarialReport | None = None
    speech: SpeechReport | None = None
    groups: GroupReport | None = None
    pairs: PairReport | None = None
    directions: list[DirectionReport] = Field(default_factory=list)
    reason: str | None = None  # why the whole property is skipped, inconclusive or an error
    tolerance: float | None = None  # regressors: how far an answer may move; recognisers: how far WER may rise
    seed_tolerance: float | None = None  # regressors: error up to which a seed counts as right; recognisers: WER


class ColumnShift(Record):
    """How a column of synthesized rows differs from the real ones: `distance` is the Kolmogorov-Smirnov statistic of numbers,
    the total variation distance of categories, both from 0 to 1. `asked`: the suite asked for the change."""

    column: str
    distance: float
    asked: bool = False


class SynthesisReport(Record):
    """What was synthesized, and how real it looks. `auc`: area under the ROC curve with which a classifier tells synthesized
    rows from real ones (0.5: not at all), with one-sided bounds. `paths`: of the surrogate; `feasible`: those that some row
    can take within schema, ties and rules; `reached`: those that some synthesized row takes."""

    rows: int
    method: str
    from_rows: int
    auc: float | None = None
    auc_low: float | None = None
    auc_high: float | None = None
    rules: list[str] = Field(default_factory=list)
    rule_violations: int = 0
    tied: list[list[str]] = Field(default_factory=list)
    found_tied: list[list[str]] = Field(default_factory=list)  # those that the data show and nobody declared
    tied_violations: int = 0
    paths: int | None = None
    feasible: int | None = None
    reached: int | None = None
    shifts: list[ColumnShift] = Field(default_factory=list)
    labels: bool = True  # rows keep the label of the row that they descend from


class ModelReport(Record):
    """Which model was asked."""

    name: str
    version: str | None = None
    revision: str | None = None
    type: str
    digest: str
    epoch: int = 1
    changed: bool = False
    deterministic: bool = True
    self_flip_rate: float | None = None


class Provenance(Record):
    """Everything needed to do it again."""

    aitest: str
    packages: dict[str, str] = Field(default_factory=dict)
    suite_digest: str
    data_digest: str
    random_seed: int
    confidence: float
    started_by: str
    previous_looks: int = 0
    rows: int = 0  # that could be read
    seeds: int = 0
    unreadable: int = 0  # files of the data that could not be read
    converted: dict[str, int] = Field(default_factory=dict)  # what was done to make images fit -> images


class RunReport(Record):
    """The whole run."""

    schema_version: int = SCHEMA_VERSION
    suite: str
    run_id: str
    status: Status
    model: ModelReport
    provenance: Provenance
    started: str
    seconds: float
    queries: Queries
    properties: list[PropertyReport]
    info: dict[str, Any] = Field(default_factory=dict)  # the card's free `info`
    warnings: list[str] = Field(default_factory=list)
    unreadable: list[UnreadableFile] = Field(default_factory=list)  # the first ones
    synthesis: SynthesisReport | None = None  # where the seeds are synthesized rows

    @property
    def named(self) -> dict[str, PropertyReport]:
        """The properties by the names under which they are shown (see `shown_names`), in their order."""
        return dict(zip(shown_names(item.property for item in self.properties), self.properties, strict=True))

    def __repr__(self) -> str:
        """One line: a notebook shows this, and the whole report has thousands of figures."""
        found = ", ".join(f"{name}: {item.status}" for name, item in self.named.items())
        return f"<RunReport of {self.suite} on {self.model.name}: {self.status} ({found}); run {self.run_id}>"

    __str__ = __repr__


def shown_names(properties: Iterable[str]) -> list[str]:
    """Unique names for properties that a suite may name more than once: from the second of a name on with its number.

    >>> shown_names(["robustness", "fairness", "robustness"])
    ['robustness', 'fairness', 'robustness (2)']
    """
    seen: Counter[str] = Counter()
    names = []
    for name in properties:
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return names
