"""From a suite and a model to a finished run: checks the input, writes the record, runs the flow, ends cleanly."""

from __future__ import annotations

import getpass
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from aitest_flows.interrupt import mark_interrupted
from aitest_flows.prefect_server import check_prefect, prefect_server
from aitest_lib import __version__
from aitest_lib.config.card import LoadedCard, load_card, model_info
from aitest_lib.config.secrets import references, secret
from aitest_lib.config.suite import LoadedSuite, check_fit
from aitest_lib.data.table import TableSource, memory_source
from aitest_lib.errors import AitestError, InputError, unknown
from aitest_lib.properties.catalog import SPECS
from aitest_lib.reports.report import RunReport
from aitest_lib.types import ModelInfo
from aitest_tasks import live
from aitest_tasks.memory import keep_memory_lean
from aitest_tasks.querying import forget_errors
from aitest_tasks.runs import Lease, Run, check_free, create_run, failing_cases, fingerprints
from aitest_tasks.sampling import check_data, check_rows, sent_columns
from aitest_tasks.settings import Settings
from aitest_tasks.tracking import Tracking, flatten

PROGRESS_S = 1.0
DEFAULT_WORKERS = 4


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a run may be told beyond its suite."""

    only: tuple[str, ...] = ()
    fresh: bool = False
    budget: int | None = None
    workers: int | None = None


@dataclass(frozen=True)
class Request:
    """A checked request for a run: nothing was asked, written or started yet."""

    suite: LoadedSuite
    card: LoadedCard | None
    info: ModelInfo
    registered: dict[str, str] | None
    test: TableSource
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
    data: pd.DataFrame | None = None,
    train: pd.DataFrame | None = None,
) -> Request:
    """Checks a suite, its model and its data against one another. `model`, `data`, `train`: objects given in Python."""
    config = suite.suite
    card, registered = (None, None) if model is not None else find_card(settings, suite)
    if card is not None:
        info = model_info(card, registered["version"] if registered else None)
    if info is None:
        raise InputError("got a model without a description, expected its type")
    test = memory_source(data) if data is not None else TableSource(located(config.data.test, suite.base_dir))
    source = memory_source(train) if train is not None else None
    if source is None and config.data.train:
        source = TableSource(located(config.data.train, suite.base_dir))
    for name in sorted(references(json.dumps(card.raw["endpoint"])) if card is not None and card.card.endpoint else ()):
        secret(name)  # an unset one is told before anything is started
    check_fit(suite, info.type, config.data.label is not None)
    check_data(suite, test)
    check_rows(test, source)
    columns = (
        sent_columns(card, config.data, test.schema.names)
        if card is not None
        else [name for name in test.schema.names if name != config.data.label]
    )
    return Request(suite, card, info, registered, test, source, columns, chosen(config, options.only), options, model)


def find_card(settings: Settings, suite: LoadedSuite) -> tuple[LoadedCard, dict[str, str] | None]:
    """The card a suite names: a file, or a registered version. The version of an MLflow model is settled here, once a run."""
    reference = suite.suite.model
    if reference.card is not None:
        loaded = load_card(Path(located(reference.card, suite.base_dir)))
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


def located(path: str, base_dir: Path) -> str:
    """A path of a suite file as an absolute one; URLs stay."""
    return path if "://" in path else str((base_dir / path).resolve())


def start(settings: Settings, request: Request) -> Run:
    """Makes the MLflow parent run and the run's record. A store that is away is told at once; later it is waited for."""
    settings.store.check()
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
            "workers": request.options.workers or default_workers(request.card),
        },
        "fingerprints": fingerprints(request.suite),
        "started": now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "started_by": user(),
        "home": str(settings.home),
    }


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
    forget_errors(run)


@live.running()
def execute(settings: Settings, run: Run) -> RunReport:
    """Runs the suite flow in this process, on the project's Prefect server."""
    from prefect.settings import (
        PREFECT_API_URL,
        PREFECT_FLOWS_HEARTBEAT_FREQUENCY,
        temporary_settings,
    )
    from prefect.task_runners import ThreadPoolTaskRunner

    from aitest_flows.suite import publish, suite
    from aitest_tasks.results import saved_results

    adopt(settings, run)
    keep_memory_lean()
    if run.has("report"):
        with Lease(run):
            report = RunReport.model_validate(run.read("report"))
            publish(run, report, failing_cases(run, report))
        return report
    with Lease(run), _progress_file(run), prefect_server(settings.prefect_home, settings.logs) as url:
        # No heartbeats of Prefect's: the lease says who is alive, and their thread costs every flow up to a second at its end.
        changed: dict[Any, Any] = {PREFECT_API_URL: url, PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}
        try:
            with temporary_settings(changed):
                runner: Any = ThreadPoolTaskRunner(max_workers=run.options["workers"])
                result = suite.with_options(task_runner=runner, result_storage=saved_results(run.store))(run.uri)
        except AitestError:
            mark_interrupted(settings, run)
            raise
        except Exception as error:
            mark_interrupted(settings, run)
            with temporary_settings({PREFECT_API_URL: url}):
                check_prefect(error)
            raise
        finally:
            live.close_model(run.run_id)
    return RunReport.model_validate(result)


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


@contextmanager
def _progress_file(run: Run) -> Iterator[None]:
    """Writes how far the run is, about once a second, for `aitest status`."""
    state: dict[str, dict[str, Any]] = {}
    lock, changed, done = threading.Lock(), threading.Event(), threading.Event()

    def hear(name: str, stage: str, now: int, total: int, note: str) -> None:
        with lock:
            state.setdefault(name, {})[stage] = {"done": now, "total": total, "note": note}
        changed.set()

    def write() -> None:
        while not done.is_set():
            changed.wait(PROGRESS_S)
            if not changed.is_set():
                continue
            changed.clear()
            save(run, state, lock)
            done.wait(PROGRESS_S)

    forget = live.listen(hear)
    writer = threading.Thread(target=write, name="aitest-progress", daemon=True)
    writer.start()
    try:
        yield
    finally:
        forget()
        done.set()
        changed.set()
        writer.join(timeout=5)
        save(run, state, lock)


def save(run: Run, state: Mapping[str, Any], lock: threading.Lock) -> None:
    """Writes the progress file; a store that is away for a moment costs a line of it, not the run."""
    with lock:
        snapshot = {"time": time.time(), "properties": {name: dict(stages) for name, stages in state.items()}}
    try:
        run.write("progress", snapshot)
    except AitestError:
        return
