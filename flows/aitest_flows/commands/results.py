"""Looking at runs: `status`, `show`, `report`, `open`, `compare`, `replay`."""

from __future__ import annotations

import json
import time
import webbrowser
from contextlib import suppress
from io import StringIO
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from aitest_flows.commands.options import RunId
from aitest_flows.console import Terminal, out, settings_for_command, write_file
from aitest_lib.errors import InputError, unknown

if TYPE_CHECKING:
    from rich.text import Text

    from aitest_lib.reports.report import FailingCase
    from aitest_tasks.runs import Run

LOOK_S = 1.0  # between two looks at a run that goes on
GOES_ON = ("running", "starting")


def status(run_id: RunId = "last") -> None:
    """Say how far a run is, per property; live while it runs.

    On a terminal it looks again every second until the run ends; Ctrl-C ends the looking, not the run.
    """
    settings = settings_for_command()
    from aitest_flows import api
    from aitest_flows.render import print_status
    from aitest_flows.states import status_of

    found = api.find(settings, run_id)
    now = status_of(found)
    if now["state"] in GOES_ON and out.is_interactive and out.file.isatty():
        _watch(found)
    else:
        print_status(now, out)


def first_failures(cases: list[FailingCase], most: int) -> list[FailingCase]:
    """Failing cases to print: one of every transform and strength in turn, the strongest first."""
    groups: dict[tuple[str, float], list[FailingCase]] = {}
    for case in cases:
        if case.outcome == "failed":
            groups.setdefault((case.transform or "", -(case.strength or 0.0)), []).append(case)
    turns = zip_longest(*(groups[key] for key in sorted(groups, key=lambda key: key[1])))
    return [case for turn in turns for case in turn if case is not None][:most]


def show(
    run_id: RunId = "last",
    property_name: Annotated[str | None, typer.Option("--property", metavar="P", help="Only this property.")] = None,
    failures: Annotated[int, typer.Option("--failures", metavar="N", min=0, help="Show N failing cases of each property.")] = 0,
    format_name: Annotated[str, typer.Option("--format", metavar="table|json|md", help="How to print it.")] = "table",
) -> None:
    """Show metrics with intervals, gates, explanation, failing samples."""
    from aitest_flows import api
    from aitest_flows.render import print_report
    from aitest_lib.reports.tables import to_markdown

    report, cases = api.show(run_id)
    names = {item.property for item in report.properties}
    if property_name is not None and property_name not in names:
        raise InputError(f"--property: {unknown('property', property_name, names)} (of this run)")
    if property_name is not None:
        report = report.model_copy(
            update={"properties": [item for item in report.properties if item.property == property_name]}
        )
    shown = {name: first_failures(cases[name], failures) for name in report.named if failures and name in cases}
    if format_name == "json":
        whole = report.model_dump(mode="json")
        whole["failures"] = {
            name: [case.model_dump(mode="json", exclude={"pictures"}) for case in found] for name, found in shown.items()
        }
        out.raw(json.dumps(whole, indent=1, ensure_ascii=False))
    elif format_name == "md":
        out.raw(to_markdown(report, shown))
    elif format_name == "table":
        print_report(report, out, shown)
    else:
        raise InputError(f"--format: {unknown('format', format_name, ['table', 'json', 'md'])}")


def report(
    run_id: RunId = "last",
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="Where to write the page.")] = Path(
        "report.html"
    ),
) -> None:
    """Write the self-contained report page."""
    from aitest_flows import api
    from aitest_lib.reports.html import render_html

    found, cases = api.show(run_id)
    write_file(output, render_html(found, cases))
    out.print(f"{output}: {output.stat().st_size / 1e3:,.0f} kB", markup=False, highlight=False)


def open_run_page(run_id: RunId = "last", browser: Annotated[bool, typer.Option(help="Open a browser.")] = True) -> None:
    """Open the run in the MLflow UI, started if need be; `aitest down` ends it."""
    from aitest_flows import api
    from aitest_flows.mlflow_ui import run_url, ui_url
    from aitest_tasks.tracking import Tracking

    settings = settings_for_command()
    found = api.find(settings, run_id)
    tracking = Tracking(settings)
    experiment = tracking.do("find the run", lambda: tracking.client.get_run(found.run_id)).info.experiment_id
    base, brought_up = ui_url(settings)
    url = run_url(base, experiment, found.run_id)
    out.print(url, markup=False, highlight=False, soft_wrap=True)
    if brought_up:
        out.print("the MLflow server goes on in the background; end it with: aitest down", style="dim", highlight=False)
    if browser:
        webbrowser.open(url)


def compare(
    base: Annotated[str, typer.Argument(metavar="BASE", help="The run to compare with: an id, a prefix, or `last`.")],
    candidate: Annotated[str, typer.Argument(metavar="CANDIDATE", help="The run to judge.")],
    fail_on_regression: Annotated[bool, typer.Option("--fail-on-regression", help="Exit 1 where one is found.")] = False,
    margin: Annotated[float | None, typer.Option("--margin", metavar="X", help="Up to X points worse is good enough.")] = None,
    format_name: Annotated[str | None, typer.Option("--format", metavar="table|json|md|html", help="How to print it.")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="Where to write it.")] = None,
) -> None:
    """Say what changed between two runs, and whether it is more than chance.

    What changed in suite, data and model comes first, then the properties and each case that fails now or no longer.
    """
    from aitest_flows import api
    from aitest_flows.comparing import exit_status, format_of, show

    kind = format_of(format_name, output)
    found = api.compare(base, candidate, margin)
    show(found, kind, output, out)
    raise typer.Exit(exit_status(found, fail_on_regression))


def replay(
    run_id: RunId,
    case: Annotated[str, typer.Argument(metavar="CASE", help="Id of a case, or a unique prefix of it.")],
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME/VERSION", help="Ask this registered model instead.")
    ] = None,
) -> None:
    """Send one stored case again and show both answers."""
    from aitest_flows import api

    found = api.replay(run_id, case, model)
    from aitest_flows.replaying import print_replay

    print_replay(found, out)


def _watch(run: Run) -> None:
    """Shows how far a run is until it ends, or until Ctrl-C: then nobody looks, and the run goes on."""
    from rich.live import Live

    from aitest_flows.states import status_of

    with suppress(KeyboardInterrupt), Live(console=out, auto_refresh=False) as view:
        while (now := status_of(run))["state"] in GOES_ON:
            view.update(_as_text(now), refresh=True)
            time.sleep(LOOK_S)
        # Once more: a run that ends while its files are read looks interrupted.
        view.update(_as_text(status_of(run)), refresh=True)


def _as_text(now: dict[str, Any]) -> Text:
    """What `print_status` prints, as a text that may be shown in the place of the one before."""
    from rich.text import Text

    from aitest_flows.render import print_status

    page = StringIO()
    print_status(now, Terminal(file=page, width=out.width, force_terminal=True))
    return Text.from_ansi(page.getvalue())
