"""The store goes away for some seconds just after a run or a `resume` was let through: it is waited for."""

from __future__ import annotations

import threading

import pytest
from projects import is_calm, people
from s3_server import s3_server

from aitest_flows import runner


@pytest.fixture
def s3():
    server = s3_server()
    yield server
    if server.process is None:
        server.start()


def restarts_before(monkeypatch, s3, name):
    """The store stops before this function of the runner is called, and starts again meanwhile."""
    function, restarts = getattr(runner, name), []

    def restarting(*args):
        s3.stop()
        restarts.append(threading.Thread(target=s3.start))
        restarts[0].start()
        return function(*args)

    monkeypatch.setattr(runner, name, restarting)
    return restarts


@pytest.mark.parametrize("name", ["create_run", "adopt"])
def test_at_the_start(project, server, s3, monkeypatch, name):
    project.env |= s3.environment() | {"AITEST_STORE": s3.prefix()}
    project.fill(server, people(60))
    restarts = restarts_before(monkeypatch, s3, name)
    found = project.here("run", "suite.yaml")
    restarts[0].join()
    assert found.code == 0, found.text
    assert is_calm(found.text)


def test_when_it_is_resumed(project, server, s3, monkeypatch):
    prefix = s3.prefix()
    project.env |= s3.environment() | {"AITEST_STORE": prefix}
    run_id = project.fill(server, people(60)).run()["run_id"]
    client = s3.client()
    for name in ("report", "logged"):
        client.rm_file(f"{prefix.removeprefix('s3://')}/runs/{run_id}/{name}.json")
    restarts = restarts_before(monkeypatch, s3, "check_free")
    resumed = project.here("resume", run_id)
    restarts[0].join()
    assert resumed.code == 0, resumed.text
    assert is_calm(resumed.text)
