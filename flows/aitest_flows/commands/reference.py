"""What there is to choose from: `list`, `schema`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from aitest_flows.console import out
from aitest_lib.errors import InputError, unknown


def list_what(what: Annotated[str, typer.Argument(metavar="properties|transforms|cards", help="What to list.")]) -> None:
    """List what there is, with parameters and units."""
    from rich.padding import Padding
    from rich.text import Text

    from aitest_flows.listing import LISTS, cards
    from aitest_flows.render import print_table

    if what == "cards":
        print_table("", ["card", "type", "service", "backend"], cards(), out)
        out.print("start from one with: aitest init --like CARD --data FILE", style="dim", highlight=False)
        return
    if what not in LISTS:
        raise InputError(unknown("list", what, [*LISTS, "cards"]))
    for head, lines in LISTS[what]():
        out.print(Text(head, style="bold"))
        for line in lines:
            out.print(Padding(Text(line), (0, 0, 0, 2)))


def schema(what: Annotated[str, typer.Argument(metavar="suite|model", help="Of which file.")]) -> None:
    """Print the JSON Schema of a suite or of a model card."""
    from aitest_flows.listing import SCHEMAS

    if what not in SCHEMAS:
        raise InputError(unknown("schema", what, SCHEMAS))
    out.raw(json.dumps(SCHEMAS[what](), indent=2))
