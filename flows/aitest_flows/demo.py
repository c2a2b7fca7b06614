"""`aitest demo`: small real models, trained here in seconds, audited like any other."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from aitest_lib.config.suite import load_suite
from aitest_lib.demo.census import PLANTED, demo_files
from aitest_lib.reports.explain import CHANGED_BY
from aitest_lib.reports.report import PropertyReport, RunReport
from aitest_lib.reports.tables import slice_label
from aitest_tasks.settings import Settings

MODALITIES = ("tabular",)
AUDITS = (
    ("census_sound_suite.yaml", "a sound model of census income"),
    ("census_brittle_suite.yaml", "the same model behind a faulty data feed: a planted weakness"),
)


def run_demo(console: Console, settings: Settings, run: Callable[[Settings, Any], RunReport]) -> None:
    """Audits two models of census income, says what was found, what was planted, and where to look."""
    folder = settings.home / "demo"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    demo_files(folder)
    reports = []
    for number, (suite, what) in enumerate(AUDITS, start=1):
        console.print(f"{number}. {what}", style="bold", highlight=False)
        reports.append(run(settings, load_suite(folder / suite)))
        _print_found(console, reports[-1])
    sound, brittle = reports
    console.print("What was planted", style="bold")
    console.print(f"  {PLANTED}. Its accuracy hides that; the audit does not.", markup=False, highlight=False)
    console.print("Look at it", style="bold")
    aitest = command()
    for line in (
        f"{aitest} show {brittle.run_id[:12]} --property tabular.robustness --failures 10",
        f"{aitest} report {brittle.run_id[:12]} -o report.html",
        f"{aitest} open {brittle.run_id[:12]}        the run in the MLflow UI; {sound.run_id[:12]} is the sound model's",
        f"{folder}        the cards and suites to copy from",
    ):
        console.print(f"  {line}", markup=False, highlight=False, soft_wrap=True)


def command() -> str:
    """How to call aitest from here: by name where it is on the path, else as it was called."""
    if shutil.which("aitest"):
        return "aitest"
    called = Path(sys.argv[0])
    return str(called.relative_to(Path.cwd())) if called.is_relative_to(Path.cwd()) else str(called)


def _print_found(console: Console, report: RunReport) -> None:
    accuracy = next(
        (item for found in report.properties for item in found.metrics if item.name == "accuracy" and not item.slice), None
    )
    if accuracy is not None and accuracy.value is not None:
        console.print(
            f"   accuracy {accuracy.value:.3f} [{accuracy.low:.3f}, {accuracy.high:.3f}]", markup=False, highlight=False
        )
    for found in report.properties:
        for gate in found.gates:
            style = {"passed": "green", "failed": "red"}.get(gate.verdict, "yellow")
            where = slice_label(gate.slice)
            console.print(f"   [{style}]{gate.verdict:<12}[/] {gate.metric}, {where}: ", end="", highlight=False)
            console.print(gate.reason, markup=False, highlight=False)
        explained = _culprit(found)
        if explained:
            console.print(f"   why: {explained}", markup=False, highlight=False)
    console.print()


def _culprit(found: PropertyReport) -> str | None:
    """The changed column that goes with the failures, where the property failed."""
    changes = [item for item in found.slices if item.flagged and item.name.startswith(CHANGED_BY)]
    if found.status != "failed" or not changes:
        return None
    worst = max(changes, key=lambda item: item.difference)
    transform = worst.name.removeprefix(CHANGED_BY)
    here = f"{worst.rate:.1%} of {worst.seeds:,} rows failed"
    return f"where {transform} changed {worst.value}, {here}; elsewhere {worst.rest_rate:.1%}"
