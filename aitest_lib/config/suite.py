"""The suite: which model, which data, which properties, judged by which gates (contract, section 2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from aitest_lib.canonical import digest
from aitest_lib.config.fairness import Directed, Protected, expectations
from aitest_lib.config.gates import Gate, Gates, SliceValue
from aitest_lib.config.loading import Document, Location, StrictModel, load_yaml, validate
from aitest_lib.config.searches import SearchConfig
from aitest_lib.config.searches import searches_of as image_searches_of
from aitest_lib.config.synthesize import SynthesizeConfig
from aitest_lib.config.transforms import parts_of
from aitest_lib.config.voices import VoiceConfig, voices_of
from aitest_lib.data.rules import parse_rule
from aitest_lib.data.schema import ColumnOverride
from aitest_lib.errors import InputError, unknown
from aitest_lib.metrics.transcripts import NORMALIZERS
from aitest_lib.properties.base import RATES
from aitest_lib.properties.catalog import FAULTS, SPECS, spec, specs_for
from aitest_lib.searches.image.base import ImageSearch
from aitest_lib.searches.strengths import StrengthSearch
from aitest_lib.transforms.audio.voice import VoiceOver
from aitest_lib.transforms.base import Transform

Decide = Literal["interval", "point"]
Generation = Literal["swap", "trepan", "none"]
RATIOS = ("impact_ratio", "scoring_ratio")  # of which 1 is best; above it a reference that was declared is served worse
LEAST = {"leaves": 1, "apl": 0, "epl": 0, "mpl": 0}  # that a tree has


class PropertyConfig(StrictModel):
    """One property of a suite. What is left out is taken from the suite, then from the property's own defaults."""

    property: str
    transforms: list[dict[str, Any]] | None = Field(default=None, min_length=1)
    gates: dict[str, Gates] = Field(default_factory=dict)
    tolerance: float | None = Field(
        default=None,
        ge=0,
        description="regressors: how far an answer may move and still pass; recognisers: how far WER may rise",
    )
    seed_tolerance: float | None = Field(
        default=None, ge=0, description="error up to which a seed counts as right; recognisers: its WER"
    )
    baseline_run: str | None = Field(default=None, description="RUN whose errors are 1 in mean_corruption_error")
    rows: int | None = Field(
        default=None,
        ge=10,
        description="surrogates: training rows that are asked at most; individual fairness, directions: rows that are changed",
    )
    generation: Generation | None = Field(default=None, description="surrogates: how further rows are made where those are few")
    generated: int | None = Field(default=None, ge=0, description="surrogates: how many further rows are made at most")
    voices: list[VoiceConfig] | None = Field(
        default=None,
        min_length=2,
        description="fairness of recognisers: who speaks the texts of the data; the first is the original",
    )
    reference_model: str | None = Field(
        default=None, description="card of a second recogniser: a voice that it cannot understand either is left out"
    )
    normalizer: str | None = Field(default=None, description="recognisers: how transcripts are made comparable")
    unit: Literal["word", "character"] | None = Field(default=None, description="recognisers: what errors are counted in")
    search: SearchConfig | None = Field(
        default=None, description="adversarial searches: method, delta, queries of a seed; searches for pairs: queries in all"
    )
    directions: dict[str, Directed] | None = Field(
        default=None, min_length=1, description="columns and how they may move the answer, e.g. {income: increasing}"
    )
    min_group_share: float | None = Field(
        default=None, gt=0, lt=0.5, description="groups with a smaller share of the rows are left out, and listed"
    )
    confidence: float | None = Field(default=None, gt=0.5, lt=1)
    max_error_rate: float | None = Field(default=None, ge=0, le=1)
    sequential: bool | None = None
    decide: Decide | None = None


class DataConfig(StrictModel):
    """The seeds and what their columns are."""

    test: str
    train: str | None = None
    label: str | None = None
    favorable: SliceValue | None = None
    protected: dict[str, Protected | None] = Field(default_factory=dict)
    columns: dict[str, ColumnOverride] = Field(default_factory=dict, alias="schema")
    rules: list[str] = Field(default_factory=list, description="rows must satisfy these, e.g. age >= 17")
    sample: Literal["all"] | int = "all"
    synthesize: SynthesizeConfig | None = Field(default=None, description="seeds made of the real rows, in place of them")

    @field_validator("protected", mode="before")
    @classmethod
    def _list_of_names(cls, value: Any) -> Any:
        """`[sex, race]` is short for `{sex: {}, race: {}}`."""
        return dict.fromkeys(value) if isinstance(value, list) and all(isinstance(x, str) for x in value) else value

    @model_validator(mode="after")
    def _positive(self) -> DataConfig:
        if self.sample != "all" and self.sample < 1:
            raise ValueError(f"sample: got {self.sample}, expected `all` or at least 1")
        return self


class ModelRef(StrictModel):
    """A registered model and its version (number, latest, or @alias), or a card file."""

    name: str | None = None
    version: str | int = "latest"
    card: str | None = None

    @model_validator(mode="after")
    def _one_way(self) -> ModelRef:
        if (self.name is None) == (self.card is None):
            raise ValueError("expected exactly one of name (a registered model) and card (a file)")
        return self


class Budget(StrictModel):
    """A hard stop on the unique queries a run may send, and what one costs."""

    queries: int | None = Field(default=None, ge=0)
    cost_per_query: float | None = Field(default=None, ge=0)


class Suite(StrictModel):
    """A suite file."""

    suite: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")
    random_seed: int = 0
    model: ModelRef
    data: DataConfig
    budget: Budget = Budget()
    properties: list[PropertyConfig] = Field(min_length=1)
    confidence: float = Field(default=0.95, gt=0.5, lt=1)
    max_error_rate: float = Field(default=0.01, ge=0, le=1)
    sequential: bool = False
    decide: Decide = "interval"


@dataclass(frozen=True)
class LoadedSuite:
    """A validated suite with the file it came from; relative paths in it start at `base_dir`."""

    suite: Suite
    document: Document
    base_dir: Path

    @property
    def digest(self) -> str:
        """Digest of the resolved suite."""
        return digest(self.suite.model_dump(mode="json", by_alias=True))

    def with_properties(self, properties: list[PropertyConfig]) -> LoadedSuite:
        """The suite with these properties in place of its own."""
        return replace(self, suite=self.suite.model_copy(update={"properties": properties}))


def load_suite(path: str | Path) -> LoadedSuite:
    """Reads and validates a suite file; every mistake in it stands in one `InputError`."""
    file = Path(path)
    document = load_yaml(file)
    if (
        isinstance(document.data, dict)
        and "properties" not in document.data
        and {"endpoint", "python", "predictions"} & set(document.data)
    ):
        raise InputError(f"{path}: this is a model card, expected a suite; a suite names it as model: {{card: {file.name}}}")
    return suite_of(document, file.resolve().parent)


def suite_of(document: Document, base_dir: Path) -> LoadedSuite:
    """Validates suite data, names of properties, metrics and transforms included."""
    suite = validate(document, Suite)
    for index, item in enumerate(suite.properties):
        at: Location = ("properties", index)
        if item.property not in SPECS:
            raise document.error((*at, "property"), unknown("property", item.property, SPECS))
        known = {name for names in spec(item.property).metrics.values() for name in names}
        for metric in item.gates:
            if metric not in known:
                raise document.error((*at, "gates", metric), f"{unknown('metric', metric, known)} ({item.property})")
        for metric, given in item.gates.items():
            for gate in given if isinstance(given, list) else [given]:
                bound = gate.min if gate.min is not None else gate.max
                if metric in LEAST and (gate.min is not None or gate.slice):
                    problem = "a tree is to be small: give a max, and no slice, for it is the tree's as a whole"
                    raise document.error((*at, "gates", metric), problem)
                if metric in LEAST and bound is not None and bound < LEAST[metric]:
                    where = (*at, "gates", metric)
                    raise document.error(where, f"got {bound:g}, expected at least {LEAST[metric]}; a tree cannot be smaller")
                if metric in FAULTS and gate.min is not None:
                    problem = "got a min, but the less of it the better: give a max"
                    raise document.error((*at, "gates", metric), problem)
                if metric in RATIOS and bound is not None and (bound > 1) == (gate.max is None):
                    side = "a min of at most 1, e.g. 0.8" if gate.max is None else "a min: the lower the ratio, the worse"
                    raise document.error((*at, "gates", metric), f"got {bound:g}, expected {side}")
                if metric in RATES and bound is not None and not 0 <= bound <= 1:
                    where = (*at, "gates", metric)
                    raise document.error(where, f"got {bound:g}, expected a share from 0 to 1; write 0.95 for 95 %")
        if item.baseline_run is not None and "mean_corruption_error" not in known:
            raise document.error((*at, "baseline_run"), f"{item.property} has no mean_corruption_error; remove the key")
        _check_keys(item, document, at)
        voices_of(item.voices or [], document, (*at, "voices"), base_dir)  # says what is wrong with one
        _check_searched(item, document, at)
        if spec(item.property).shape == "search":
            _check_budgets(item, attacks_of(item, document, at)[0].queries, document, at)
    made = suite.data.synthesize
    for index, rule in enumerate(suite.data.rules):
        _check_rule(rule, document, ("data", "rules", index))
    for index, rule in enumerate(made.rules if made else []):
        _check_rule(rule, document, ("data", "synthesize", "rules", index))
    return LoadedSuite(suite, document, base_dir)


def _check_rule(rule: str, document: Document, at: Location) -> None:
    try:
        parse_rule(rule, columns=None)
    except InputError as error:
        raise document.error(at, str(error)) from error


def _check_keys(item: PropertyConfig, document: Document, at: Location) -> None:
    """Keys that only some shapes of properties read: elsewhere they would be ignored in silence."""
    shape = spec(item.property).shape
    if not spec(item.property).takes_transforms and item.transforms is not None:
        raise document.error((*at, "transforms"), f"{item.property} takes no transforms; remove the key")
    counterparts = spec(item.property).own_answers
    for key in ("rows", "generation", "generated"):
        if shape != "surrogate" and not (key == "rows" and counterparts) and getattr(item, key) is not None:
            raise document.error((*at, key), f"{item.property} grows no surrogate; remove the key")
    pairs = spec(item.property).by_protected and counterparts
    if shape != "search" and not pairs and item.search is not None:
        raise document.error((*at, "search"), f"{item.property} searches for nothing; remove the key")
    if pairs and item.search is not None:
        for key in ("method", "delta", "baselines", "time_limit_s"):
            if getattr(item.search, key) != getattr(SearchConfig(), key):
                raise document.error((*at, "search", key), "is for images; a search for pairs takes queries and labels_only")
    if spec(item.property).by_directions != (item.directions is not None):
        wanted = "needs columns and how they may move the answer: directions: {income: increasing}"
        problem = wanted if item.directions is None else "moves no column; remove the key"
        raise document.error(at if item.directions is None else (*at, "directions"), f"{item.property} {problem}")
    if item.min_group_share is not None and (not spec(item.property).by_protected or counterparts):
        raise document.error((*at, "min_group_share"), f"{item.property} compares no groups; remove the key")
    for key in ("voices", "reference_model"):
        if not spec(item.property).by_voices and getattr(item, key) is not None:
            raise document.error((*at, key), f"{item.property} compares no voices; remove the key")
    for key in ("tolerance", "seed_tolerance"):
        if spec(item.property).modality != "speech" and getattr(item, key) == 0:
            raise document.error((*at, key), "got 0, expected more than 0")
    for key in ("normalizer", "unit"):
        if spec(item.property).modality != "speech" and getattr(item, key) is not None:
            raise document.error((*at, key), f"{item.property} reads no transcripts; remove the key")
    if item.normalizer is not None and item.normalizer not in NORMALIZERS:
        raise document.error((*at, "normalizer"), unknown("normalizer", item.normalizer, NORMALIZERS))
    if item.reference_model is not None and item.voices is None:
        raise document.error(
            (*at, "reference_model"), "a second recogniser is asked about `voices`; name some, or remove the key"
        )
    if item.generation == "none" and item.generated:
        raise document.error((*at, "generated"), "got rows to generate and `generation: none`; remove one of them")


def _check_budgets(item: PropertyConfig, queries: int, document: Document, at: Location) -> None:
    """Gates on the success within more queries than a search may cost."""
    for metric, given in item.gates.items():
        for gate in given if isinstance(given, list) else [given]:
            for problem in _impossible_slice(metric, gate):
                raise document.error((*at, "gates", metric), problem)
            named = (gate.slice or {}).get("queries")
            fits = isinstance(named, int) and not isinstance(named, bool) and 1 <= named <= queries
            if named is not None and not fits:
                problem = (
                    f"slice: got queries {named!r}, expected a whole number from 1 to the {queries} that a search may cost"
                )
                raise document.error((*at, "gates", metric), problem)


def _impossible_slice(metric: str, gate: Gate) -> Iterator[str]:
    """Why a search has no such figure: those within some queries are of all seeds, those of other slices within all queries."""
    keys = set(gate.slice or {})
    if "queries" in keys and (len(keys) > 1 or metric not in ("attacked_accuracy", "success_rate")):
        yield "slice: within some queries there are attacked_accuracy and success_rate of all seeds; name queries alone"
    elif keys - {"queries"} and metric != "attacked_accuracy":
        yield f"slice: {metric} is told of all seeds only; put the gate on attacked_accuracy"


def _check_searched(item: PropertyConfig, document: Document, at: Location) -> None:
    """Gates on figures that the property cannot have would be inconclusive only after everything was paid for."""
    searched = searches_of(item, document, at)
    needs = {
        "median_breaking_point": (searched, "a transform with `strength: breaking_point`"),
        "unbroken_rate": (searched, "a transform with `strength: breaking_point`"),
        "mean_corruption_error": (item.baseline_run, "`baseline_run: RUN`"),
    }
    for metric in item.gates:
        found, wanted = needs.get(metric, (True, ""))
        if not found:
            raise document.error((*at, "gates", metric), f"this gate needs {wanted}; add it, or remove the gate")


def with_label(loaded: LoadedSuite, label: str | None) -> LoadedSuite:
    """The suite with the column of the labels settled."""
    data = loaded.suite.data.model_copy(update={"label": label})
    return replace(loaded, suite=loaded.suite.model_copy(update={"data": data}))


def check_fit(loaded: LoadedSuite, model_type: str, labelled: bool) -> None:
    """Raises `InputError` where a property or a gate does not fit the model's type or the data."""
    for index, item in enumerate(loaded.suite.properties):
        at: Location = ("properties", index)
        wanted = spec(item.property)
        if model_type not in wanted.types:
            fitting = ", ".join(one.name for one in specs_for(model_type)) or "none yet"
            raise loaded.document.error((*at, "property"), f"{item.property} does not fit a {model_type}; these do: {fitting}")
        for metric in item.gates:
            if metric not in wanted.metrics[model_type]:
                raise loaded.document.error(
                    (*at, "gates", metric), f"{unknown('metric', metric, wanted.metrics[model_type])} ({model_type})"
                )
        if wanted.by_protected and not loaded.suite.data.protected:
            problem = f"{item.property} compares by protected columns; name them as data.protected, e.g. [sex, race]"
            raise loaded.document.error(("data",), problem)
        for name, expectation in expectations(item.directions).items():
            if expectation.on is not None and model_type.endswith("-regressor"):
                problem = f"got {expectation.on} for a regressor, which answers numbers; write {name}: {expectation.expected}"
                raise loaded.document.error((*at, "directions", name), problem)
        if wanted.needs_labels and not labelled:
            raise loaded.document.error(("data",), f"{item.property} needs labels; name their column as data.label")
        made = loaded.suite.data.synthesize
        if wanted.needs_labels and made is not None and not made.labelled:
            what = "rows whose numbers drift" if made.method == "swap" else f"rows of method {made.method}"
            problem = f"{what} have no labels, and {item.property} needs them; leave one of the two out"
            raise loaded.document.error(("data", "synthesize"), problem)


def transforms_of(config: PropertyConfig, document: Document, at: Location) -> list[Transform]:
    """The components of a property, sweeps spread out (a list in the strength parameter is one component each)."""
    if spec(config.property).by_voices:
        return [VoiceOver(config=voice.model_dump(mode="json", exclude_defaults=True)) for voice in config.voices or []]
    if not spec(config.property).takes_transforms:
        return []  # what is put into rows hangs on the columns of the data, too
    return parts_of(config.property, config.transforms, document, at)[0]


def searches_of(config: PropertyConfig, document: Document, at: Location) -> list[StrengthSearch]:
    """The transforms of a property whose breaking point is looked for (`strength: breaking_point`)."""
    if not spec(config.property).takes_transforms:
        return []
    return parts_of(config.property, config.transforms, document, at)[1]


def attacks_of(config: PropertyConfig, document: Document, at: Location) -> list[ImageSearch]:
    """The adversarial search of a property and the baselines beside it."""
    return image_searches_of(config.search, document, at)
