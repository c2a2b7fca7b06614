"""`infra/local`: PostgreSQL stands behind both servers, a worker that is lost comes back, and nothing is left."""

from __future__ import annotations

from pathlib import Path

import httpx
import psycopg2
import s3fs
from local_services import local_services
from projects import until

from aitest_flows.services.processes import members
from aitest_tasks.services import BUCKET
from infra.local.postgresql import POSTGRESQL, database_url


def names(services, database: str, query: str) -> list[str]:
    port = int(services.state.read()[POSTGRESQL].url.rpartition(":")[2])
    password = services.state.secrets()["postgresql"]
    connection = psycopg2.connect(database_url("", port, password, database).replace("+", ""))
    try:
        with connection.cursor() as cursor:
            cursor.execute(query)
            return [name for (name,) in cursor.fetchall()]
    finally:
        connection.close()


def storage(environment: dict[str, str]) -> s3fs.S3FileSystem:
    return s3fs.S3FileSystem(
        key=environment["AWS_ACCESS_KEY_ID"],
        secret=environment["AWS_SECRET_ACCESS_KEY"],
        client_kwargs={"endpoint_url": environment["AWS_ENDPOINT_URL"], "region_name": environment["AWS_DEFAULT_REGION"]},
        use_listings_cache=False,
        skip_instance_cache=True,
    )


def test_local_services(tmp_path):
    with local_services(tmp_path, workers=2) as services:
        before = services.state.read()
        assert len(before) == 7
        environment = services.environment

        # What is told to a server stands in its database.
        url = environment["MLFLOW_TRACKING_URI"]
        made = httpx.post(f"{url}/api/2.0/mlflow/experiments/create", json={"name": "kept"}, timeout=30, trust_env=False)
        assert made.is_success, made.text
        assert "kept" in names(services, "mlflow", "SELECT name FROM experiments")

        # What is given to MLflow to keep is in the S3 server.
        put = httpx.put(f"{url}/api/2.0/mlflow-artifacts/artifacts/a.txt", content=b"kept", timeout=30, trust_env=False)
        assert put.is_success, put.text
        assert storage(environment).cat_file(f"{BUCKET}/mlflow/a.txt") == b"kept"

        assert names(services, "prefect", "SELECT name FROM work_pool") == ["aitest"]
        assert set(names(services, "prefect", "SELECT name FROM worker")) == {"worker 0", "worker 1"}

        # No password where other users of the machine can read it.
        for pid in [pid for process in before.values() for pid in members(process)]:
            words = Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
            assert not [name for name, secret in services.state.secrets().items() if secret in words], words

        services.kill_worker(1)
        assert until(lambda: not services.state.read()["worker 1"].alive)
        services.start()
        after = services.state.read()
        assert after["worker 1"].alive
        assert {name for name in after if after[name].pid != before[name].pid} == {"worker 1"}

    assert services.state.read() == {}
    assert [pid for process in after.values() for pid in members(process)] == []
