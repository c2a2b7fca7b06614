"""What there is to choose from: `list`, `schema`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from aitest_flows.console import out
from aitest_lib.errors import AitestError, InputError, unknown

MOST_RUNS = 30
MOST_WORDS = 400  # characters of why a run cannot be read


def list_what(
    what: Annotated[
        str, typer.Argument(metavar="properties|transforms|searches|noises|voices|cards|runs", help="What to list.")
    ],
) -> None:
    """List what there is, with parameters and units."""
    from rich.padding import Padding
    from rich.text import Text

    from aitest_flows.listing import LISTS, cards
    from aitest_flows.render import print_table

    if what == "cards":
        print_table("", ["card", "type", "service", "backend"], cards(), out)
        out.print("start from one with: aitest init --like CARD --data FILE", style="dim", highlight=False)
        return
    if what == "runs":
        _list_runs()
        return
    if what not in LISTS:
        raise InputError(unknown("list", what, [*LISTS, "cards", "runs"]))
    for head, lines in LISTS[what]():
        out.print(Text(head, style="bold"))
        for line in lines:
            out.print(Padding(Text(line), (0, 0, 0, 2)))


def _list_runs() -> None:
    from rich.text import Text

    from aitest_flows.console import settings_for_command
    from aitest_flows.render import print_table
    from aitest_flows.states import status_of
    from aitest_lib.reports.tables import clip
    from aitest_tasks.runs import readable_runs

    runs, unreadable = readable_runs(settings_for_command().store)
    rows = []
    for run in runs[: -1 - MOST_RUNS : -1]:
        try:
            state = status_of(run)
        except AitestError as error:  # a suite that was valid once, say, or a damaged report
            unreadable[run.run_id] = str(error)
            continue
        rows.append((run.run_id[:12], state["started"][:16], state["suite"], state["model"], state["state"]))
    print_table("", ["run", "started (UTC)", "suite", "model", "state"], rows, out)
    for run_id, why in unreadable.items():
        out.print(Text(f"{run_id[:12]} cannot be read: {clip(why, MOST_WORDS)}", style="yellow"), soft_wrap=True)


def schema(what: Annotated[str, typer.Argument(metavar="suite|model", help="Of which file.")]) -> None:
    """Print the JSON Schema of a suite or of a model card."""
    from aitest_flows.listing import SCHEMAS

    if what not in SCHEMAS:
        raise InputError(unknown("schema", what, SCHEMAS))
    out.raw(json.dumps(SCHEMAS[what](), indent=2))
