"""A Dask cluster on this machine: a scheduler and workers as processes of their own, on loopback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from projects import until

QUIET_DASK = {"DASK_DISTRIBUTED__DIAGNOSTICS__NVML": "false"}


@dataclass
class DaskCluster:
    """`scheduler`: its address, for `--scheduler`; `workers`: one process each, with a log file beside the others."""

    scheduler: str
    workers: list[subprocess.Popen[bytes]]
    processes: list[subprocess.Popen[bytes]]  # the scheduler as well


@contextmanager
def dask_cluster(folder: Path, workers: int, environment: Mapping[str, str], threads: int = 1) -> Iterator[DaskCluster]:
    """So many worker processes of so many threads each, in `folder` and with this environment. Killed on the way out."""
    from distributed import Client

    folder.mkdir(parents=True, exist_ok=True)
    address = folder / "scheduler.json"
    here = ["--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", str(address)]
    one = ["worker", *here, "--no-nanny", "--nthreads", str(threads), "--local-directory", str(folder)]
    commands = [["scheduler", *here, "--port", "0"], *([*one, "--name", f"w{number}"] for number in range(workers))]
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for number, command in enumerate(commands):
            with (folder / f"dask-{number}.log").open("wb") as log:
                processes.append(
                    subprocess.Popen(
                        [str(Path(sys.executable).with_name("dask")), *command],
                        cwd=folder,
                        env={**environment, **QUIET_DASK},
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                    )
                )
            if not until(address.exists, 60):
                raise RuntimeError("the Dask scheduler did not start: " + (folder / "dask-0.log").read_text()[-2000:])
        connect: Any = Client
        with connect(scheduler_file=str(address), timeout=60, set_as_default=False) as client:
            client.wait_for_workers(workers, timeout=60)
            scheduler = str(client.scheduler.address)
        yield DaskCluster(scheduler, processes[1:], processes)
    finally:
        for process in reversed(processes):
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
