"""One property on many processes: alone, on the workers of a pool, on a Dask cluster; and the limits of an endpoint."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from accounting import cpu_of
from idle import pids_by_kind
from project import Measured, measured_run, plain_environment, project

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from local_services import LocalServices, local_services
from model_server import REQUEST, serving
from rates import most_in_a_second

from aitest_flows.services.definitions import POOL

SECONDS_PER_ROW = 0.01
EPSILONS = [0.1, 0.2]  # with the rows themselves three inputs a row
FLIPS = 1_400  # inputs that robustness asks beside them on these data, for the smallest changes that flip an answer
COLUMNS = ["case_id", "seed_id", "expected", "observed", "outcome", "reason"]
AT_ONCE, PER_SECOND, BATCH = 2, 50, 5


@dataclass(frozen=True)
class Asked:
    """A run and what the model, the workers and the servers saw of it."""

    run: Measured
    processes: int
    rows: int
    distinct: int
    workers_cpu: float
    servers_cpu: float
    cases: pa.Table


def spread(seconds: float = 600, workers: int = 4) -> None:
    """The same run three times, one after the other, on the same new services; then an endpoint with limits."""
    from dask_cluster import dask_cluster  # gives Prefect other settings in this process, which other benchmarks must not have

    with tempfile.TemporaryDirectory() as root, local_services(Path(root, "services"), workers=workers, limit=1) as services:
        head = ("wall s", "speed-up", "sleep s", "CPU s", "of workers", "of servers", "processes", "asked", "distinct")
        print(f"{'spread':<16}" + "".join(f"{name:>11}" for name in head) + "  same cases")
        alone = one = _ask(Path(root, "alone"), services, seconds, ())
        _show("one process", alone, one)
        one = _ask(Path(root, "pool"), services, seconds, ("--on", POOL, "--workers", str(workers - 1)))
        _show(f"pool of {workers}", alone, one)
        # A Dask worker needs what any process of a run needs: the store, its keys, the tracking server, the Prefect server.
        with dask_cluster(Path(root, "cluster"), workers, plain_environment() | services.environment) as cluster:
            pids = [process.pid for process in cluster.processes]
            options = ("--runner", "dask", "--scheduler", cluster.scheduler)
            one = _ask(Path(root, "dask"), services, seconds, options, lambda: cpu_of(pids))
            _show(f"Dask, {workers} x 1", alone, one)
        _limits(Path(root, "limits"), services, seconds, workers)


def _ask(
    folder: Path, services: LocalServices, seconds: float, options: tuple[str, ...], others_cpu: Callable[[], float] = float
) -> Asked:
    """One run on a sleeping model of its own. `others_cpu`: CPU seconds of workers beside those of the pool."""
    log = folder / "asked"
    log.mkdir(parents=True)
    rows = max(round((seconds / SECONDS_PER_ROW - FLIPS) / (1 + len(EPSILONS))), 1)
    params = {"seconds_per_row": SECONDS_PER_ROW, "log": str(log)}
    transforms = [{"name": "numeric_noise", "epsilon": EPSILONS}]
    suite_file = project(folder, rows, "Sleeping", transforms, params=params)
    before, others = _cpu(services), others_cpu()
    found = measured_run(suite_file, "--fresh", *options, environment=services.environment)
    spent = {kind: cpu - before[kind] for kind, cpu in _cpu(services).items()}
    workers_cpu = spent.pop("workers") + others_cpu() - others
    files = list(log.iterdir())
    asked = np.concatenate([np.frombuffer(file.read_bytes(), np.uint64) for file in files])
    cases = _cases(found.report, services.environment)
    return Asked(found, len(files), len(asked), len(np.unique(asked)), workers_cpu, sum(spent.values()), cases)


def _show(name: str, alone: Asked, one: Asked) -> None:
    run = one.run
    cpu = run.cpu + one.workers_cpu + one.servers_cpu
    figures = [f"{run.wall:.1f}", f"{alone.run.wall / run.wall:.2f}", f"{one.rows * SECONDS_PER_ROW:.1f}", f"{cpu:.1f}"]
    figures += [f"{one.workers_cpu:.1f}", f"{one.servers_cpu:.1f}", str(one.processes), f"{one.rows:,}", f"{one.distinct:,}"]
    same = "-" if one is alone else "yes" if one.cases.equals(alone.cases) else "NO"
    print(f"{name:<16}" + "".join(f"{figure:>11}" for figure in figures) + f"  {same} ({one.cases.num_rows:,})", flush=True)


def _limits(folder: Path, services: LocalServices, seconds: float, workers: int) -> None:
    """An endpoint that takes two calls at once and 50 a second, asked by the pool for about a quarter of the time."""
    rows = round(max(seconds / 4, 30) * PER_SECOND * BATCH / (1 + len(EPSILONS)))
    with serving(lambda row: "yes" if row[0] + row[1] > 0 else "no") as server:
        endpoint = {"url": server.url, "request": REQUEST, "response": {"labels": "predictions[*].label"}}
        endpoint |= {"batch_size": BATCH, "concurrency": AT_ONCE, "rate_per_s": PER_SECOND}
        suite_file = project(folder, rows, "", [{"name": "numeric_noise", "epsilon": EPSILONS}], endpoint=endpoint)
        options = ("--fresh", "--on", POOL, "--workers", str(workers - 1))
        found = measured_run(suite_file, *options, environment=services.environment)
        print(f"\nan endpoint with {AT_ONCE} calls at once and {PER_SECOND} a second, on {workers} workers, at the server:")
        print(
            f"{server.calls:,} calls with {server.rows:,} rows ({len(server.distinct):,} distinct) in {found.wall:.1f} s; "
            f"at most {server.most_at_once} at once, at most {most_in_a_second(server.times)} in any second\n"
        )


def _cpu(services: LocalServices) -> dict[str, float]:
    """CPU seconds so far, by kind of service."""
    return {kind: cpu_of(pids) for kind, pids in pids_by_kind(services.state.read()).items()}


def _cases(report: Mapping[str, Any], environment: Mapping[str, str]) -> pa.Table:
    """Ids and verdicts of a run's cases, from the S3 store."""
    import s3fs

    store = s3fs.S3FileSystem(
        key=environment["AWS_ACCESS_KEY_ID"],
        secret=environment["AWS_SECRET_ACCESS_KEY"],
        client_kwargs={"endpoint_url": environment["AWS_ENDPOINT_URL"], "region_name": environment["AWS_DEFAULT_REGION"]},
    )
    with store.open(report["properties"][0]["artifacts"]["cases"]) as file:
        return pq.read_table(file).select(COLUMNS)
