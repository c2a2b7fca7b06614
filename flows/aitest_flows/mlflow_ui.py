"""The MLflow UI of a project on the loopback interface: found if it is up, else started in the background."""

from __future__ import annotations

import json
import os
import socket
from contextlib import suppress

from aitest_flows.services.definitions import answers, local_artifacts, mlflow_server
from aitest_flows.services.processes import end, launch, wait_ready
from aitest_lib.errors import UnavailableError
from aitest_tasks.services import services_of
from aitest_tasks.settings import Settings

START_TIMEOUT_S = 120.0


def ui_url(settings: Settings) -> tuple[str, int | None]:
    """The base URL of the UI, and the pid of the server where it is this project's own and not that of `aitest up`."""
    if settings.tracking_uri.startswith("http"):
        return settings.tracking_uri.rstrip("/"), None
    state_file = settings.home / "mlflow-server.json"
    with suppress(OSError, ValueError):
        state = json.loads(state_file.read_text())
        if answers(f"{state['url']}/health"):
            return str(state["url"]), int(state["pid"])
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder = services_of(settings.home)
    with folder.locked():
        key = folder.make_secrets()["mlflow"]
    service = mlflow_server(port, settings.tracking_uri, local_artifacts(settings.artifacts), key)
    process = launch(service, os.environ, settings.logs / "mlflow-server.log", settings.home.parent)
    try:
        wait_ready(service, process, START_TIMEOUT_S)
    except BaseException:
        with suppress(UnavailableError):
            end([process])
        raise
    state_file.write_text(json.dumps({"url": process.url, "pid": process.pid}))
    return process.url, process.pid


def run_url(base: str, experiment_id: str, run_id: str) -> str:
    """The page of a run."""
    return f"{base}/#/experiments/{experiment_id}/runs/{run_id}?workflowType=machine_learning"
