"""One run on the workers of a pool: the same ids and verdicts, the endpoint's limits over all processes, and processes that
are killed in the middle of it."""

from __future__ import annotations

import json
import os
import signal
import time

import httpx
import numpy as np
import pytest
from model_server import serving
from pool_workers import pool_workers
from projects import income, new_project, people, until

ROWS = 400
BATCH = 5
COLUMNS = ["case_id", "seed_id", "expected", "observed", "outcome", "reason"]


def slowly(row):
    time.sleep(0.04)
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
    """A project and a pool of two workers, with two slots each."""
    project = new_project(tmp_path_factory.mktemp("spread") / "project")
    project.fill(endpoint, people(ROWS), batch_size=BATCH, concurrency=2, rate_per_s=50)
    with pool_workers(project, 2) as pool:
        yield project, pool


@pytest.fixture
def server(endpoint):
    endpoint.times.clear()
    endpoint.distinct.clear()
    endpoint.rows = endpoint.most_at_once = 0
    return endpoint


def cases_of(project, report):
    return {
        item["property"]: project.cases(report, item["property"]).select(COLUMNS).to_pylist() for item in report["properties"]
    }


def most_in_a_second(times):
    times = np.sort(times)
    return int((np.searchsorted(times, times + 1, side="left") - np.arange(len(times))).max())


def started(project, pool, *args):
    """A run on the pool as a process, and its record's folder, once a plan of it is worked on by two processes."""
    before = set((project.store / "runs").glob("*"))
    process = project.start("run", "suite.yaml", "--fresh", "--on", pool.name, "--workers", "2", "--json", "report.json", *args)
    assert until(lambda: set((project.store / "runs").glob("*")) - before, 60)
    [folder] = set((project.store / "runs").glob("*")) - before
    return process, folder


def takers(folder):
    """The processes that have taken shards of the newest plan, by how many."""
    plans = sorted((folder / "plans").glob("*"))
    # A claim in the making is a hidden file beside the claims; it may be gone before it is read.
    found = [json.loads(path.read_text())["by"] for path in (plans[-1] / "taken").glob("[!.]*")] if plans else []
    return {token: found.count(token) for token in found}


def rows_of(project, ref):
    """Inputs in a shard of a plan."""
    return sum(len(part["rows"]) for part in json.loads((project.store / ref["uri"]).read_text())["parts"])


def shared_by_two(folder):
    return until(lambda: len(takers(folder)) > 1, 90)


def presence(folder, token):
    return json.loads((folder / "present" / f"{token}.json").read_text())


def test_it_is_the_same_run_and_the_endpoint_has_its_limits(spread, alone, server):
    project, pool = spread
    process, folder = started(project, pool)
    assert shared_by_two(folder), "nobody helped"
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, out + err
    report = project.report("report.json")
    assert cases_of(project, report) == alone
    queries = report["queries"]
    assert queries["planned"] == queries["sent"] == len(server.distinct)
    assert server.rows <= queries["sent"] + queries["sentinel"] + 1  # the probe asks its first row alone, too
    assert server.most_at_once <= 2
    assert most_in_a_second(server.times) <= 50
    states = {run["state_type"] for run in pool.flow_runs(folder.name)}
    assert states <= {"COMPLETED", "CANCELLED"}
    assert "query" in project.cli("status", folder.name).out or "passed" in project.cli("status", folder.name).out


@pytest.mark.slow
def test_a_helper_is_killed(spread, alone, server):
    project, pool = spread
    process, folder = started(project, pool)
    assert shared_by_two(folder), "nobody helped"
    leader = json.loads((folder / "lease.json").read_text())["pid"]
    [helper] = [lease for token in takers(folder) if (lease := presence(folder, token))["pid"] != leader]
    os.kill(helper["pid"], signal.SIGKILL)
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, out + err
    report = project.report("report.json")
    assert cases_of(project, report) == alone
    plans = [json.loads(path.read_text()) for path in folder.glob("plans/*/plan.json")]
    shard = max(rows_of(project, ref) for plan in plans for ref in plan["shards"])
    assert len(server.distinct) == report["queries"]["planned"]
    assert server.rows <= len(server.distinct) + report["queries"]["sentinel"] + 1 + shard
    killed = [run for run in pool.flow_runs(folder.name) if run["id"] == helper["flow_run"]]
    assert [run["state_type"] for run in killed] == ["CRASHED"]


@pytest.mark.slow
def test_the_leading_process_is_killed(spread, alone, server):
    project, pool = spread
    process, folder = started(project, pool)
    assert shared_by_two(folder), "nobody helped"
    os.kill(json.loads((folder / "lease.json").read_text())["pid"], signal.SIGKILL)
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, out + err
    assert "another one goes on" in err
    report = project.report("report.json")
    assert cases_of(project, report) == alone
    assert len(server.distinct) == report["queries"]["planned"]
    states = {run["state_type"] for run in pool.flow_runs(folder.name)}
    assert states <= {"COMPLETED", "CANCELLED", "CRASHED"}, "a killed flow run still reads RUNNING"


def test_a_pool_without_workers_waits(spread):
    project, pool = spread
    empty = f"{pool.name}-empty"
    httpx.post(f"{pool.api}/work_pools/", json={"name": empty, "type": "process"}, trust_env=False).raise_for_status()
    with (project.folder / "waiting.txt").open("w") as told:
        process = project.start("run", "suite.yaml", "--on", empty, err=told)
        shown = project.folder / "waiting.txt"
        assert until(lambda: f"prefect worker start --pool {empty}" in shown.read_text(), 60)
        assert "WAITING" in project.cli("status").out
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"the run goes on on the pool {empty}" in shown.read_text()


def test_a_pool_that_there_is_not(spread):
    project, pool = spread
    found = project.cli("run", "suite.yaml", "--on", pool.name[:-1])
    assert found.code == 2
    assert f"unknown work pool '{pool.name[:-1]}'; did you mean {pool.name}" in found.err
