"""A Dask cluster on this machine: a scheduler and workers as processes of their own, on loopback."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from projects import until

DASK = str(Path(sys.executable).with_name("dask"))
START_S = 60


@dataclass
class DaskWorker:
    """One worker process and where it writes to."""

    process: subprocess.Popen[bytes]
    log: Path


@dataclass
class DaskCluster:
    """`scheduler`: its address, for `--scheduler`. The scheduler and the workers work in `folder`."""

    folder: Path
    environment: dict[str, str]
    port: int
    workers: list[DaskWorker] = field(default_factory=list)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def scheduler(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    @property
    def scheduler_process(self) -> subprocess.Popen[bytes]:
        return self.processes[0]

    def start_scheduler(self) -> None:
        self._start("scheduler", "scheduler", "--port", str(self.port))
        if not until(self._listens, START_S):
            raise RuntimeError("the Dask scheduler did not start: " + (self.folder / "scheduler.log").read_text()[-2000:])

    def start_workers(self, count: int, threads: int = 1) -> None:
        options = ["--no-nanny", "--nthreads", str(threads), "--local-directory", str(self.folder)]
        for name in (f"worker-{len(self.workers) + number}" for number in range(count)):
            process = self._start(name, "worker", self.scheduler, "--name", name, *options)
            self.workers.append(DaskWorker(process, self.folder / f"{name}.log"))
        from distributed import Client

        connect: Any = Client
        with connect(self.scheduler, timeout=START_S, set_as_default=False) as client:
            client.wait_for_workers(count, timeout=START_S)

    def kill(self) -> None:
        for process in reversed(self.processes):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _start(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [DASK, *command, "--host", "127.0.0.1", "--no-dashboard"],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


@contextmanager
def dask_cluster(folder: Path, workers: int, environment: Mapping[str, str], threads: int = 1) -> Iterator[DaskCluster]:
    """So many worker processes of so many threads each, with this environment. All are killed on the way out."""
    folder.mkdir(parents=True, exist_ok=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    cluster = DaskCluster(folder, dict(environment), port)
    try:
        cluster.start_scheduler()
        if workers:
            cluster.start_workers(workers, threads)
        yield cluster
    finally:
        cluster.kill()
