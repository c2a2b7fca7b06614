"""One run on a Dask cluster that is there: the same ids and verdicts, the endpoint's limits over all of its processes, and
what happens when a worker or the scheduler is killed in the middle of it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from dask_cluster import dask_cluster
from model_server import serving
from projects import ended, income, is_calm, new_project, people, until
from rates import most_in_a_second

ROWS = 120
BATCH = 5
CONCURRENCY, RATE = 2, 50
COLUMNS = ["case_id", "seed_id", "expected", "observed", "outcome", "reason"]


RULE = """
import os, pathlib

class Rule:
    def __init__(self):
        self._mark = pathlib.Path(__file__).with_name(f"opened-{os.getpid()}")
        self._mark.write_text(str(os.getppid()))

    def predict(self, rows):
        return ["high" if age > 50 else "low" for age in rows["age"]]
"""


def slowly(row):
    time.sleep(0.01)
    return income(row)


@pytest.fixture(scope="module")
def endpoint():
    with serving(slowly) as server:
        yield server


@pytest.fixture(scope="module")
def alone(endpoint, tmp_path_factory):
    """The cases of a run in one process."""
    project = new_project(tmp_path_factory.mktemp("alone") / "project")
    project.fill(endpoint, people(ROWS), batch_size=BATCH, concurrency=8)
    return cases_of(project, project.run())


@pytest.fixture(scope="module")
def spread(endpoint, tmp_path_factory):
    """A project and a cluster of two workers, one thread each."""
    folder = tmp_path_factory.mktemp("spread")
    project = new_project(folder / "project")
    project.fill(endpoint, people(ROWS), batch_size=BATCH, concurrency=CONCURRENCY, rate_per_s=RATE)
    with dask_cluster(folder / "dask", 2, project.environment()) as cluster:
        yield project, cluster


@pytest.fixture
def lonely(endpoint, tmp_path):
    """A project and a cluster of its own, which may be killed."""
    project = new_project(tmp_path / "project")
    project.fill(endpoint, people(ROWS), batch_size=BATCH, concurrency=CONCURRENCY, rate_per_s=RATE)
    with dask_cluster(tmp_path / "dask", 2, project.environment()) as cluster:
        yield project, cluster


@pytest.fixture
def server(endpoint):
    endpoint.times.clear()
    endpoint.distinct.clear()
    endpoint.rows = endpoint.most_at_once = 0
    yield endpoint
    endpoint.plan = lambda call: None


def cases_of(project, report):
    return {
        item["property"]: project.cases(report, item["property"]).select(COLUMNS).to_pylist() for item in report["properties"]
    }


def started(project, cluster, *args):
    return project.start(
        "run", "suite.yaml", "--fresh", "--runner", "dask", "--scheduler", cluster.scheduler, "--json", "report.json", *args
    )


def shards_asked(worker):
    """How many shards a worker has asked by now, by its log."""
    return worker.log.read_text().count("query_model")


def test_it_is_the_same_run_and_the_endpoint_has_its_limits(spread, alone, server):
    project, cluster = spread
    found = ended(started(project, cluster), 240)
    assert found.code == 0, found.text
    assert is_calm(found.text), found.text
    report = project.report("report.json")
    assert cases_of(project, report) == alone
    queries = report["queries"]
    assert queries["planned"] == queries["sent"] == len(server.distinct)
    assert server.rows <= queries["sent"] + queries["sentinel"] + 1  # the probe asks its first row alone, too
    assert server.most_at_once <= CONCURRENCY
    assert most_in_a_second(server.times) <= RATE
    assert all(map(shards_asked, cluster.workers)), "one worker asked everything"


@pytest.mark.slow
def test_an_endpoint_that_takes_fewer_calls_than_there_are_workers(spread, server, tmp_path):
    _, cluster = spread
    project = new_project(tmp_path / "project")
    project.fill(server, people(ROWS // 2), batch_size=BATCH, concurrency=1)
    found = ended(started(project, cluster, "--workers", "8"), 240)
    assert found.code == 0, found.text
    assert server.most_at_once == 1


@pytest.mark.slow
def test_calls_a_second_over_all_workers(spread, server, tmp_path):
    _, cluster = spread
    server.label, before = income, server.label
    project = new_project(tmp_path / "project")
    project.fill(server, people(ROWS // 2), batch_size=1, concurrency=CONCURRENCY, rate_per_s=RATE)
    found = ended(started(project, cluster), 240)
    server.label = before
    assert found.code == 0, found.text
    assert RATE / 2 < most_in_a_second(server.times) <= RATE


@pytest.mark.slow
def test_the_workers_close_the_model(spread, server, tmp_path):
    _, cluster = spread
    project = new_project(tmp_path / "project")
    project.fill(server, people(50), card={"endpoint": None, "python": {"callable": "rule:Rule", "path": ["."]}})
    project.write("rule.py", RULE)
    found = ended(started(project, cluster), 240)
    assert found.code == 0, found.text
    opened = {int(file.name.removeprefix("opened-")): int(file.read_text()) for file in project.folder.glob("opened-*")}
    assert set(opened.values()) & {worker.process.pid for worker in cluster.workers}, "no worker asked the model"
    assert until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in opened)), "a model stays open"


def test_a_model_that_refuses_ends_the_run(spread, server):
    project, cluster = spread
    server.plan = lambda call: "401" if call > 12 else None  # the probe goes well
    found = ended(started(project, cluster), 240)
    assert found.code == 3, found.text
    assert "HTTP 401" in found.err and "aitest resume" in found.err
    assert is_calm(found.text), found.text


@pytest.mark.slow
def test_a_worker_is_killed(lonely, alone, server):
    project, cluster = lonely
    process = started(project, cluster)
    victim = cluster.workers[0]
    assert until(lambda: shards_asked(victim) > 1, 90), "the worker asked nothing"
    os.kill(victim.process.pid, signal.SIGKILL)
    found = ended(process, 240)
    assert found.code == 0, found.text
    assert is_calm(found.text), found.text
    report = project.report("report.json")
    assert cases_of(project, report) == alone
    assert len(server.distinct) == report["queries"]["planned"]


@pytest.mark.slow
def test_the_scheduler_is_killed_and_the_run_resumed(lonely, alone, server):
    project, cluster = lonely
    process = started(project, cluster)
    assert until(lambda: all(map(shards_asked, cluster.workers)), 90), "a worker asked nothing"
    os.kill(cluster.scheduler_process.pid, signal.SIGKILL)
    found = ended(process, 240)
    assert found.code == 3, found.text
    assert is_calm(found.text), found.text
    assert f"Dask scheduler at {cluster.scheduler}" in found.err
    [folder] = (project.store / "runs").glob("*")
    assert f"aitest resume {folder.name[:12]}" in found.err
    resumed = project.cli("resume", folder.name, "--json", "report.json", timeout=240)
    assert resumed.code == 3, resumed.text
    assert f"there is no Dask scheduler at {cluster.scheduler}" in resumed.err
    cluster.start_scheduler()
    cluster.start_workers(2)
    resumed = project.cli("resume", folder.name, "--json", "report.json", timeout=240)
    assert resumed.code == 0, resumed.text
    report = project.report("report.json")
    assert cases_of(project, report) == alone
    assert len(server.distinct) == report["queries"]["planned"]


def test_no_worker_no_run(endpoint, tmp_path):
    project = new_project(tmp_path / "project").fill(endpoint, people(ROWS))
    with dask_cluster(tmp_path / "dask", 0, project.environment()) as cluster:
        found = ended(started(project, cluster), 120)
    assert found.code == 3, found.text
    assert f"start one with: dask worker {cluster.scheduler}" in found.err
    assert not (project.store / "runs").exists()
