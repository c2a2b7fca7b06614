"""From a suite and a model to a finished run: checks the input, writes the record, runs the flow, ends cleanly."""

from __future__ import annotations

import getpass
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from aitest_flows.prefect_server import check_prefect, prefect_server
from aitest_lib import __version__
from aitest_lib.config.card import LoadedCard, load_card, model_info
from aitest_lib.config.loading import located
from aitest_lib.config.secrets import references, secret
from aitest_lib.config.suite import LoadedSuite, check_fit, with_label
from aitest_lib.config.templates import modality
from aitest_lib.data.audio import AudioSource
from aitest_lib.data.images import ImageSource
from aitest_lib.data.sources import Source, memory_source_of, open_source
from aitest_lib.data.table import TableSource, memory_source
from aitest_lib.errors import AitestError, InputError, unknown
from aitest_lib.properties.catalog import SPECS
from aitest_lib.reports.report import RunReport
from aitest_lib.types import ModelInfo
from aitest_tasks import live
from aitest_tasks.audio_seeds import transcript_label
from aitest_tasks.corruption_error import settled_baselines
from aitest_tasks.fairness_checks import check_fairness
from aitest_tasks.growing_rows import check_growing
from aitest_tasks.image_seeds import image_label
from aitest_tasks.leases import Lease, check_free
from aitest_tasks.limits import share_of
from aitest_tasks.processes import identity
from aitest_tasks.runs import Run, create_run, failing_cases, fingerprints
from aitest_tasks.sampling import check_data, check_rows, sent_columns
from aitest_tasks.settings import Settings
from aitest_tasks.sharing import begin_again
from aitest_tasks.speech_checks import check_speech
from aitest_tasks.tracking import Tracking, flatten

DEFAULT_WORKERS = 4


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a run may be told beyond its suite."""

    only: tuple[str, ...] = ()
    fresh: bool = False
    budget: int | None = None
    workers: int | None = None
    pool: str | None = None
    scheduler: str | None = None


@dataclass(frozen=True)
class Request:
    """A checked request for a run: nothing was asked, written or started yet."""

    suite: LoadedSuite
    card: LoadedCard | None
    info: ModelInfo
    registered: dict[str, str] | None
    test: Source
    train: TableSource | None
    columns: list[str]
    properties: list[int]
    options: Options
    model: Any = None


def request_run(
    settings: Settings,
    suite: LoadedSuite,
    options: Options,
    *,
    model: Any = None,
    info: ModelInfo | None = None,
    data: Any = None,
    train: pd.DataFrame | None = None,
    card: LoadedCard | None = None,
) -> Request:
    """Checks a suite, its model and its data against one another. `model`, `data` (see `memory_source_of`), `train`: objects
    given in Python; `card`: what stood in the suite's card file when it was deployed."""
    suite = settled_baselines(settings.store, suite)
    config = suite.suite
    card, registered = (None, None) if model is not None else find_card(settings, suite, card)
    if card is not None:
        info = model_info(card, registered["version"] if registered else None)
    if info is None:
        raise InputError("got a model without a description, expected its type")
    kind = modality(info.type)
    test = memory_source_of(data, kind) if data is not None else open_source(located(config.data.test, suite.base_dir), kind)
    if not isinstance(test, TableSource):
        label = image_label(test, config.data) if isinstance(test, ImageSource) else transcript_label(test, config.data)
        suite = with_label(suite, label)
        config = suite.suite
    source = memory_source(train) if train is not None else None
    if source is None and config.data.train:
        source = TableSource(located(config.data.train, suite.base_dir))
    if card is not None and card.card.endpoint and options.pool is None:
        for name in sorted(references(json.dumps(card.raw["endpoint"]))):
            secret(name)  # an unset one is told before anything is started; a pool's workers have secrets of their own
    check_fit(suite, info.type, config.data.label is not None)
    if options.pool is None:  # a pool's workers have packages of their own
        check_installed(config, kind, options.only)
    check_data(suite, test)
    check_rows(test, source)
    if isinstance(test, AudioSource) and options.pool is None:
        check_speech(suite, test, chosen(config, options.only))
    columns = (
        sent_columns(card, config.data, test.schema.names)
        if card is not None
        else object_columns(model, test.schema.names, config.data.label, kind)
    )
    check_growing(suite, columns, test, source)
    if isinstance(test, TableSource):
        check_fairness(suite, test, columns, chosen(config, options.only))
    if config.data.synthesize is not None and card is not None and card.card.predictions is not None:
        problem = f"makes rows of its own, and {card.card.name} holds computed answers only; leave it out"
        raise suite.document.error(("data", "synthesize"), problem)
    return Request(suite, card, info, registered, test, source, columns, chosen(config, options.only), options, model)


def object_columns(model: Any, names: list[str], label: str | None, kind: str) -> list[str]:
    """The columns that an object in memory is sent: those that it was fitted on (scikit-learn's `feature_names_in_`) where the
    data have them all, else all but the label; of images, none."""
    if kind != "tabular":
        return []
    fitted = [str(name) for name in getattr(model, "feature_names_in_", ())]
    return fitted if fitted and set(fitted) <= {*names} - {label} else [name for name in names if name != label]


def check_installed(config: Any, kind: str, only: tuple[str, ...]) -> None:
    """Raises `InputError` where transforms of images are to be made without torch, or clips to be read without what it takes,
    before anything is asked."""
    transformed = any(SPECS[config.properties[index].property].new_queries for index in chosen(config, only))
    if kind == "image" and transformed and find_spec("torch") is None:
        raise InputError("transforms of images need torch, which is not installed; run pip install 'aitest[image]'")
    lacking = [name for name in ("torch", "torchaudio", "soundfile", "jiwer", "regex") if find_spec(name) is None]
    if kind == "speech" and lacking:
        raise InputError(f"speech needs {lacking[0]}, which is not installed; run pip install 'aitest[speech]'")


def find_card(
    settings: Settings, suite: LoadedSuite, card: LoadedCard | None = None
) -> tuple[LoadedCard, dict[str, str] | None]:
    """The card a suite names: a file (or what stood in it), or a registered version. The version of an MLflow model is settled
    here, once a run."""
    reference = suite.suite.model
    if reference.card is not None:
        loaded = card or load_card(Path(located(reference.card, suite.base_dir)))
        if loaded.card.mlflow is None:
            return loaded, None
        from aitest_tasks.model_registry import resolve_card

        return resolve_card(Tracking(settings), loaded)
    from aitest_tasks.model_registry import find_version

    found = find_version(Tracking(settings), str(reference.name), str(reference.version))
    return found.card, {"name": found.name, "version": found.version}


def chosen(config: Any, only: tuple[str, ...]) -> list[int]:
    """Places of the properties to run; an unknown one is an `InputError`."""
    names = [item.property for item in config.properties]
    for name in only:
        if name not in names:
            raise InputError(
                f"--only: {unknown('property', name, names if name in SPECS else [*names, *SPECS])} (of this suite)"
            )
    return [index for index, name in enumerate(names) if not only or name in only]


def start(settings: Settings, request: Request) -> Run:
    """Makes the MLflow parent run and the run's record. A store that is away is told at once; later it is waited for."""
    settings.store.check()
    if request.options.pool is not None:
        from aitest_flows.pools import check_pool, prefect_client
        from aitest_flows.spreading import made_ready

        with prefect_client() as client:
            check_pool(client, request.options.pool)
            request = made_ready(settings, request, request.options.pool)
    tracking = Tracking(settings)
    config = request.suite.suite
    resolved = config.model_dump(mode="json", by_alias=True, exclude_none=True)
    parameters = flatten({key: value for key, value in resolved.items() if key != "properties"})
    now = datetime.now(UTC)
    tags = {
        "aitest.suite": config.suite,
        "aitest.model": request.info.name,
        "aitest.model_version": request.info.version or "unregistered",
        "aitest.status": "running",
        "mlflow.runName": f"{config.suite} {now:%Y-%m-%d %H:%M}",
        "mlflow.user": user(),
    }
    run_id = tracking.start_run(config.suite, tags, parameters)
    if request.model is not None:
        live.keep_object(run_id, request.model)
    record = record_of(settings, request, now)
    with live.running():  # MLflow has the run already
        return create_run(settings.store, run_id, record)


def record_of(settings: Settings, request: Request, now: datetime) -> dict[str, Any]:
    """The record of a run: all that a worker or a `resume` needs."""
    return {
        "suite": request.suite.suite.model_dump(mode="json", by_alias=True, exclude_none=True),
        "base_dir": str(request.suite.base_dir),
        "card": request.card.raw if request.card else None,
        "card_dir": str(request.card.base_dir) if request.card else None,
        "model": {
            "name": request.info.name,
            "type": request.info.type,
            "digest": request.info.digest,
            "version": request.info.version,
            "revision": request.info.revision,
            "classes": list(request.info.classes) if request.info.classes is not None else None,
            "reusable": request.info.reusable,
        },
        "registered": request.registered,
        "test": request.test.url,
        "train": request.train.url if request.train else None,
        "test_digest": request.test.digest(),
        "train_digest": request.train.digest() if request.train else None,
        "columns": request.columns,
        "options": {
            "properties": request.properties,
            "fresh": request.options.fresh,
            "budget": request.options.budget,
            **spread_of(request.card, request.options),
        },
        "fingerprints": fingerprints(request.suite),
        "started": now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "started_by": user(),
        "starter": identity(),
        "home": str(settings.home),
    }


def spread_of(card: LoadedCard | None, options: Options) -> dict[str, Any]:
    """How the work of a run is spread: `workers`, shards asked at once in a process (or a Dask cluster), `helpers`, processes
    beside the one that asks, and the share of the endpoint's limits that each process has."""
    workers = default_workers(card)
    endpoint = card.card.endpoint if card is not None else None
    if options.pool is not None:
        from aitest_flows.pools import prefect_client
        from aitest_flows.spreading import online_workers

        with prefect_client():
            helpers = options.workers or max(online_workers(options.pool), 1)
        share = share_of(endpoint, helpers + 1) if endpoint else None
        workers = min(workers, share["streams"]) if share else workers
        return {"workers": workers, "helpers": helpers, "pool": options.pool, "share": share}
    if options.scheduler is not None:
        from aitest_flows.spreading import dask_size

        processes, threads = dask_size(options.scheduler)
        share = share_of(endpoint, processes, threads) if endpoint else None
        workers = options.workers or (min(threads, share["slots"]) if share else threads)
        return {"workers": workers, "scheduler": options.scheduler, "share": share}
    return {"workers": options.workers or workers}


def default_workers(card: LoadedCard | None) -> int:
    """Shards asked at once: as many as the endpoint takes calls, but no more than a few threads."""
    endpoint = card.card.endpoint if card else None
    return max(1, min(endpoint.concurrency, 8)) if endpoint else DEFAULT_WORKERS


def user() -> str:
    """Who starts a run."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


@live.running()
def check_resumable(run: Run) -> None:
    """Raises `InputError` where resuming would not give what the run would have given."""
    check_free(run)
    if run.has("report"):
        if run.has("logged"):
            raise InputError(f"run {run.run_id[:8]} has ended already; see `aitest show {run.run_id[:8]}`")
        return  # only MLflow does not know yet
    if run.record["card"] is None and live.kept_object(run.run_id) is None:
        raise InputError(f"the model of run {run.run_id[:8]} was an object in another process; run it again from there")
    now = fingerprints(run.suite)
    changed = [name for name, value in run.record["fingerprints"].items() if now.get(name) != value]
    if changed:
        raise InputError(
            f"run {run.run_id[:8]} cannot be resumed: {', '.join(changed)} changed since it began "
            f"(aitest {__version__} now); run the suite again"
        )
    if run.test.digest() != run.record["test_digest"]:
        raise InputError(
            f"run {run.run_id[:8]} cannot be resumed: {run.record['test']} changed since it began; run the suite again"
        )
    begin_again(run)


@live.running()
def execute(settings: Settings, run: Run) -> RunReport:
    """Runs the suite flow: in this process, on the project's Prefect server, or on the workers of the run's pool."""
    from prefect import tags
    from prefect.settings import PREFECT_API_URL, PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

    from aitest_flows.spreading import run_tag
    from aitest_flows.suite import publish, suite

    adopt(settings, run)
    if run.has("report"):
        with Lease(run):
            report = RunReport.model_validate(run.read("report"))
            publish(run, report, failing_cases(run, report))
        return report
    if run.pool:
        return on_pool(run)
    with prefect_server(settings.prefect_home, settings.logs) as url:
        # No heartbeats of Prefect's: the lease says who is alive, and their thread costs every flow up to a second at its end.
        changed: dict[Any, Any] = {PREFECT_API_URL: url, PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}
        with temporary_settings(changed):
            try:
                with tags(run_tag(run)):
                    return RunReport.model_validate(suite(run.uri))
            except Exception as error:
                if not isinstance(error, AitestError):
                    check_prefect(error)
                raise


def on_pool(run: Run) -> RunReport:
    """Has the workers of the run's pool do it, and tells how far they are until it has ended."""
    from aitest_flows.pools import prefect_client
    from aitest_flows.spreading import lead_on_pool
    from aitest_flows.states import follow

    with prefect_client():
        lead_on_pool(run, follow(run))
    return RunReport.model_validate(run.read("report"))


def adopt(settings: Settings, run: Run) -> None:
    """Makes this project the run's, where it is resumed from another one on the same store and MLflow."""
    if run.record["home"] == str(settings.home):
        return
    tracking = Tracking(settings)
    if not tracking.knows(run.run_id):
        raise InputError(
            f"run {run.run_id[:8]} was started in {run.record['home']}, and MLflow at {tracking.place} does not know it; "
            "resume it there, or set MLFLOW_TRACKING_URI to the server it was started with"
        )
    run.record["home"] = str(settings.home)
    run.write("run", run.record)
