"""Options and arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

JsonFile = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the report as JSON.")]
JunitFile = Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Write the verdicts as JUnit XML.")]
AllowInconclusive = Annotated[
    bool, typer.Option("--allow-inconclusive", help="Exit 0 where nothing failed but a gate is inconclusive.")
]
RunId = Annotated[str, typer.Argument(metavar="RUN", help="Id of a run, a unique prefix of it, or `last`.")]
SuiteFile = Annotated[Path, typer.Argument(metavar="SUITE", help="The suite file.")]
CardFile = Annotated[Path, typer.Argument(metavar="CARD", help="The model's card.")]
