"""PostgreSQL, SeaweedFS, MLflow, Prefect, workers and the receiver on one machine; in containers: docker-compose.yml."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from aitest_flows.services import definitions
from aitest_flows.services.group import finish, start
from aitest_flows.services.ports import choose_ports
from aitest_flows.services.processes import Service, end
from aitest_tasks.services import (
    BUCKET,
    MLFLOW,
    PREFECT,
    RECEIVER,
    S3,
    WORKER,
    ServiceFolder,
    variables,
    write_private,
)
from aitest_tasks.settings import QUIET
from infra.local.postgresql import POSTGRESQL, database_url, postgresql

PORTS = (POSTGRESQL, MLFLOW, PREFECT, RECEIVER, *definitions.S3_PORTS)
# Of whoever starts them: their own settings stand in their definitions.
FOREIGN = ("AITEST_", "AWS_", "MLFLOW_", "PREFECT_")


@dataclass
class LocalServices:
    """The services of one folder. `environment`: what a client needs to use them."""

    folder: Path
    services: list[Service] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def state(self) -> ServiceFolder:
        """Their files."""
        return ServiceFolder(self.folder / "services")

    def start(self) -> None:
        """Starts those that are not up."""
        logs = self.folder / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        base = QUIET | {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        with self.state.locked():
            start(self.services, self.state, base, logs, self.folder, lambda *_: None)

    def stop(self, patience_s: float) -> None:
        """Ends all of them; what has not ended after `patience_s` seconds is killed."""
        with self.state.locked():
            finish(self.state.read().values(), self.state, patience_s)

    def kill(self, name: str) -> None:
        """Kills a service with everything that it runs, as a machine that loses its power; `start` brings it back."""
        end([self.state.read()[name]], 0)

    def kill_worker(self, number: int) -> None:
        """The same for a worker, counted from 0."""
        self.kill(worker_name(number))


def local_services(folder: Path, *, workers: int, limit: int, database: Path | None = None) -> LocalServices:
    """The services, not yet started: workers that take `limit` flow runs each. `database`: PostgreSQL's own folder."""
    made = LocalServices(folder)
    with made.state.locked():
        secrets = made.state.make_secrets()
        ports = choose_ports(made.state.folder / "ports.json", PORTS, made.state.alive())
    password = secrets["postgresql"]
    api = f"{definitions.address(ports[PREFECT])}/api"
    urls = {name: definitions.address(ports[port]) for name, port in ((MLFLOW, MLFLOW), (S3, "s3"), (RECEIVER, RECEIVER))}
    made.environment = variables(urls | {PREFECT: api}, secrets, {})
    storage = {name: value for name, value in made.environment.items() if name.startswith("AWS_")}
    # MLflow needs boto3 for S3; without it its server keeps the artifacts in a folder, and clients see no difference.
    artifacts = f"s3://{BUCKET}/mlflow" if find_spec("boto3") else (folder / "mlartifacts").as_uri()
    made.services = [
        postgresql(ports[POSTGRESQL], database or folder / "postgresql", password),
        definitions.s3_server(ports, folder / "s3", made.state.folder / "s3.json", secrets["s3"]),
        definitions.mlflow_server(
            ports[MLFLOW],
            database_url("psycopg2", ports[POSTGRESQL], password, "mlflow"),
            ["--artifacts-destination", artifacts],
            secrets["mlflow"],
            storage,
            needs=(POSTGRESQL,),
        ),
        definitions.prefect_server(
            ports[PREFECT],
            folder / "prefect",
            database_url("asyncpg", ports[POSTGRESQL], password, "prefect"),
            needs=(POSTGRESQL,),
        ),
        definitions.receiver(ports[RECEIVER], api, secrets["webhook"], made.environment),
    ]
    for number in range(workers):
        home = {"PREFECT_HOME": str(folder / f"worker-{number}")}
        made.services.append(definitions.worker(worker_name(number), api, limit, made.environment | home))
    return made


@contextmanager
def running(services: LocalServices, patience_s: float = 25) -> Iterator[LocalServices]:
    """The services while they are up; they end on the way out."""
    try:
        services.start()
        yield services
    finally:
        services.stop(patience_s)


def worker_name(number: int) -> str:
    """The name of a worker, counted from 0."""
    return f"{WORKER} {number}"


def write_environment(services: LocalServices) -> Path:
    """Writes a file for a shell to read, for its owner only: it holds secrets."""
    file = services.folder / "environment.sh"
    lines = [f"export {name}={shlex.quote(value)}" for name, value in sorted(services.environment.items())]
    write_private(file, "\n".join(lines) + "\n")
    return file
