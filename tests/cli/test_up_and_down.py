"""`aitest up` and `aitest down`, with real servers: all of it up, used, mended, gone."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import stat
from pathlib import Path

import httpx
import pytest
from projects import Project, ended, is_calm, new_project, people, until

from aitest_flows import api
from aitest_flows.services.group import STARTED, UP
from aitest_flows.services.processes import members
from aitest_tasks.services import MLFLOW, PREFECT, RECEIVER, S3, WORKER, Process, services_of


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """One folder for the whole story, a copy of the server's card in it; whatever happens, nothing is left running."""
    from model_server import serving
    from projects import income

    made = new_project(tmp_path_factory.mktemp("up"), prefect=False)
    with serving(income) as server:
        made.fill(server, people(40), properties=[{"property": "tabular.generalization"}])
        yield made
        made.cli("down")


def running(project: Project) -> dict[str, Process]:
    return services_of(project.home).alive()


def listening(pids: set[int]) -> list[str]:
    """The addresses at which processes listen, as the kernel has them: `0100007F` is 127.0.0.1, port in hex."""
    sockets = set()
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            found = re.fullmatch(r"socket:\[(\d+)\]", str(link.readlink()))
            sockets |= {found.group(1)} if found else set()
    lines = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    return [line[1] for line in lines if line[3] == "0A" and line[9] in sockets]


def pids(processes: dict[str, Process]) -> set[int]:
    return {pid for process in processes.values() for pid in members(process)}


def in_folder(project: Project) -> set[int]:
    """The processes that work in the project's folder."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cwd"):
        with contextlib.suppress(OSError):
            if path.readlink() == project.folder:
                found.add(int(path.parent.name))
    return found


def artifacts(uri: str) -> dict[str, list[str]]:
    """The artifacts of every run, read by a client of `uri` as anybody's would."""
    from mlflow import MlflowClient

    client = MlflowClient(uri)
    runs = client.search_runs([item.experiment_id for item in client.search_experiments()])
    return {run.info.run_id: [item.path for item in client.list_artifacts(run.info.run_id)] for run in runs}


def test_the_whole_story(project):
    assert project.here("register", "card.yaml").code == 0  # before there is any server

    # Two at once start one of each.
    both = [ended(process) for process in [project.start("up"), project.start("up")]]
    assert [one.code for one in both] == [0, 0], both
    assert sorted(one.out.count(" started ") for one in both) == [0, 3]
    assert sorted(one.out.count(" up already ") for one in both) == [0, 3]
    assert all(is_calm(one.text) for one in both)
    first = running(project)
    assert first.keys() == {MLFLOW, PREFECT, WORKER}
    assert in_folder(project) == pids(first)
    for process in first.values():
        assert f"{process.pid}" in both[0].out
        assert process.log in both[0].out
        assert Path(process.log).exists()

    # A run and the registry use them.
    found = project.cli("run", "suite.yaml", "--json", "report.json")
    assert found.code == 0, found.text
    assert is_calm(found.text)
    assert "View" not in found.text
    assert not (project.home / "prefect/server.json").exists()  # no server of the run's own
    report = json.loads((project.folder / "report.json").read_text())
    assert httpx.get(
        f"{first[MLFLOW].url}/api/2.0/mlflow/runs/get", params={"run_id": report["run_id"]}, trust_env=False
    ).is_success
    flows = httpx.post(f"{first[PREFECT].url}/flow_runs/filter", json={}, trust_env=False).json()
    assert [flow["state_type"] for flow in flows] == ["COMPLETED"] * len(flows) != []
    assert project.here("register", "card.yaml").code == 0

    # One that has died comes back at its address, and the others stay.
    os.kill(first[MLFLOW].pid, signal.SIGKILL)
    assert until(lambda: MLFLOW not in running(project))
    broken = project.here("doctor")
    assert broken.code == 3
    assert "start it again with: aitest up" in broken.out
    again = project.cli("up")
    assert again.code == 0, again.text
    assert re.search(r"MLflow +started again", again.out)
    assert again.out.count("up already") == 2
    second = running(project)
    assert second[MLFLOW].url == first[MLFLOW].url
    assert second[MLFLOW].pid != first[MLFLOW].pid
    assert {name: second[name] for name in (PREFECT, WORKER)} == {name: first[name] for name in (PREFECT, WORKER)}
    through_server = artifacts(second[MLFLOW].url)

    # Nothing is left; everything that was recorded is.
    down = project.cli("down")
    assert (down.code, running(project)) == (0, {})
    assert is_calm(down.text)
    assert pids(second) == in_folder(project) == set()
    assert not (project.home / "services/state.json").exists()
    nothing = project.cli("down")
    assert (nothing.code, nothing.out.strip()) == (0, "nothing is up")
    embedded = artifacts(f"sqlite:///{project.home / 'mlflow.db'}")
    assert embedded == through_server
    assert len(embedded) == 3  # of the card, which was registered before and is the same version, the run and its property
    assert all(embedded.values())
    assert "people" in project.here("status").out


@pytest.mark.slow
def test_the_server_of_a_page_that_is_opened_is_one_of_them(project):
    assert project.cli("run", "suite.yaml").code == 0
    opened = project.cli("open", "--no-browser")
    assert opened.code == 0, opened.text
    assert is_calm(opened.text)
    assert "aitest down" in opened.out
    found = running(project)
    assert found.keys() == {MLFLOW}
    assert opened.out.startswith(f"{found[MLFLOW].url}/#/experiments/")
    again = project.here("open", "--no-browser")
    assert again.out.splitlines()[0] == opened.out.splitlines()[0]

    # In Python; `up` takes it as it is.
    with project.entered():
        assert {one.process.name: one.how for one in api.up()} == {MLFLOW: UP, PREFECT: STARTED, WORKER: STARTED}
        assert running(project)[MLFLOW] == found[MLFLOW]

        # One that has frozen: what is said fits whoever has not set anything.
        frozen = running(project)[PREFECT]
        for pid in members(frozen):
            os.kill(pid, signal.SIGSTOP)
        said = project.cli("run", "suite.yaml")
        for pid in members(frozen):
            os.kill(pid, signal.SIGCONT)
        assert said.code == 3
        assert f"the Prefect server at {frozen.url} of `aitest up` does not answer; restart it with: aitest down" in said.err

        assert sorted(api.down()) == sorted([MLFLOW, PREFECT, WORKER])
    assert in_folder(project) == set()

    # The page of a database that is not the project's own: runs do not take its server for theirs.
    project.env["MLFLOW_TRACKING_URI"] = f"sqlite:///{project.home / 'mlflow.db'}"
    try:
        other = project.cli("open", "--no-browser")
    finally:
        del project.env["MLFLOW_TRACKING_URI"]
    assert other.code == 0, other.text
    assert running(project).keys() == {"MLflow UI"}
    assert str(project.home) in project.here("doctor").out
    assert project.here("down").out.strip() == "ended: MLflow UI"
    assert until(lambda: in_folder(project) == set())  # the doctor has had a Prefect server started, which ends by itself


@pytest.mark.slow
def test_with_everything(project):
    up = project.cli("up", "--with-s3", "--with-webhook")
    assert up.code == 0, up.text
    assert is_calm(up.text)
    found = running(project)
    assert found.keys() == {MLFLOW, PREFECT, WORKER, S3, RECEIVER}
    addresses = listening(pids(found))
    assert {address.partition(":")[0] for address in addresses} == {"0100007F"}
    ports = {int(address.partition(":")[2], 16) for address in addresses}
    assert {int(re.sub(r".*:(\d+).*", r"\1", process.url)) for name, process in found.items() if name != WORKER} <= ports

    # Its keys stand in files of their own, for the owner alone.
    secrets = services_of(project.home).secrets()
    for path in (path for path in project.home.rglob("*") if path.is_file() and path.name not in ("secrets.json", "s3.json")):
        assert not [name for name, secret in secrets.items() if secret.encode() in path.read_bytes()], path
    for name in ("secrets.json", "s3.json", "state.json"):
        assert stat.S_IMODE((project.home / "services" / name).stat().st_mode) == 0o600

    doctor = project.here("doctor")
    assert doctor.code == 0, doctor.text
    assert "s3://aitest/store" in doctor.out
    ran = project.cli("run", "suite.yaml", "--json", "report.json")
    assert ran.code == 0, ran.text
    report = json.loads((project.folder / "report.json").read_text())
    assert report["properties"][0]["artifacts"]["cases"].startswith("s3://aitest/store/")

    # Data and address of the storage outlive it; without the storage asked for, a second `up` keeps it.
    assert project.cli("up").out.count("up already") == 5
    down = project.cli("down")
    assert (down.code, pids(found), in_folder(project)) == (0, set(), set())
    assert [port for port in ports if listens(port)] == []
    assert [path for port in ports for path in Path("/tmp").glob(f"seaweedfs-*-{port}.sock")] == []


def test_one_that_cannot_come_up(project):
    """Its reason stands in its log; what was started with it ends, and the other folder's services are none of its business."""
    database = project.home / "services/prefect/prefect.db"
    kept = database.read_bytes()
    database.write_bytes(b"no database" * 1000)
    try:
        failed = project.cli("up")
    finally:
        database.write_bytes(kept)
    assert failed.code == 3
    assert is_calm(failed.err.replace("error:", ""))
    assert str(project.home / "logs/prefect.log") in failed.err
    assert running(project) == {}
    assert project.cli("down").out.strip() == "nothing is up"


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
