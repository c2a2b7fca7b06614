"""What grows with the number of cases: time, memory, the store, and what Prefect has to remember."""

from __future__ import annotations

import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from accounting import cpu_of
from project import measured_run, plain_environment, project

from aitest_flows.services import definitions
from aitest_flows.services.processes import end, launch, members, wait_ready
from aitest_tasks.services import Process
from aitest_tasks.settings import QUIET

TRANSFORMS = [{"name": "numeric_noise", "epsilon": [0.1, 0.2, 0.3, 0.4]}]
SIZES = (10_000, 100_000, 1_000_000)
SETTLED_S = 3.0  # Prefect writes task runs down some time after they have ended


@dataclass(frozen=True)
class Grown:
    """The figures of one size. Seconds, megabytes; the server's CPU seconds are in `cpu`, its memory is not in the peaks."""

    cases: int
    wall: float
    cpu: float
    peak: float
    peak_with_children: float
    store: float
    task_runs: int


def growth() -> None:
    """One suite on a model that answers at once, at three sizes."""
    head = ("growth", "wall s", "CPU s", "peak MB", "with child", "store MB", "task runs", "per 1000")
    print(f"{head[0]:<14}" + "".join(f"{name:>12}" for name in head[1:]))
    for cases in SIZES:
        found = grown(cases)
        print(
            f"{found.cases:<14,}{found.wall:>12.1f}{found.cpu:>12.1f}{found.peak:>12,.0f}{found.peak_with_children:>12,.0f}"
            f"{found.store:>12,.1f}{found.task_runs:>12,}{found.task_runs / found.cases * 1e3:>12.2f}",
            flush=True,
        )
    print("wall: MLflow's new database included, the Prefect server's start not; CPU: the Prefect server's included;")
    print("peak: of `aitest run` alone, and with the model's process; per 1000: task runs per 1,000 cases\n")


def memory() -> None:
    """Peak memory of `aitest run` (the process itself) for 100,000 and 1,000,000 cases."""
    print(f"{'memory':<14}{'peak MB':>10}{'wall s':>10}{'CPU s':>10}{'store MB':>10}")
    peaks = []
    for cases in SIZES[1:]:
        found = grown(cases)
        peaks.append(found.peak)
        print(f"{cases:<14,}{found.peak:>10,.0f}{found.wall:>10.1f}{found.cpu:>10.1f}{found.store:>10,.0f}", flush=True)
    print(f"1,000,000 / 100,000 cases: peak memory x {peaks[1] / peaks[0]:.2f}\n")


def grown(cases: int) -> Grown:
    """A run of so many cases in a new project, on a Prefect server that is up."""
    with tempfile.TemporaryDirectory() as root, prefect_server(Path(root, "prefect")) as server:
        suite_file = project(Path(root, "project"), cases // 4, "instant", TRANSFORMS)
        before, cpu = _task_runs(server), cpu_of(members(server))
        found = measured_run(suite_file, environment={"PREFECT_API_URL": server.url})
        total = found.report["properties"][0]["cases"]["total"]
        task_runs = settled_task_runs(server) - before
        cpu = found.cpu + cpu_of(members(server)) - cpu
        files = Path(root, "project", ".aitest", "store").rglob("*")
        size = sum(file.stat().st_size for file in files if file.is_file()) / 1e6
    return Grown(total, found.wall, cpu, found.peak, found.peak_with_children, size, task_runs)


@contextmanager
def prefect_server(home: Path) -> Iterator[Process]:
    """A Prefect server with SQLite in `home`."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    service = definitions.prefect_server(port, home)
    service.prepare()
    process = launch(service, plain_environment() | QUIET, home / "server.log", home)
    try:
        wait_ready(service, process, 120)
        yield process
    finally:
        end([process], 5)


def _task_runs(server: Process) -> int:
    return int(httpx.post(f"{server.url}/task_runs/count", json={}, timeout=60, trust_env=False).json())


def settled_task_runs(server: Process) -> int:
    """How many there are once they no longer become more."""
    count = -1
    while (now := _task_runs(server)) != count:
        count = now
        time.sleep(SETTLED_S)
    return count
