"""The commands of `aitest` in Python, and audits of objects in memory.

from aitest_flows import api

report = api.run("suite.yaml")
report = api.audit(model=pipeline, data=df, label="income", protected=["sex"])
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aitest_lib.config.loading import Document
from aitest_lib.config.suite import LoadedSuite, load_suite, suite_of
from aitest_lib.errors import InputError, nearest
from aitest_lib.properties.base import PropertySpec
from aitest_lib.properties.catalog import specs_for
from aitest_lib.reports.report import FailingCase, RunReport
from aitest_lib.types import ModelInfo
from aitest_tasks.settings import Settings, open_settings

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from aitest_flows.deploying import Deployed
    from aitest_flows.ready_cards import ReadyCard
    from aitest_flows.replaying import Replay
    from aitest_flows.runner import Options
    from aitest_flows.services.project import Standing
    from aitest_lib.models.probe import ProbeResult
    from aitest_lib.reports.comparison import Comparison
    from aitest_tasks.model_registry import Registered
    from aitest_tasks.runs import Run

MOST_SAMPLED = 2_000
AUDIT_SAMPLE = {"image": 500, "speech": 200}  # asked under every transform and severity
LABELS = {"image": "label", "speech": "text"}  # what their columns are usually called
LABEL_FREE = {"pass_rate", "attacked_accuracy", "wer_rise", "impact_ratio", "prevalence"}  # figures that need no labels


def run(suite: str | Path, **options: Any) -> RunReport:
    """Runs a suite file here. `options`: only, fresh, budget, workers (see `Options`)."""
    settings = open_settings()
    return run_suite(settings, load_suite(suite), _options(options))


def audit(
    model: Any,
    data: str | Path | pd.DataFrame | NDArray[Any] | tuple[NDArray[Any], Any],
    label: str | None = None,
    protected: Sequence[str] = (),
    *,
    name: str | None = None,
    model_type: str | None = None,
    classes: Sequence[Any] | None = None,
    random_seed: int = 0,
    sample: int | str | None = None,
    **options: Any,
) -> RunReport:
    """Default properties and gates for a model, run at once.

    `model`: path of a card, or any object with `predict` (and `predict_proba`), or a callable. `data`: path or DataFrame; of
    images an array N×H×W(×C), or images and labels `(x, y)`; of speech a list of clips (`Clip`, or samples and sample rate), or
    clips and transcripts. The type of an object is guessed from the data (from the label:
    numbers with many values are a regressor's) unless `model_type` says it.
    """
    settings = open_settings()
    if isinstance(model, str | Path):
        return run_suite(
            settings, audit_suite(Path(model), str(data), label, protected, random_seed, sample), _options(options)
        )
    import numpy as np

    given = None if isinstance(data, str | Path) else data
    from aitest_lib.config.templates import modality

    images = isinstance(data, tuple | np.ndarray)
    speech = _are_clips(data[0] if isinstance(data, tuple) and len(data) == 2 else data)
    guess = "speech-to-text" if speech else "image-classifier" if images else None
    kind = model_type or guess or _guess_type(data, label)
    label = LABELS.get(modality(kind), label) if isinstance(data, tuple) else label
    suite = _suite_for(
        name or "audit",
        {"card": "in-memory"},
        "in-memory" if given is not None else str(data),
        kind,
        label,
        protected,
        random_seed,
        sample,
    )
    return run_suite(settings, suite, _options(options), model=model, info=_object_info(model, name, kind, classes), data=given)


def audit_suite(
    card: Path, data: str, label: str | None, protected: Sequence[str], random_seed: int = 0, sample: int | str | None = None
) -> LoadedSuite:
    """The suite that `aitest audit CARD DATA` runs."""
    from aitest_lib.config.card import load_card

    loaded = load_card(card)
    path = data if "://" in data else str(Path(data).resolve())
    return _suite_for(
        f"audit-{loaded.card.name}",
        {"card": str(card.resolve())},
        path,
        loaded.card.type,
        label,
        protected,
        random_seed,
        sample,
    )


def deploy(
    suite: str | Path, *, pool: str, cron: str | None = None, timezone: str | None = None, on_new_version: str | None = None
) -> Deployed:
    """Has the workers of a pool audit a suite, on a schedule and for new model versions; updates an earlier deployment."""
    from aitest_flows.deploying import deploy_suite

    return deploy_suite(open_settings(), suite, pool=pool, cron=cron, timezone=timezone, on_new_version=on_new_version)


def resume(run_id: str) -> RunReport:
    """Finishes an interrupted run; sends only the queries that are missing."""
    from aitest_flows import runner

    settings = open_settings()
    found = find(settings, run_id)
    runner.check_resumable(found)
    return runner.execute(settings, found)


def show(run_id: str) -> tuple[RunReport, dict[str, list[FailingCase]]]:
    """The report of a run that has ended, and its failing cases by property."""
    from aitest_flows.comparing import ended_run

    found, report = ended_run(open_settings(), run_id)
    return report, failing_cases(found, report)


def compare(base: str, candidate: str, margin: float | None = None) -> Comparison:
    """What changed from one ended run to another: in the suite, per property and per case. `margin`: in points."""
    from aitest_flows.comparing import compare_found

    return compare_found(open_settings(), base, candidate, margin)


def replay(run_id: str, case: str, model: str | None = None) -> Replay:
    """Asks the model of a run (or a registered `NAME/VERSION`) one stored case again; nothing that is kept changes."""
    from aitest_flows.replaying import replay_case

    return replay_case(open_settings(), run_id, case, model)


def init(
    data: str | Path,
    label: str | None = None,
    *,
    curl: str | None = None,
    like: str | None = None,
    name: str = "my-model",
    folder: str | Path = ".",
) -> list[tuple[str, str]]:
    """Writes a card and a suite to start from, from a curl command or a ready card; each file with what to know of it."""
    from aitest_flows.starting import write_start

    return write_start(Path(folder), Path(data), label, name, curl=curl, like=like)


def cards() -> list[ReadyCard]:
    """The ready cards, one for each service."""
    from aitest_flows.ready_cards import ready_cards

    return ready_cards()


def probe(card: str | Path, data: str | Path | None = None) -> ProbeResult:
    """Asks the model behind a card a few inputs and says how it answers."""
    from aitest_flows.probing import probe_card

    return probe_card(Path(card), data)


def register(card: str | Path, data: str | Path | None = None) -> Registered:
    """Validates a card, probes the model (where there are data to ask with) and records it as a new version."""
    from aitest_flows.probing import register_card_file

    return register_card_file(open_settings(), Path(card), data)


def up(*, s3: bool = False, webhook: bool = False) -> list[Standing]:
    """Starts the services of the project that are not up: MLflow, Prefect, a worker, an S3 server and the webhook receiver
    where they are wanted. They outlive this process; what is called from here on uses them."""
    from aitest_flows.services import project

    return project.up(open_settings(), s3=s3, webhook=webhook)


def down() -> list[str]:
    """Ends the services of the project; the names of those that were running."""
    from aitest_flows.services import project

    return project.down(open_settings())


def run_suite(
    settings: Settings,
    suite: LoadedSuite,
    options: Options,
    *,
    model: Any = None,
    info: ModelInfo | None = None,
    data: Any = None,
) -> RunReport:
    """Checks, starts and executes one run."""
    from aitest_flows import runner

    request = runner.request_run(settings, suite, options, model=model, info=info, data=data)
    return runner.execute(settings, runner.start(settings, request))


def find(settings: Settings, run_id: str) -> Run:
    """The run of an id, a unique prefix of it, or `last`."""
    from aitest_tasks.runs import find_run

    return find_run(settings.store, run_id)


def failing_cases(found: Run, report: RunReport) -> dict[str, list[FailingCase]]:
    """The failing cases to show, by property."""
    from aitest_tasks.runs import failing_cases as read

    return read(found, report)


def _options(given: dict[str, Any]) -> Options:
    from dataclasses import fields

    from aitest_flows.runner import Options

    known = [field.name for field in fields(Options)]
    for name in given:
        if name not in known:
            near = nearest(name, known)
            raise InputError(
                f"got the option {name!r}, expected one of {', '.join(known)}" + (f"; did you mean {near[0]}?" if near else "")
            )
    return Options(**{**given, "only": tuple(given.get("only", ()))})


def _suite_for(
    name: str,
    model: dict[str, str],
    data: str,
    model_type: str,
    label: str | None,
    protected: Sequence[str],
    random_seed: int,
    sample: int | str | None,
) -> LoadedSuite:
    from aitest_lib.config.templates import modality
    from aitest_lib.data.sources import open_source

    if sample is None:
        sample = AUDIT_SAMPLE.get(modality(model_type), MOST_SAMPLED)
    if data != "in-memory":
        source = open_source(data, modality(model_type))
        usual = LABELS.get(modality(model_type))
        label = label or (usual if usual in source.schema.names else None)
        sample = "all" if sample != "all" and source.rows <= int(sample) else sample
    properties = [
        {"property": spec.name, "gates": _default_gates(spec, label)}
        for spec in specs_for(model_type)
        if (label is not None or not spec.needs_labels)
        and (protected or not (spec.by_voices or spec.by_protected))
        and not spec.by_directions  # nobody but the user knows them
    ]
    suite = {
        "suite": name,
        "random_seed": random_seed,
        "model": model,
        "data": {"test": data, "label": label, "protected": {column: {} for column in protected}, "sample": sample},
        "properties": properties,
    }
    return suite_of(Document(suite), Path.cwd())


def _default_gates(spec: PropertySpec, label: str | None) -> dict[str, Any]:
    """The property's default gates; without labels only those that need none."""
    free = label is not None or spec.shape == "surrogate"
    return {
        metric: [dict(one) for one in gate] if isinstance(gate, tuple) else dict(gate)
        for metric, gate in spec.default_gates.items()
        if free or metric in LABEL_FREE
    }


def _are_clips(data: Any) -> bool:
    from aitest_lib.types import Clip

    first = data[0] if isinstance(data, list) and data else None
    return isinstance(first, Clip) or (isinstance(first, tuple) and len(first) == 2 and isinstance(first[1], int))


def _guess_type(data: Any, label: str | None) -> str:
    import pyarrow as pa

    from aitest_lib.data.table import TableSource, memory_source

    source = TableSource(str(data)) if isinstance(data, str | Path) else memory_source(data)
    if label is None or label not in source.schema.names:
        return "tabular-classifier"
    kind = source.schema.field(label).type
    if pa.types.is_floating(kind):
        return "tabular-regressor"
    if pa.types.is_integer(kind):
        seen: set[Any] = set()
        for batch in source.batches([label]):
            seen.update(batch.column(label).unique().to_pylist())
        return "tabular-classifier" if len(seen) <= 20 else "tabular-regressor"
    return "tabular-classifier"


def _object_info(model: Any, name: str | None, kind: str, classes: Sequence[Any] | None) -> ModelInfo:
    import uuid

    own = getattr(model, "classes_", None)
    given = classes if classes is not None else own
    labels = (
        None
        if given is None or not kind.endswith("-classifier")
        else tuple(getattr(value, "item", lambda value=value: value)() for value in given)
    )
    return ModelInfo(
        name=name or type(model).__name__, type=kind, digest=f"object-{uuid.uuid4().hex}", classes=labels, reusable=False
    )
