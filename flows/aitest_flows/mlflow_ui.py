"""The MLflow UI of a project on the loopback interface: found if it is up, else started in the background."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import suppress

from aitest_lib.errors import UnavailableError
from aitest_tasks.settings import Settings

START_TIMEOUT_S = 120.0


def ui_url(settings: Settings) -> tuple[str, int | None]:
    """The base URL of the UI, and the pid of the server where it is this project's own."""
    if settings.tracking_uri.startswith("http"):
        return settings.tracking_uri.rstrip("/"), None
    state_file = settings.home / "mlflow-server.json"
    with suppress(OSError, ValueError):
        state = json.loads(state_file.read_text())
        if _answers(state["url"]):
            return str(state["url"]), int(state["pid"])
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", settings.tracking_uri, "--artifacts-destination", str(settings.home / "mlartifacts")]
    with (settings.logs / "mlflow-server.log").open("ab") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, env=dict(os.environ)
        )
    url = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        if _answers(url):
            state_file.write_text(json.dumps({"url": url, "pid": process.pid}))
            return url, process.pid
        time.sleep(0.2)
    raise UnavailableError(f"the MLflow server did not start; its log is {settings.logs / 'mlflow-server.log'}")


def run_url(base: str, experiment_id: str, run_id: str) -> str:
    """The page of a run."""
    return f"{base}/#/experiments/{experiment_id}/runs/{run_id}?workflowType=machine_learning"


def _answers(url: str) -> bool:
    import httpx

    try:
        return httpx.get(f"{url}/health", timeout=5, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False
