"""What runs beside the commands: `up`, `down`, `deploy`; and `doctor`, which looks at the set-up."""

from __future__ import annotations

from typing import Annotated

import typer

from aitest_flows.commands.options import SuiteFile
from aitest_flows.console import err, out, settings_for_command


def up(
    with_s3: Annotated[bool, typer.Option("--with-s3", help="An S3 server as well, as the store.")] = False,
    with_webhook: Annotated[bool, typer.Option("--with-webhook", help="The receiver of MLflow's webhooks as well.")] = False,
) -> None:
    """Start an MLflow server, a Prefect server and a worker on this machine; they stay up."""
    from aitest_flows.services.terminal import show_up

    show_up(settings_for_command(), with_s3, with_webhook, out, err)


def down() -> None:
    """Stop what `aitest up` and `aitest open` have started."""
    from aitest_flows.services.terminal import show_down

    show_down(settings_for_command(), out, err)


def deploy(
    suite: SuiteFile,
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
    """Have workers audit a suite: on a schedule, for new model versions, with alerts.

    Deploying it again updates it.
    """
    from aitest_flows.deploying import deploy_suite
    from aitest_flows.render import print_table

    settings = settings_for_command()
    found = deploy_suite(settings, suite, pool=pool, cron=cron, timezone=timezone, on_new_version=on_new_version)
    print_table("", ["deployed", "name", ""], found.rows, out)
    for note in found.notes:
        out.print(note, markup=False, highlight=False, soft_wrap=True)


def doctor() -> None:
    """Check the set-up; each finding comes with its mend."""
    from aitest_flows.doctor import examine
    from aitest_flows.render import print_table

    findings = list(examine(settings_for_command()))
    print_table("", ["what", "state", "detail"], findings, out)
    if any(state == "broken" for _, state, _ in findings):
        raise typer.Exit(3)
