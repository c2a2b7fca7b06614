"""How far a run is, from its record: live while it works, final when it has ended."""

from __future__ import annotations

from typing import Any

from aitest_lib.errors import ArtifactMissing
from aitest_lib.reports.report import RunReport
from aitest_tasks.runs import Run, is_alive


def status_of(run: Run) -> dict[str, Any]:
    """The state of a run and of each of its properties (see `render.print_status`)."""
    head = {"run_id": run.run_id, "suite": run.suite.suite.suite, "model": run.info.name, "started": run.record["started"]}
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
    try:
        progress = run.read("progress")["properties"]
    except ArtifactMissing:
        progress = {}
    names = ["seeds", *(run.suite.suite.properties[index].property for index in run.properties)]
    state = "running" if is_alive(run) else "interrupted"
    return {**head, "state": state, "properties": [_row(name, progress.get(name, {})) for name in names]}


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
