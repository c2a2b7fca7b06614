"""The command line. Each command is a few lines; what it does stands in the module it calls.

Imports of everything heavy are inside the commands: `aitest --help` answers at once.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from aitest_flows.console import end, err, execute, internal_error, out, run_here, settings_for_command, write_file
from aitest_lib import __version__
from aitest_lib.errors import AitestError, PrefectGone, UnavailableError

app = typer.Typer(
    name="aitest",
    help="Black-box tests of AI models: verdicts with intervals, from nothing but a model card.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

JsonFile = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the report as JSON.")]
JunitFile = Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Write the verdicts as JUnit XML.")]
AllowInconclusive = Annotated[
    bool, typer.Option("--allow-inconclusive", help="Exit 0 where nothing failed but a gate is inconclusive.")
]
DataFile = Annotated[Path | None, typer.Option("--data", metavar="FILE", help="Rows to ask the model with.")]
RunId = Annotated[str, typer.Argument(metavar="RUN", help="Id of a run, a unique prefix of it, or `last`.")]


@app.command()
def demo(only: Annotated[str | None, typer.Option("--only", metavar="MODALITY", help="Only this modality.")] = None) -> None:
    """Train small real models on carried data and audit them."""
    from aitest_flows.demo import MODALITIES, run_demo
    from aitest_lib.errors import InputError, unknown

    if only is not None and only not in MODALITIES:
        raise InputError(f"--only: {unknown('modality', only, MODALITIES)}")
    run_demo(out, settings_for_command(server=True), lambda settings, suite: run_here(settings, suite, {}))


@app.command()
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


@app.command()
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


@app.command()
def run(
    suite: Annotated[Path, typer.Argument(metavar="SUITE", help="The suite file.")],
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="PROPERTY", help="Only this property; may be repeated.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Ask everything anew.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be asked, and what it could decide.")] = False,
    budget: Annotated[int | None, typer.Option("--budget", metavar="N", min=0, help="Send at most N queries.")] = None,
    on: Annotated[str | None, typer.Option("--on", metavar="POOL", help="Run on the workers of a Prefect work pool.")] = None,
    runner_name: Annotated[str, typer.Option("--runner", metavar="threads|dask", help="What asks the shards.")] = "threads",
    scheduler: Annotated[
        str | None, typer.Option("--scheduler", metavar="ADDRESS", help="With --runner dask: its scheduler, tcp://host:port.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", metavar="N", min=1, help="Shards asked at once; with --on: processes that help to ask."),
    ] = None,
    allow_inconclusive: AllowInconclusive = False,
    require_gates: Annotated[bool, typer.Option("--require-gates", help="Exit 4 where a property has no gates.")] = False,
    json_file: JsonFile = None,
    junit: JunitFile = None,
) -> None:
    """Run a suite here, or on the workers of a pool."""
    from aitest_lib.config.suite import load_suite
    from aitest_lib.errors import InputError, unknown

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


@app.command()
def deploy(
    suite: Annotated[Path, typer.Argument(metavar="SUITE", help="The suite file.")],
    pool: Annotated[str, typer.Option("--pool", metavar="NAME", help="Work pool whose workers run it; made if missing.")],
    cron: Annotated[
        str | None, typer.Option("--cron", metavar="CRON", help='Schedule of five fields, e.g. "0 2 * * *".')
    ] = None,
    timezone: Annotated[
        str | None, typer.Option("--timezone", metavar="TZ", help="Time zone of the schedule, e.g. Europe/Berlin.")
    ] = None,
    on_new_version: Annotated[
        str | None, typer.Option("--on-new-version", metavar="MODEL", help="Audit each new version of this registered model.")
    ] = None,
) -> None:
    """Have workers audit a suite: on a schedule, for new model versions, with alerts. Again: update it."""
    from aitest_flows.deploying import deploy_suite
    from aitest_flows.render import print_table

    settings = settings_for_command()
    found = deploy_suite(settings, suite, pool=pool, cron=cron, timezone=timezone, on_new_version=on_new_version)
    print_table("", ["deployed", "name", ""], found.rows, out)
    for note in found.notes:
        out.print(note, markup=False, highlight=False, soft_wrap=True)


@app.command()
def resume(run_id: RunId, json_file: JsonFile = None, allow_inconclusive: AllowInconclusive = False) -> None:
    """Finish an interrupted run; send only the queries that are missing."""
    settings = settings_for_command(server=True)  # before anything imports Prefect, which reads the environment once
    from aitest_flows import api, runner

    found = api.find(settings, run_id)
    runner.check_resumable(found)
    end(execute(settings, found), json_file, None, allow_inconclusive, require_gates=False)


@app.command()
def status(run_id: RunId = "last") -> None:
    """Say how far a run is, per property; live while it runs."""
    settings = settings_for_command()
    from aitest_flows import api
    from aitest_flows.render import print_status
    from aitest_flows.states import status_of

    print_status(status_of(api.find(settings, run_id)), out)


@app.command()
def show(
    run_id: RunId = "last",
    property_name: Annotated[str | None, typer.Option("--property", metavar="P", help="Only this property.")] = None,
    failures: Annotated[int, typer.Option("--failures", metavar="N", min=0, help="Show N failing cases of each property.")] = 0,
    format_name: Annotated[str, typer.Option("--format", metavar="table|json|md", help="How to print it.")] = "table",
) -> None:
    """Show metrics with intervals, gates, explanation, failing samples."""
    from aitest_flows import api
    from aitest_flows.render import print_report
    from aitest_lib.errors import InputError, unknown
    from aitest_lib.reports.tables import to_markdown

    report, cases = api.show(run_id)
    names = [item.property for item in report.properties]
    if property_name is not None and property_name not in names:
        raise InputError(f"--property: {unknown('property', property_name, names)} (of this run)")
    if property_name is not None:
        report = report.model_copy(
            update={"properties": [item for item in report.properties if item.property == property_name]}
        )
    shown = {name: found[:failures] for name, found in cases.items() if failures and property_name in (None, name)}
    if format_name == "json":
        whole = report.model_dump(mode="json")
        whole["failures"] = {name: [case.model_dump(mode="json") for case in found] for name, found in shown.items()}
        out.raw(json.dumps(whole, indent=1, ensure_ascii=False))
    elif format_name == "md":
        out.raw(to_markdown(report, shown))
    elif format_name == "table":
        print_report(report, out, shown)
    else:
        raise InputError(f"--format: {unknown('format', format_name, ['table', 'json', 'md'])}")


@app.command()
def compare(
    base: Annotated[str, typer.Argument(metavar="BASE", help="The run to compare with: an id, a prefix, or `last`.")],
    candidate: Annotated[str, typer.Argument(metavar="CANDIDATE", help="The run to judge.")],
    fail_on_regression: Annotated[bool, typer.Option("--fail-on-regression", help="Exit 1 where one is found.")] = False,
    margin: Annotated[float | None, typer.Option("--margin", metavar="X", help="Up to X points worse is good enough.")] = None,
    format_name: Annotated[str | None, typer.Option("--format", metavar="table|json|md|html", help="How to print it.")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="Where to write it.")] = None,
) -> None:
    """Say what changed between two runs: suite first, then properties and cases, and whether it is more than chance."""
    from aitest_flows import api
    from aitest_flows.comparing import exit_status, format_of, show

    kind = format_of(format_name, output)
    found = api.compare(base, candidate, margin)
    show(found, kind, output, out)
    raise typer.Exit(exit_status(found, fail_on_regression))


@app.command()
def replay(
    run_id: RunId,
    case: Annotated[str, typer.Argument(metavar="CASE", help="Id of a case, or a unique prefix of it.")],
    model: Annotated[str | None, typer.Option("--model", metavar="NAME/VERSION", help="Ask this registered model.")] = None,
) -> None:
    """Send one stored case again and show both answers."""
    from aitest_flows import api

    found = api.replay(run_id, case, model)
    from aitest_flows.replaying import print_replay

    print_replay(found, out)


@app.command()
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


@app.command("open")
def open_run_page(run_id: RunId = "last", browser: Annotated[bool, typer.Option(help="Open a browser.")] = True) -> None:
    """Open the run in the MLflow UI, started if need be."""
    import webbrowser

    from aitest_flows import api
    from aitest_flows.mlflow_ui import run_url, ui_url
    from aitest_tasks.tracking import Tracking

    settings = settings_for_command()
    found = api.find(settings, run_id)
    tracking = Tracking(settings)
    experiment = tracking.do("find the run", lambda: tracking.client.get_run(found.run_id)).info.experiment_id
    base, pid = ui_url(settings)
    url = run_url(base, experiment, found.run_id)
    out.print(url, markup=False, highlight=False, soft_wrap=True)
    if pid is not None:
        out.print(f"the MLflow server goes on in the background; end it with: kill {pid}", style="dim", highlight=False)
    if browser:
        webbrowser.open(url)


@app.command()
def register(card: Annotated[Path, typer.Argument(metavar="CARD")], data: DataFile = None) -> None:
    """Check a card, probe its model and record it as a new version in MLflow's registry; the card of a model that is
    registered there already is attached to it."""
    from aitest_flows.probing import register_card_file

    found = register_card_file(settings_for_command(), card, data)
    note = "" if data is not None else "; not probed: give --data FILE to ask the model first"
    out.print(f"{found.name} version {found.version} is registered{note}", markup=False, highlight=False)


@app.command()
def probe(card: Annotated[Path, typer.Argument(metavar="CARD")], data: DataFile = None) -> None:
    """Ask the model behind a card a few inputs and say how it answers."""
    from aitest_flows.probing import no_scores, probe_card
    from aitest_flows.render import print_table

    settings_for_command()
    found = probe_card(card, data)
    if not found.label_kinds:
        raise UnavailableError(found.problems[0])
    rows = [
        ("answers", f"{found.rows} rows, {', '.join(found.label_kinds) or 'none'}"),
        ("classes", ", ".join(str(value) for value in found.classes) or None),
        ("scores", "yes" if found.scores else no_scores(card)),
        ("deterministic", "yes" if found.deterministic else f"no, {found.self_flip_rate or 0:.1%} of the labels change"),
        ("one row takes", f"{found.seconds_per_call * 1e3:,.1f} ms"),
        ("a row in a batch takes", f"{found.seconds_per_row * 1e3:,.2f} ms"),
    ]
    print_table(str(card), ["", ""], rows, out)
    if found.problems:
        raise UnavailableError("\n".join(found.problems))


@app.command()
def models() -> None:
    """List the registered models with a card, their verdicts, and what is overdue."""
    from aitest_flows.render import print_table
    from aitest_tasks.model_registry import list_models
    from aitest_tasks.tracking import Tracking

    rows = [
        (
            item["name"],
            item["latest"],
            item["versions"],
            item["type"],
            item["revision"],
            item["tier"],
            ", ".join(f"{suite}: {verdict}" for suite, verdict in item["verdicts"].items()) or "never audited",
            "overdue" if item["overdue"] else "",
        )
        for item in list_models(Tracking(settings_for_command()))
    ]
    columns = ["model", "version", "versions", "type", "revision", "tier", "verdict", ""]
    if rows:
        print_table("", columns, rows, out)
    else:
        out.print("no model is registered; register one with: aitest register CARD", highlight=False)


@app.command()
def doctor() -> None:
    """Check the set-up; each finding comes with its mend."""
    from aitest_flows.doctor import examine
    from aitest_flows.render import print_table

    findings = list(examine(settings_for_command()))
    print_table("", ["what", "state", "detail"], findings, out)
    if any(state == "broken" for _, state, _ in findings):
        raise typer.Exit(3)


@app.command()
def up(
    with_s3: Annotated[bool, typer.Option("--with-s3", help="An S3 server as well, as the store.")] = False,
    with_webhook: Annotated[bool, typer.Option("--with-webhook", help="The receiver of MLflow's webhooks as well.")] = False,
) -> None:
    """Start an MLflow server, a Prefect server and a worker on this machine; they stay up."""
    from aitest_flows.services.terminal import show_up

    show_up(settings_for_command(), with_s3, with_webhook, out, err)


@app.command()
def down() -> None:
    """Stop what `aitest up` has started."""
    from aitest_flows.services.terminal import show_down

    show_down(settings_for_command(), out, err)


@app.command("list")
def list_what(what: Annotated[str, typer.Argument(metavar="properties|transforms|cards")]) -> None:
    """List what there is, with parameters and units."""
    from rich.padding import Padding
    from rich.text import Text

    from aitest_flows.listing import LISTS, cards
    from aitest_flows.render import print_table
    from aitest_lib.errors import InputError, unknown

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


@app.command()
def schema(what: Annotated[str, typer.Argument(metavar="suite|model")]) -> None:
    """Print the JSON Schema of a file."""
    from aitest_flows.listing import SCHEMAS
    from aitest_lib.errors import InputError, unknown

    if what not in SCHEMAS:
        raise InputError(unknown("schema", what, SCHEMAS))
    out.raw(json.dumps(SCHEMAS[what](), indent=2))


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
