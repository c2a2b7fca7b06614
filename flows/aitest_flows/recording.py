"""A property's report on its way to MLflow."""

from __future__ import annotations

import time
from typing import Any

from aitest_lib.reports.report import PropertyReport
from aitest_tasks import live
from aitest_tasks.runs import Run
from aitest_tasks.tracking import log_property


def log_report(run: Run, index: int, report: PropertyReport, scored: dict[str, Any], started: float) -> dict[str, Any]:
    """Writes a property's report to MLflow; `started` is on the monotonic clock."""
    report = report.model_copy(update={"seconds": round(time.monotonic() - started, 3)})
    data = report.model_dump(mode="json")
    log_property(run.uri, index, data, scored)
    live.progress(report.property, "done", 1, 1, report.status)
    return {"report": data, "scored": scored}
