"""Workers of a Prefect work pool as processes of their own, for runs that are spread."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx
from projects import Project, until


@dataclass
class Pool:
    """A pool and its workers; `api` is the Prefect server's address."""

    name: str
    api: str
    workers: list[subprocess.Popen[bytes]]

    def flow_runs(self, run_id: str) -> list[dict[str, Any]]:
        """Name, state and more of the flow runs of a run."""
        wanted = {"flow_runs": {"tags": {"all_": [f"aitest.run:{run_id}"]}}}
        return list(httpx.post(f"{self.api}/flow_runs/filter", json=wanted, trust_env=False).json())

    def online(self) -> int:
        found = httpx.post(f"{self.api}/work_pools/{self.name}/workers/filter", json={}, trust_env=False)
        return sum(worker["status"] == "ONLINE" for worker in found.json()) if found.status_code == 200 else 0


@contextmanager
def pool_workers(project: Project, count: int, limit: int = 2) -> Iterator[Pool]:
    """A pool with so many workers, which share the store and the tracking database of a project. Ends what they started."""
    api = project.env["PREFECT_API_URL"]
    name = f"pool-{uuid4().hex[:8]}"
    environment = project.environment() | {
        "AITEST_STORE": project.env.get("AITEST_STORE", str(project.store)),
        "MLFLOW_TRACKING_URI": project.env.get("MLFLOW_TRACKING_URI", f"sqlite:///{project.home / 'mlflow.db'}?timeout=60"),
        "PREFECT_HOME": str(project.folder / "worker-home"),
        "PREFECT_WORKER_QUERY_SECONDS": "1",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
    }
    httpx.post(f"{api}/work_pools/", json={"name": name, "type": "process"}, trust_env=False).raise_for_status()
    workers = []
    for number in range(count):
        command = [sys.executable, "-m", "prefect", "worker", "start", "--pool", name, "--type", "process"]
        with (project.folder / f"worker-{number}.log").open("wb") as log:
            workers.append(
                subprocess.Popen(
                    [*command, "--name", f"w{number}", "--limit", str(limit)],
                    cwd=project.folder,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )
    pool = Pool(name, api, workers)
    try:
        if not until(lambda: pool.online() >= count, 60):
            raise RuntimeError("the workers did not start: " + (project.folder / "worker-0.log").read_text()[-2000:])
        yield pool
    finally:
        for worker in workers:
            with suppress(ProcessLookupError):
                os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()
