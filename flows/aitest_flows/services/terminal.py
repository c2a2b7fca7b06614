"""What `aitest up` and `aitest down` show."""

from __future__ import annotations

import threading

from rich.console import Console

from aitest_flows.services.project import down, up
from aitest_tasks.settings import Settings, user_environment

STORE_VARIABLES = ("AITEST_STORE", "AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE")


def show_up(settings: Settings, s3: bool, webhook: bool, out: Console, err: Console) -> None:
    """Starts the services under a line of progress, then says where they are."""
    from aitest_flows.render import print_table

    ready: list[str] = []
    writing = threading.Lock()

    with err.status("starting the services") as line:

        def note(name: str, _: str) -> None:
            with writing:
                ready.append(name)
                line.update(f"starting the services; ready: {', '.join(ready)}")

        found = up(settings, s3=s3, webhook=webhook, report=note)
    rows = [(one.process.name, one.how, one.process.url, one.process.pid, one.process.log) for one in found]
    print_table("", ["service", "state", "where", "pid", "log"], rows, out)
    out.print("commands in this folder use them from now on; end them with: aitest down", style="dim", highlight=False)
    given = user_environment()
    names = [
        "MLFLOW_TRACKING_URI",
        "PREFECT_API_URL",
        *(STORE_VARIABLES if s3 else ()),
        *(["AITEST_WEBHOOK_URL"] if webhook else ()),
    ]
    others = [name for name in names if given.get(name)]
    if others:
        out.print(
            f"but {', '.join(others)} of your environment {'has' if len(others) == 1 else 'have'} the last word",
            highlight=False,
        )


def show_down(settings: Settings, out: Console, err: Console) -> None:
    """Ends the services and says which."""
    with err.status("ending the services"):
        ended = down(settings)
    out.print(f"ended: {', '.join(ended)}" if ended else "nothing is up", highlight=False)
