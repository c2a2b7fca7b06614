"""How far a run is, from its record: live while it works, final when it has ended."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any

from aitest_lib.errors import ArtifactMissing
from aitest_lib.reports.report import RunReport
from aitest_tasks import live
from aitest_tasks.leases import is_alive
from aitest_tasks.processes import is_here
from aitest_tasks.records import RECORDS, misfit
from aitest_tasks.runs import Run

BEGINS = timedelta(minutes=1)  # what a run may take until its process has its lease


def status_of(run: Run) -> dict[str, Any]:
    """The state of a run and of each of its properties (see `render.print_status`)."""
    version = f" version {run.info.version}" if run.info.version else ""
    model = f"{run.info.name}{version}"
    head = {"run_id": run.run_id, "suite": run.suite.suite.suite, "model": model, "started": run.record["started"]}
    if run.has("report"):
        report = RunReport.model_validate(run.read("report"))
        rows = [
            {
                "property": item.property,
                "state": item.status,
                "generated": item.cases.total,
                "passed": item.cases.passed,
                "failed": item.cases.failed,
                "skipped": item.cases.skipped,
                "errors": item.cases.error,
                "queries": item.queries.sent,
            }
            for item in report.properties
        ]
        return {**head, "state": report.status, "properties": rows}
    progress = progress_of(run)
    names = ["seeds", *map(run.property_name, run.properties)]
    state = "running" if is_alive(run) else "interrupted"
    if state == "interrupted" and run.has("report"):  # it has ended since
        return status_of(run)
    if state == "interrupted" and run.pool and not progress:
        state = "waiting"  # for a worker
    elif state == "interrupted" and not run.has("lease") and _just_begun(run):
        state = "starting"
    return {**head, "state": state, "properties": [_row(name, progress.get(name, {})) for name in names]}


def _just_begun(run: Run) -> bool:
    """Is the process that wrote the run's record there, and has it no lease yet."""
    recent = datetime.now(UTC) - datetime.fromisoformat(run.record["started"]) < BEGINS
    return recent and run.record.get("starter") is not None and is_here(run.record["starter"])


def progress_of(run: Run) -> dict[str, dict[str, Any]]:
    """How far every property is, by name and stage, as the processes that work on the run tell it; of two that tell of the
    same property the later one counts."""
    told = []
    for path in run.store.files(f"runs/{run.run_id}/progress"):
        try:
            found = run.store.read_json(path)
        except ArtifactMissing:
            continue
        if misfit(found, RECORDS["progress"]) is None:
            told.append((found["time"], found["properties"]))
    return {name: stages for _, properties in sorted(told, key=itemgetter(0)) for name, stages in properties.items()}


def follow(run: Run) -> Callable[[], None]:
    """What tells this process's listeners how far a run is that works elsewhere, each time it is called."""
    known: dict[str, Any] = {}

    def tell() -> None:
        for name, stages in progress_of(run).items():
            stage, now = list(stages.items())[-1]
            if known.get(name) != (stage, now):
                known[name] = (stage, now)
                live.progress(name, stage, now["done"], now["total"], now["note"])

    return tell


def _row(name: str, stages: dict[str, Any]) -> dict[str, Any]:
    query = stages.get("query", {"done": None, "total": None})
    if not stages:
        state = "waiting"
    elif "done" in stages:
        state = stages["done"]["note"] or "done"
    else:
        stage, now = list(stages.items())[-1]
        state = f"{stage} {now['done']:,} of {now['total']:,}"
    return {"property": name, "state": state, "queries": query["done"]}
