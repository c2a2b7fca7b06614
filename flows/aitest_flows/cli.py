"""The command line. Each command is a few lines in `commands`; what it does stands in the module that it calls.

Imports of everything heavy are inside the commands: `aitest --help` answers at once.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from typing import Annotated, Any, NoReturn

import typer

from aitest_flows.commands import models, operating, reference, results, running
from aitest_flows.console import err, internal_error, out
from aitest_lib import __version__
from aitest_lib.errors import AitestError, PrefectGone

app = typer.Typer(
    name="aitest",
    help="Black-box tests of AI models: verdicts with intervals, from nothing but a model card.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

COMMANDS: dict[str, dict[str, Callable[..., None]]] = {
    "Test a model": {
        "demo": running.demo,
        "init": running.init,
        "audit": running.audit,
        "run": running.run,
        "resume": running.resume,
    },
    "Look at runs": {
        "status": results.status,
        "show": results.show,
        "report": results.report,
        "open": results.open_run_page,
        "compare": results.compare,
        "replay": results.replay,
    },
    "Keep track of models": {"register": models.register, "probe": models.probe, "models": models.models},
    "Run it every night": {"up": operating.up, "down": operating.down, "deploy": operating.deploy},
    "Find your way": {"list": reference.list_what, "schema": reference.schema, "doctor": operating.doctor},
}
for _panel, _commands in COMMANDS.items():
    for _name, _command in _commands.items():
        app.command(_name, rich_help_panel=_panel)(_command)


def _version(value: bool) -> None:
    if value:
        out.raw(f"aitest {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """Options of every command."""


def main() -> NoReturn:
    """The console script: user errors are one message and an exit status, never a traceback."""
    # Of click, or of the copy of click that newer versions of Typer bring: only through Typer is it surely the right one.
    usage_error: Any = typer.BadParameter.__base__
    logging.raiseExceptions = False  # a library's log that cannot be written is no reason for its traceback on the terminal
    try:
        result = app(standalone_mode=False)
    except AitestError as error:
        err.complain(str(error))
        if isinstance(error, PrefectGone):
            os._exit(error.exit_code)  # Prefect's way out would wait for the server that is gone
        sys.exit(error.exit_code)
    except usage_error as error:
        error.show()
        sys.exit(2)
    except (typer.Abort, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except Exception as error:  # noqa: BLE001 -- a defect of ours: one message, the rest in a file
        err.complain(internal_error(error))
        sys.exit(3)
    sys.exit(result if isinstance(result, int) else 0)


if __name__ == "__main__":
    main()
