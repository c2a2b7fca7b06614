"""A run on two workers, with PostgreSQL and S3 behind it, while parts of the installation are killed."""

from __future__ import annotations

import json
import time

import pytest
from local_services import local_services
from model_server import serving
from projects import NOISE_AND_SWAP, Project, income, new_project, people, until

from aitest_lib.artifacts.store import Store

pytestmark = pytest.mark.slow
ROWS = 300
BATCH = 5
ROBUSTNESS = [{"property": "tabular.robustness", "transforms": NOISE_AND_SWAP}]
COLUMNS = ["case_id", "expected", "observed", "outcome", "reason"]


def slowly(row):
    time.sleep(0.04)
    return income(row)


@pytest.fixture(scope="module")
def endpoint():
    with serving(slowly) as server:
        yield server


@pytest.fixture(scope="module")
def alone(endpoint, tmp_path_factory):
    project = new_project(tmp_path_factory.mktemp("alone") / "project")
    project.fill(endpoint, people(ROWS), properties=ROBUSTNESS, batch_size=BATCH, concurrency=8)
    return project.cases(project.run()).select(COLUMNS).to_pylist()


@pytest.fixture(scope="module")
def services(tmp_path_factory):
    with local_services(tmp_path_factory.mktemp("services"), workers=2, limit=2) as running:
        yield running


@pytest.fixture
def server(endpoint):
    endpoint.distinct.clear()
    endpoint.rows = 0
    return endpoint


@pytest.fixture
def project(services, server, tmp_path):
    made = Project(tmp_path, dict(services.environment))
    return made.fill(server, people(ROWS), properties=ROBUSTNESS, batch_size=BATCH, concurrency=4)


@pytest.fixture
def store(services, monkeypatch):
    for name, value in services.environment.items():
        monkeypatch.setenv(name, value)
    return Store(services.environment["AITEST_STORE"])


def started(project, store):
    """A run on the pool, once two processes have taken shards of its plan for the cases."""
    before = set(store.folders("runs"))
    process = project.start("run", "suite.yaml", "--fresh", "--on", "aitest", "--workers", "2", "--json", "report.json")
    assert until(lambda: set(store.folders("runs")) - before, 60)
    [run_id] = set(store.folders("runs")) - before

    def takers():
        plans = store.folders(f"runs/{run_id}/plans")
        taken = store.files(f"runs/{run_id}/plans/{plans[-1]}/taken") if plans else []
        return {json.loads(data)["by"] for _, data in store.read_many(taken) if data}

    assert until(lambda: len(takers()) > 1, 120), "nobody helped"
    return process, run_id


def cases(project, store):
    import pyarrow as pa
    import pyarrow.parquet as pq

    report = project.report("report.json")
    path = report["properties"][0]["artifacts"]["cases"].removeprefix(f"{store.url}/")
    return report, pq.read_table(pa.BufferReader(store.read(path))).select(COLUMNS).to_pylist()


def test_a_worker_is_killed_with_all_that_it_runs(project, services, store, server, alone):
    process, _ = started(project, store)
    services.kill_worker(0)
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, out + err
    assert project.report("report.json")["status"] != "error", project.report("report.json")["properties"]
    report, found = cases(project, store)
    assert found == alone
    assert len(server.distinct) == report["queries"]["planned"]
    services.start()


def test_the_prefect_server_is_killed(project, services, store, server, alone):
    process, run_id = started(project, store)
    services.kill("Prefect")
    out, err = process.communicate(timeout=240)
    assert process.returncode == 3, out + err
    assert "Prefect" in err
    assert "Traceback" not in err
    services.start()
    # Its processes go on as far as they come without it; they may even be there yet when it is back, and finish the run.
    assert until(lambda: not store.files(f"runs/{run_id}/present"), 240)
    if not store.exists(f"runs/{run_id}/logged.json"):
        done = project.cli("resume", run_id, timeout=300)
        assert done.code == 0, done.text
    (project.folder / "report.json").write_text(project.cli("show", run_id, "--format", "json").out)
    assert project.report("report.json")["status"] != "error", project.report("report.json")["properties"]
    report, found = cases(project, store)
    assert found == alone
    assert len(server.distinct) == report["queries"]["planned"]
