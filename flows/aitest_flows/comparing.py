"""`aitest compare`: two runs from the store, read column by column, and what they say side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from aitest_flows.console import Terminal, write_file
from aitest_lib.errors import ArtifactMissing, InputError, StoreError, unknown
from aitest_lib.reports.compare import ComparableRun, compare_runs
from aitest_lib.reports.compare_cases import COLUMNS, SLICE
from aitest_lib.reports.report import PropertyReport, RunReport
from aitest_lib.types import ArtifactRef
from aitest_tasks.runs import Run, failing_cases, find_run
from aitest_tasks.settings import Settings

if TYPE_CHECKING:
    from aitest_lib.reports.comparison import Comparison

FORMATS = ("table", "json", "md", "html")
_FORMAT_OF = {".json": "json", ".md": "md", ".html": "html", ".htm": "html"}
AGAIN = "run its suite again: kept answers are used"


def compare_found(settings: Settings, base: str, candidate: str, margin: float | None) -> Comparison:
    """Compares two runs, each given by its id, a unique prefix of it, or `last`."""
    first, second = (ended_run(settings, given) for given in (base, candidate))
    return compare_runs(_comparable(*first, slices=False), _comparable(*second, slices=True), margin)


def ended_run(settings: Settings, given: str) -> tuple[Run, RunReport]:
    """A run that has ended and its report; any other is an `InputError` that says how to go on."""
    run = find_run(settings.store, given)
    if not run.has("report"):
        short = run.run_id[:8]
        raise InputError(f"run {short} has not ended; see `aitest status {short}`, or finish it with `aitest resume {short}`")
    return run, RunReport.model_validate(run.read("report"))


def reference(run: Run, url: str, codec: str) -> ArtifactRef:
    """The artifact at a URL that a report or a case gives; `ValueError` for what is no artifact of the run's store."""
    path = Path(url.removeprefix(f"{run.store.url}/"))
    return ArtifactRef(uri=str(path), digest=path.parent.name + path.stem, codec=codec, rows=0)


def read_cases(run: Run, item: PropertyReport, columns: tuple[str, ...], *, slices: bool = False) -> pa.Table | None:
    """These columns of a property's cases, and its slices where wanted; None where the property has no cases.

    A file that is gone or damaged is a `StoreError`.
    """
    url = item.artifacts.get("cases")
    if not url:
        return None
    try:
        file = pq.ParquetFile(pa.BufferReader(run.store.get(reference(run, url, "parquet"))))
        names = [name for name in file.schema_arrow.names if name in columns or (slices and name.startswith(SLICE))]
        table = file.read(names)
        return table.select([*columns, *(name for name in names if name.startswith(SLICE))])
    except (ArtifactMissing, pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise StoreError(
            f"the cases of {item.property} in run {run.run_id[:8]} are gone or damaged ({url}); {AGAIN}"
        ) from error


def format_of(given: str | None, output: Path | None) -> str:
    """The format that was asked for, else the one that the file's name says, else a table."""
    if given is None:
        return _FORMAT_OF.get(output.suffix.lower(), "table") if output is not None else "table"
    if given not in FORMATS:
        raise InputError(f"--format: {unknown('format', given, FORMATS)}")
    return given


def show(found: Comparison, format_name: str, output: Path | None, console: Terminal) -> None:
    """Prints the comparison, or writes it to a file and says so in two lines."""
    if output is not None:
        write_file(output, as_text(found, format_name))
        size = output.stat().st_size / 1e3
        console.print(f"{found.headline}\n{output}: {size:,.0f} kB", markup=False, highlight=False)
    elif format_name == "table":
        from aitest_flows.render_compare import print_comparison

        print_comparison(found, console)
    else:
        console.raw(as_text(found, format_name))


def as_text(found: Comparison, format_name: str) -> str:
    """The comparison as text."""
    if format_name == "json":
        return found.model_dump_json(indent=1)
    if format_name == "md":
        from aitest_lib.reports.compare_markdown import comparison_markdown

        return comparison_markdown(found)
    if format_name == "html":
        from aitest_lib.reports.compare_html import comparison_html

        return comparison_html(found)
    from aitest_flows.render_compare import comparison_table

    return comparison_table(found)


def exit_status(found: Comparison, fail_on_regression: bool) -> int:
    """1 for a regression where that was asked for; 4 where, with a margin, it is neither shown nor ruled out."""
    verdicts = {item.verdict for item in found.properties}
    if not fail_on_regression:
        return 0
    return 1 if "regression" in verdicts else 4 if found.margin is not None and "not_shown" in verdicts else 0


def _comparable(run: Run, report: RunReport, *, slices: bool) -> ComparableRun:
    try:
        failures = failing_cases(run, report) if slices else {}
    except ArtifactMissing as error:
        raise StoreError(f"the failing cases of run {run.run_id[:8]} are gone or damaged ({error.uri}); {AGAIN}") from error
    return ComparableRun(run.record, report, lambda item: read_cases(run, item, COLUMNS, slices=slices), failures)
