"""`infra/local`: PostgreSQL stands behind both servers, a worker that is lost comes back, and nothing is left."""

from __future__ import annotations

from pathlib import Path

import httpx
import psycopg2
from local_services import local_services
from projects import until

from aitest_flows.services.processes import members
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
