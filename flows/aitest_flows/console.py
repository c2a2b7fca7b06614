"""What the commands share: the console, a run under a progress display, the exit status of a verdict."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from rich.console import Console

from aitest_lib.errors import Interrupted, UnavailableError

if TYPE_CHECKING:
    from aitest_lib.reports.report import RunReport
    from aitest_tasks.runs import Run
    from aitest_tasks.settings import Settings

# Where the output goes to a file, lines are as long as a log's usually are; COLUMNS has the last word.
WIDTH = None if "COLUMNS" in os.environ else 120


class Terminal(Console):
    """A console whose reader may go away (`| head`, a closed terminal): nobody reads on, and the work goes on.

    What cannot be written for another reason is an `UnavailableError` on stdout; on stderr there is nowhere to say it.
    """

    def raw(self, text: str) -> None:
        """Prints a text as it is, for programs to read."""
        with self._outliving_its_reader():
            self.file.write(text + "\n")
            self.file.flush()

    def complain(self, message: str) -> None:
        """Says what is wrong, without the secrets that were used."""
        self.print(f"error: {masked(message)}", style="red", markup=False, highlight=False, soft_wrap=True)

    def on_broken_pipe(self) -> None:
        self.quiet = True
        with suppress(OSError, ValueError):  # what is left in the stream's buffer goes nowhere, at the exit, too
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())

    def __exit__(self, *raised: Any) -> None:
        with self._outliving_its_reader():
            super().__exit__(*raised)

    @contextmanager
    def _outliving_its_reader(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.on_broken_pipe()
            if not self.stderr and not isinstance(error, BrokenPipeError):
                raise UnavailableError(f"the output cannot be written: {error.strerror}; make room for it") from error


def console(name: str) -> Terminal:
    """The console on `stdout` or `stderr`; one that was closed before the start is as good as the null device."""
    if getattr(sys, name) is None:
        setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - for as long as the process lives
    return Terminal(stderr=name == "stderr", width=None if getattr(sys, name).isatty() else WIDTH)


out, err = console("stdout"), console("stderr")

EXIT_OF_STATUS = {"error": 3, "failed": 1, "inconclusive": 4}


def settings_for_command(server: bool = False) -> Settings:
    """The project's settings; with `server` its Prefect server begins to boot while the rest is imported."""
    from aitest_tasks.settings import open_settings

    settings = open_settings()
    if server:
        from aitest_flows.prefect_server import start_early

        start_early(settings.prefect_home, settings.logs)
    return settings


def run_here(settings: Settings, suite: Any, options: dict[str, Any]) -> RunReport:
    """Checks, starts and executes a run in this process."""
    from aitest_flows import runner

    request = runner.request_run(settings, suite, runner.Options(**options))
    return execute(settings, runner.start(settings, request))


def execute(settings: Settings, run: Run) -> RunReport:
    """Executes a run under a progress display; Ctrl-C ends it within three seconds, in one line."""
    from aitest_flows import runner
    from aitest_flows.interrupt import beside_main_thread, ends_at_once
    from aitest_flows.render import ProgressView
    from aitest_tasks import live

    try:
        with ProgressView(err) as view, ends_at_once(settings, run, err, view.stop):
            forget = live.listen(view.update)
            try:
                found = beside_main_thread(lambda: runner.execute(settings, run))
            finally:
                forget()
    except (UnavailableError, Interrupted) as error:
        error.args = (f"{error}\nwhat was answered is kept; finish the run with: aitest resume {run.run_id[:12]}",)
        raise
    return found


def end(
    found: RunReport, json_file: Path | None, junit: Path | None, allow_inconclusive: bool, require_gates: bool
) -> NoReturn:
    """Writes the files that were asked for, prints the report and exits with the status that the verdict means."""
    from aitest_flows.render import print_report
    from aitest_lib.reports.junit import junit_xml

    if json_file is not None:
        write_file(json_file, found.model_dump_json(indent=1))
    if junit is not None:
        write_file(junit, junit_xml(found))
    try:
        print_report(found, out)
    except UnavailableError as error:
        err.complain(str(error))  # the run has ended and its files are written: the verdict stands
    code = EXIT_OF_STATUS.get(found.status, 0)
    if require_gates and code == 0 and any(item.status == "unjudged" for item in found.properties):
        code = 4
    if allow_inconclusive and found.status == "inconclusive":
        code = 0
    raise typer.Exit(code)


def write_file(path: Path, content: str) -> None:
    """Writes a text file; what goes wrong is one message."""
    from aitest_lib.errors import InputError

    try:
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}; give a path in a folder that exists") from error


def internal_error(error: BaseException) -> str:
    """Keeps the traceback of an unexpected error in a log file; returns the message that says so."""
    from aitest_tasks.settings import find_home

    text = masked("".join(traceback.format_exception(error)))
    log = find_home() / "logs" / "internal-errors.log"
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as file:
            file.write(text + "\n")
    except OSError:
        return f"internal error: {type(error).__name__}: {error}"
    return f"internal error: {type(error).__name__}: {error}; this is a defect of aitest, its traceback is in {log}"


def masked(text: str) -> str:
    """`text` without the secrets that were used."""
    from aitest_lib.config.secrets import mask

    return mask(text)
