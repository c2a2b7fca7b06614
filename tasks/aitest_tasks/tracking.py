"""MLflow: one experiment a suite, one parent run a suite run, one child run a property (contract, section 6).

`MlflowClient` with explicit run ids only: no active run, no global state, one writer a run.
"""

from __future__ import annotations

import fcntl
import json
import logging
import re
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import pandas as pd
from prefect import task

from aitest_lib.errors import AitestError, InputError, UnavailableError
from aitest_lib.reports.bias_audit import bias_audit_csv
from aitest_lib.reports.html import render_html
from aitest_lib.reports.report import FailingCase, PropertyReport, RunReport
from aitest_lib.reports.tables import markdown
from aitest_lib.surrogates.tree import Tree
from aitest_lib.types import ArtifactRef
from aitest_tasks import live
from aitest_tasks.figures import figures
from aitest_tasks.metric_names import distinct_names, metric_values, slug
from aitest_tasks.runs import Run, open_run
from aitest_tasks.settings import Settings, current
from aitest_tasks.tracking_database import holds_nothing, make_database

T = TypeVar("T")
NOTE = "mlflow.note.content"  # the description of a run, which MLflow shows first, as Markdown
MOST_METRICS = 900  # MLflow takes a thousand at a time
AWAY = (429, 502, 503, 504)  # HTTP statuses of a server that is starting, overloaded, or behind a proxy that waits for it

# It logs what it raises, with a traceback; whoever catches it says it in one line.
logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)


class Tracking:
    """The tracking server of a project."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        with quiet():
            from mlflow import MlflowClient

            with self._locked():  # the first one makes the database; two at once would collide
                self._make_database()
                self.client = self.do("open", lambda: MlflowClient(settings.tracking_uri))
                if settings.tracking_uri.startswith("sqlite"):
                    self.do("open", lambda: self.client.search_experiments(max_results=1))

    @property
    def place(self) -> str:
        """The server or database, as messages name it: no password, no options."""
        return re.sub(r"//[^/@]*@", "//", self.settings.tracking_uri.split("?")[0])

    def knows(self, run_id: str) -> bool:
        """Is there a run of this id."""
        from mlflow.exceptions import MlflowException

        def find() -> bool:
            try:
                self.client.get_run(run_id)
            except MlflowException as error:
                if error.error_code == "RESOURCE_DOES_NOT_EXIST":
                    return False
                raise
            return True

        with quiet():
            return self.do("find the run", find)

    def start_run(self, suite: str, tags: dict[str, str], parameters: dict[str, Any]) -> str:
        """Creates the experiment (once) and a parent run; returns the run's id."""
        with quiet():
            experiment = self.do("create the experiment", lambda: self._experiment(suite))
            run = self.do(
                "create a run", lambda: self.client.create_run(experiment, tags=tags, run_name=tags.get("mlflow.runName"))
            )
            self.do("log parameters", lambda: self._log_parameters(run.info.run_id, parameters))
            return str(run.info.run_id)

    def child(self, parent: str, name: str, tags: dict[str, str]) -> str:
        """The child run of a property, found by its tag (a resumed run has it already) or created."""
        with quiet():
            experiment = self.do("find the run", lambda: self.client.get_run(parent)).info.experiment_id
            query = f"tags.`mlflow.parentRunId` = '{parent}' and tags.`aitest.place` = '{tags['aitest.place']}'"
            full = {**tags, "mlflow.parentRunId": parent}

            def find_or_create() -> str:  # as a whole: a create whose answer was lost must not be done twice
                found = self.client.search_runs([experiment], filter_string=query, max_results=1)
                run = found[0] if found else self.client.create_run(experiment, tags=full, run_name=name)
                return str(run.info.run_id)

            return self.do("create a run", find_or_create)

    def log(
        self, run_id: str, *, metrics: dict[str, float], tags: dict[str, str], parameters: dict[str, Any] | None = None
    ) -> None:
        """Metrics and tags of a run in one batch each thousand."""
        from mlflow.entities import Metric as Logged
        from mlflow.entities import RunTag

        with quiet():
            now = int(time.time() * 1000)
            logged = [Logged(name, value, now, 0) for name, value in metrics.items()]
            for start in range(0, max(len(logged), 1), MOST_METRICS):
                part = logged[start : start + MOST_METRICS]
                marks = [RunTag(name, value) for name, value in tags.items()] if start == 0 else []
                self.do("log metrics", partial(self.client.log_batch, run_id, metrics=part, tags=marks))
            if parameters:
                self.do("log parameters", lambda: self._log_parameters(run_id, parameters))

    def text(self, run_id: str, content: str, name: str) -> None:
        """A text artifact."""
        with quiet():
            self.do(f"log {name}", lambda: self.client.log_text(run_id, content, name))

    def table(self, run_id: str, frame: pd.DataFrame, name: str) -> None:
        """An MLflow table artifact; one that an earlier attempt has logged stays (MLflow would append to it)."""

        def log_once() -> None:
            if name not in [item.path for item in self.client.list_artifacts(run_id)]:
                self.client.log_table(run_id, frame, name)

        with quiet():
            self.do(f"log {name}", log_once)

    def dataset(self, run_id: str, run: Run) -> None:
        """The data as a dataset input: name, digest and size; never a row of it."""
        from mlflow.entities import Dataset, DatasetInput, InputTag

        with quiet():
            given = {"image": "array", "speech": "clips"}.get(run.modality, "DataFrame")
            name = Path(run.record["test"]).name if not run.test.in_memory else given
            data = Dataset(
                name=name,
                digest=run.record["test_digest"][:36],
                source_type="local" if "://" not in run.record["test"] else "fsspec",
                source=json.dumps({"uri": run.record["test"]}),
                schema=json.dumps(
                    {
                        "mlflow_colspec": [
                            {"name": item.name, "type": item.kind} for item in run.profile.columns if not item.private
                        ]
                    }
                ),
                profile=json.dumps({"rows": run.prepared["rows"], "seeds": run.prepared["seeds"]}),
            )
            inputs = [DatasetInput(data, [InputTag("mlflow.data.context", "test")])]
            self.do("log the data", lambda: self.client.log_inputs(run_id, datasets=inputs))

    def end(self, run_id: str, status: str = "FINISHED") -> None:
        """Ends a run; FINISHED, FAILED or KILLED."""
        with quiet():
            self.do("end the run", lambda: self.client.set_terminated(run_id, status))

    def _make_database(self) -> None:
        own = self._own_database()

        def migrate(uri: str) -> None:
            from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

            new = cast(Any, SqlAlchemyStore)  # it has no types
            new(uri, self.settings.artifact_location).engine.dispose()

        if own is not None:
            self.do("make the database", lambda: make_database(own, migrate))

    def _own_database(self) -> Path | None:
        """The file of the embedded default; None where the user named a server or database."""
        return None if self.settings.artifact_location is None else self.settings.home / "mlflow.db"

    def _mend(self) -> str:
        own = self._own_database()
        if own is None or not holds_nothing(own):
            return "check MLFLOW_TRACKING_URI"
        return f"it holds no run: where it was left half made, remove {own} and run again"

    def _experiment(self, name: str) -> str:
        found = self.client.get_experiment_by_name(name)
        if found is not None:
            if found.lifecycle_stage == "deleted":
                self.client.restore_experiment(found.experiment_id)
            return str(found.experiment_id)
        with self._locked():
            found = self.client.get_experiment_by_name(name)
            if found is not None:
                return str(found.experiment_id)
            tags = {"mlflow.experimentKind": "custom_model_development"}
            return str(self.client.create_experiment(name, artifact_location=self._location(name), tags=tags))

    def _location(self, name: str) -> str | None:
        base = self.settings.artifact_location
        return None if base is None else f"{base}/{name}"

    def _log_parameters(self, run_id: str, parameters: dict[str, Any]) -> None:
        from mlflow.entities import Param

        names = distinct_names({name: name for name in parameters})
        given = [Param(names[name], str(value)[:6000]) for name, value in parameters.items() if value is not None]
        if given:
            self.client.log_batch(run_id, params=given)

    def do(self, what: str, action: Callable[[], T]) -> T:
        """Runs one call to MLflow; what goes wrong there is one message."""
        from mlflow.exceptions import MlflowException
        from sqlalchemy.exc import SQLAlchemyError

        try:
            return live.tracking_patience.keep_trying(action, is_away)
        except AitestError:
            raise
        except (MlflowException, SQLAlchemyError, OSError, ImportError) as error:
            first = (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
            raise UnavailableError(f"MLflow at {self.place} could not be used to {what}: {first}; {self._mend()}") from error

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """A lock between the processes of one project."""
        path = self.settings.home / "mlflow.lock"
        try:
            file = path.open("w")
        except OSError as error:
            raise InputError(f"cannot write {path}: {error.strerror}; make {self.settings.home} writable") from error
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


@task(name="log_property", persist_result=False)
def log_property(run_uri: str, property_index: int, report: dict[str, Any], scored: dict[str, Any]) -> None:
    """Writes one property into its child run: metrics with bounds, tags, figures, failing cases, report."""
    run = open_run(run_uri)
    found = PropertyReport.model_validate(report)
    failures = (
        [FailingCase.model_validate(item) for item in run.store.get_json(ArtifactRef.of(scored["failures"]))] if scored else []
    )
    tracking = Tracking(current())
    config = run.suite.suite.properties[property_index]
    tags = {
        "aitest.suite": run.suite.suite.suite,
        "aitest.model": run.info.name,
        "aitest.model_version": run.info.version or "unregistered",
        "aitest.property": found.property,
        "aitest.place": str(property_index),
    }
    child = tracking.child(run.run_id, found.property, tags)
    cases = {"aitest.cases": found.artifacts["cases"]} if "cases" in found.artifacts else {}
    parameters = flatten(config.model_dump(mode="json", exclude_none=True))
    note = markdown(f"{found.status.capitalize()}: {found.explanation}")
    tracking.log(
        child,
        metrics=metric_values(found.metrics),
        tags={**tags, **cases, "aitest.status": found.status, NOTE: note},
        parameters=parameters,
    )
    tracking.text(child, found.model_dump_json(indent=1), "report.json")
    drawn = figures(found)
    files = distinct_names({name: name for name in drawn})
    for name, figure in drawn.items():
        tracking.text(child, figure, f"figures/{files[name]}.svg")
    if found.groups is not None:
        tracking.text(child, bias_audit_csv(found.groups), "bias_audit.csv")
    if "tree" in scored:
        tree = run.store.get_json(ArtifactRef.of(scored["tree"]))
        tracking.text(child, json.dumps(tree, indent=1, ensure_ascii=False), "tree.json")
        tracking.text(child, Tree.of(tree).rules(), "rules.txt")
    failed = [case for case in failures if case.outcome == "failed"]
    if failed:
        tracking.table(child, failure_table(failed), "failures.json")
    tracking.end(child)


def log_run(tracking: Tracking, run: Run, report: RunReport, failures: dict[str, list[FailingCase]]) -> None:
    """Writes the whole run into its parent run and ends it."""
    values: dict[str, float] = {"seconds": report.seconds}
    values |= {f"queries/{name}": float(count) for name, count in report.queries.model_dump().items()}
    for shown_name, found in report.named.items():
        # MLflow takes no brackets: the second of a name is `name_2`.
        values |= {f"{slug(shown_name)}/{name}": value for name, value in metric_values(found.metrics).items()}
    verdicts = "; ".join(f"{name} {found.status}" for name, found in report.named.items())
    note = markdown(f"{report.status.capitalize()}: {verdicts}")
    tracking.log(run.run_id, metrics=values, tags={"aitest.status": report.status, NOTE: note})
    tracking.dataset(run.run_id, run)
    tracking.text(run.run_id, report.model_dump_json(indent=1), "report.json")
    tracking.text(run.run_id, render_html(report, failures), "report.html")
    failed = [case for cases in failures.values() for case in cases if case.outcome == "failed"]
    if failed:
        tracking.table(run.run_id, failure_table(failed), "failures.json")
    tracking.end(run.run_id)


def failure_table(failures: list[FailingCase]) -> pd.DataFrame:
    """Failing cases as an MLflow table: the sentence why, then seed and case side by side. Pictures stay in the page: an
    image is named by what stands beside it in the data, e.g. its file."""
    rows = [
        {
            "transform": case.transform or "",
            "strength": case.strength,
            "expected": case.expected,
            "observed": case.observed,
            "score": case.score,
            "explanation": case.explanation,
            "changed": "; ".join(f"{name}: {case.seed[name]} -> {case.case[name]}" for name in case.changed),
            "seed": json.dumps(case.seed, ensure_ascii=False),
            "case_id": case.case_id,
            "seed_id": case.seed_id,
        }
        for case in failures
    ]
    return pd.DataFrame(rows)


def flatten(data: Any, prefix: str = "") -> dict[str, Any]:
    """Nested data as flat parameters: {"data.label": "income", …}."""
    if isinstance(data, dict):
        return {
            key: value
            for name, item in data.items()
            for key, value in flatten(item, f"{prefix}.{name}" if prefix else str(name)).items()
        }
    if isinstance(data, list):
        return {prefix: json.dumps(data, ensure_ascii=False)} if data else {}
    return {prefix: data}


def is_away(error: Exception) -> bool:
    """Does an error of MLflow say that its server may be back soon: no connection, no answer, or an answer like 503."""
    from mlflow.exceptions import MlflowException
    from requests.exceptions import ConnectionError as NoConnection
    from requests.exceptions import HTTPError, RetryError, Timeout

    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, NoConnection | Timeout | RetryError):
            return True
        if isinstance(cause, HTTPError) and cause.response is not None and cause.response.status_code in AWAY:
            return True
        if isinstance(cause, MlflowException) and any(f"error code {status} " in str(cause) for status in AWAY):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


@contextmanager
def quiet() -> Iterator[None]:
    """MLflow's and its libraries' warnings are about their insides."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
