"""Testing a model: `demo`, `init`, `audit`, `run`, `resume`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from aitest_flows.commands.options import AllowInconclusive, JsonFile, JunitFile, RunId, SuiteFile
from aitest_flows.console import end, execute, out, run_here, settings_for_command
from aitest_lib.errors import InputError, unknown


def demo(
    only: Annotated[
        str | None, typer.Option("--only", metavar="MODALITY", help="Only this one: tabular, image, speech.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every modality whose packages are installed.")] = False,
) -> None:
    """Train small real models on data carried along, and audit them."""
    from aitest_flows.demo import chosen, run_demo

    modalities = chosen(only, every)
    run_demo(out, settings_for_command(server=True), lambda settings, suite: run_here(settings, suite, {}), modalities)


def init(
    data: Annotated[Path, typer.Option("--data", metavar="FILE", help="Table to infer the schema from.")],
    label: Annotated[str | None, typer.Option("--label", metavar="COL", help="Column of the labels.")] = None,
    from_curl: Annotated[
        str | None, typer.Option("--from-curl", metavar="CURL", help="A curl command that calls the model.")
    ] = None,
    like: Annotated[
        str | None, typer.Option("--like", metavar="CARD", help="A ready card: `aitest list cards` shows them.")
    ] = None,
    name: Annotated[str, typer.Option("--name", help="Name of the model.")] = "my-model",
) -> None:
    """Write a card and a suite to start from, each guess commented."""
    from aitest_flows.starting import write_start

    for path, note in write_start(Path.cwd(), data, label, name, curl=from_curl, like=like):
        out.print(f"{path}: {note}", markup=False, highlight=False)


def audit(
    card: Annotated[Path, typer.Argument(metavar="MODEL.yaml", help="The model's card.")],
    data: Annotated[str, typer.Argument(metavar="DATA", help="Table of the seeds: path or URL.")],
    label: Annotated[str | None, typer.Option("--label", metavar="COL", help="Column of the labels.")] = None,
    protected: Annotated[
        list[str] | None, typer.Option("--protected", metavar="COL", help="Protected column; may be repeated.")
    ] = None,
    json_file: JsonFile = None,
    junit: JunitFile = None,
    allow_inconclusive: AllowInconclusive = False,
) -> None:
    """Run the default properties and gates for a model at once."""
    settings = settings_for_command(server=True)
    from aitest_flows import api

    suite = api.audit_suite(card, data, label, protected or [])
    end(run_here(settings, suite, {}), json_file, junit, allow_inconclusive, require_gates=False)


def run(
    suite: SuiteFile,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="PROPERTY", help="Only this property; may be repeated.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Ask everything anew, whatever answers are kept.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be asked, and what it could decide.")] = False,
    budget: Annotated[int | None, typer.Option("--budget", metavar="N", min=0, help="Send at most N queries.")] = None,
    on: Annotated[str | None, typer.Option("--on", metavar="POOL", help="Run on the workers of a Prefect work pool.")] = None,
    runner_name: Annotated[
        str,
        typer.Option(
            "--runner", metavar="threads|dask", help="Where the queries are sent from: threads here, or a Dask cluster."
        ),
    ] = "threads",
    scheduler: Annotated[
        str | None, typer.Option("--scheduler", metavar="ADDRESS", help="With --runner dask: its scheduler, tcp://host:port.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers", metavar="N", min=1, help="Shards of queries asked at once; with --on: processes that help to ask."
        ),
    ] = None,
    allow_inconclusive: AllowInconclusive = False,
    require_gates: Annotated[bool, typer.Option("--require-gates", help="Exit 4 where a property has no gates.")] = False,
    json_file: JsonFile = None,
    junit: JunitFile = None,
) -> None:
    """Run a suite here, or on the workers of a pool."""
    from aitest_lib.config.suite import load_suite

    if runner_name not in ("threads", "dask"):
        raise InputError(f"--runner: {unknown('runner', runner_name, ['threads', 'dask'])}")
    if (runner_name == "dask") != (scheduler is not None):
        raise InputError("--runner dask and --scheduler ADDRESS go together: give both, or none")
    if on is not None and scheduler is not None:
        raise InputError("got --on and --runner dask, expected one of them")
    settings = settings_for_command(server=not dry_run and on is None)
    loaded = load_suite(suite)
    options: dict[str, Any] = {"only": tuple(only or ()), "fresh": fresh, "budget": budget, "workers": workers}
    options |= {"pool": on, "scheduler": scheduler}
    if dry_run:
        from aitest_flows.planning import dry_run as plan_run
        from aitest_flows.render import print_dry_run
        from aitest_flows.runner import Options, request_run

        print_dry_run(plan_run(settings, request_run(settings, loaded, Options(**options))), out)
        return
    end(run_here(settings, loaded, options), json_file, junit, allow_inconclusive, require_gates)


def resume(run_id: RunId, json_file: JsonFile = None, allow_inconclusive: AllowInconclusive = False) -> None:
    """Finish an interrupted run; send only the queries that are missing."""
    settings = settings_for_command(server=True)  # before anything imports Prefect, which reads the environment once
    from aitest_flows import api, runner

    found = api.find(settings, run_id)
    runner.check_resumable(found)
    end(execute(settings, found), json_file, None, allow_inconclusive, require_gates=False)
