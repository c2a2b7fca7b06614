"""The store or the tracking server goes away during a run: for a while, which the run waits out, or for good."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest
from disks import make_read_only, small_disk
from mlflow import MlflowClient
from projects import FOREIGN, NOISE_AND_SWAP, empty_tracking, is_calm, people, until
from s3_server import s3_server

from aitest_tasks import live

ROWS = 300
PROPERTIES = [
    {"property": "tabular.generalization", "gates": {"accuracy": {"min": 0.5}}},
    {"property": "tabular.robustness", "transforms": NOISE_AND_SWAP, "gates": {"pass_rate": {"min": 0.5}}},
]


def at_row(server, number, action):
    """Does something once, while the model answers its `number`-th row from now on."""
    label, seen = server.label, []

    def label_and_act(row):
        seen.append(row)
        if len(seen) == number:
            action()
        return label(row)

    server.label = label_and_act


def resume_line(found):
    [line] = [line for line in found.err.splitlines() if "aitest resume" in line]
    return re.findall(r"aitest resume (\w+)", line)[-1]


class MlflowServer:
    """A real tracking server with a database and artifacts of its own: what `mlflow server` runs, without its supervisor."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = None

    def start(self):
        command = [sys.executable, "-m", "uvicorn", "--host", "127.0.0.1", "--port", str(self.port)]
        command += ["mlflow.server.fastapi_app:app"]
        clean = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        places = {
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "_MLFLOW_SERVER_FILE_STORE": f"sqlite:///{self.folder / 'mlflow.db'}",
            "_MLFLOW_SERVER_ARTIFACT_DESTINATION": str(self.folder / "artifacts"),
            "_MLFLOW_SERVER_ARTIFACT_ROOT": "mlflow-artifacts:/",
            "_MLFLOW_SERVER_SERVE_ARTIFACTS": "true",
        }
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, env=clean | places, stdout=log, stderr=log, start_new_session=True)

    def wait(self):
        assert until(self.healthy, 60), (self.folder / "log").read_text()[-2000:]

    def stop(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def healthy(self):
        try:
            return httpx.get(f"{self.url}/health", timeout=2, trust_env=False).status_code == 200
        except httpx.HTTPError:
            return False


@pytest.fixture(scope="module")
def one_mlflow_server(tmp_path_factory):
    server = MlflowServer(tmp_path_factory.mktemp("tracking") / "mlflow")
    (server.folder / "mlflow.db").write_bytes(empty_tracking().read_bytes())
    server.start()
    yield server
    server.stop()


@pytest.fixture
def mlflow_server(one_mlflow_server):
    if one_mlflow_server.process.poll() is not None:
        one_mlflow_server.start()
    one_mlflow_server.wait()
    return one_mlflow_server


@pytest.fixture
def s3():
    return s3_server()


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(live, "AWAY_S", 2.0)


def on_s3(project, s3):
    project.env |= s3.environment() | {"AITEST_STORE": s3.prefix()}
    return project


def test_a_store_that_comes_back_is_waited_for(project, server, s3):
    on_s3(project, s3).fill(server, people(ROWS), properties=PROPERTIES, batch_size=64)
    restarted = threading.Thread(target=s3.start)

    def restart():
        s3.stop()
        restarted.start()

    at_row(server, 200, restart)
    found = project.here("run", "suite.yaml", "--json", "r.json")
    restarted.join()
    assert found.code == 0, found.text
    assert is_calm(found.text)
    assert "the store done: is back after" in found.err
    report = project.report("r.json")
    assert report["queries"]["sent"] == report["queries"]["planned"] == len(server.distinct)
    # The probe asks one row alone, then again among its sentinels.
    assert server.rows == len(server.distinct) + report["queries"]["sentinel"] + 1, "something was asked twice"
    assert project.run()["queries"]["sent"] == 0


def test_a_store_that_stays_away_ends_the_run_with_one_message(project, server, s3, impatient):
    on_s3(project, s3).fill(server, people(ROWS), properties=PROPERTIES, batch_size=64)
    at_row(server, 200, s3.stop)
    found = project.here("run", "suite.yaml")
    assert found.code == 3, found.text
    assert is_calm(found.text.replace("EndpointConnectionError", ""))
    assert re.search(r"error: cannot \w+ s3://.*: the S3 server at http://127\.0\.0\.1:\d+ does not answer", found.err)
    run_id = resume_line(found)
    asked = server.rows
    early = project.here("resume", run_id)
    assert early.code == 3
    assert server.rows == asked
    s3.start()
    status = project.here("status", run_id)
    assert "INTERRUPTED" in status.out, status.text
    resumed = project.here("resume", run_id, "--json", "r.json")
    assert resumed.code == 0, resumed.text
    report = project.report("r.json")
    assert report["queries"]["planned"] == len(server.distinct)
    assert report["queries"]["errors"] == 0


def test_ctrl_c_ends_the_waiting(project, server, s3):
    on_s3(project, s3).fill(server, people(ROWS), properties=PROPERTIES, batch_size=64)
    at_row(server, 200, s3.stop)
    process = project.start("run", "suite.yaml")
    assert until(lambda: s3.process is None)
    time.sleep(2)  # the run has met the outage and waits
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=30)  # far less than the patience of a run
    assert process.returncode == 130
    assert is_calm(err)
    assert "aitest resume" in err


def test_a_tracking_server_that_comes_back_is_waited_for(project, server, mlflow_server):
    project.env["MLFLOW_TRACKING_URI"] = mlflow_server.url
    project.fill(server, people(ROWS), properties=PROPERTIES, batch_size=64)

    waited = []

    def hear(name, stage, *_):
        if (name, stage) == ("the tracking server", "waiting"):
            if not waited:
                mlflow_server.start()
            waited.append(stage)

    at_row(server, 200, mlflow_server.stop)
    forget = live.listen(hear)
    found = project.here("run", "suite.yaml", "--json", "r.json")
    forget()
    assert found.code == 0, found.text
    assert is_calm(found.text)
    assert waited
    assert "the tracking server done: is back after" in found.err
    client = MlflowClient(mlflow_server.url)
    run = client.get_run(project.report("r.json")["run_id"])
    assert run.info.status == "FINISHED"
    children = client.search_runs([run.info.experiment_id], filter_string=f"tags.`mlflow.parentRunId` = '{run.info.run_id}'")
    assert sorted(child.data.tags["aitest.property"] for child in children) == ["tabular.generalization", "tabular.robustness"]


def test_a_tracking_server_that_is_away_at_the_end_is_told_on_resume(project, server, mlflow_server, impatient, monkeypatch):
    import aitest_flows.suite

    project.env["MLFLOW_TRACKING_URI"] = mlflow_server.url
    project.fill(server, people(ROWS), properties=PROPERTIES, batch_size=64)
    assemble = aitest_flows.suite.assemble

    def last_thing(*args):
        mlflow_server.stop()
        return assemble(*args)

    monkeypatch.setattr(aitest_flows.suite, "assemble", last_thing)
    found = project.here("run", "suite.yaml")
    assert found.code == 3, found.text
    assert re.search(r"error: MLflow at http://127.0.0.1:\d+ could not be used to .*; check MLFLOW_TRACKING_URI", found.err)
    run_id = resume_line(found)
    shown = project.here("show", run_id)
    assert shown.code == 0
    assert "PASSED" in shown.out
    mlflow_server.start()
    mlflow_server.wait()
    asked = server.calls
    resumed = project.here("resume", run_id, "--json", "r.json")
    assert resumed.code == 0, resumed.text
    assert server.calls == asked
    report = project.report("r.json")
    client = MlflowClient(mlflow_server.url)
    run = client.get_run(report["run_id"])
    assert run.info.status == "FINISHED"
    assert run.data.tags["aitest.status"] == report["status"] == "passed"
    assert {item.path for item in client.list_artifacts(report["run_id"])} >= {"report.html", "report.json"}
    again = project.here("resume", run_id)
    assert again.code == 2
    assert "has ended already" in again.err


def test_a_full_disk_is_told_and_the_run_goes_on_once_there_is_room(project, server, tmp_path):
    disk = tmp_path / "disk"
    with small_disk(disk, "4m"):
        project.env["AITEST_STORE"] = str(disk / "store")
        project.fill(server, people(ROWS), properties=PROPERTIES, batch_size=64)
        filler = disk / "filler"

        def fill():
            with contextlib.suppress(OSError), filler.open("wb") as file:
                while True:
                    file.write(os.urandom(1 << 12))
                    file.flush()

        at_row(server, 200, fill)
        found = project.here("run", "suite.yaml")
        assert found.code == 3, found.text
        assert is_calm(found.text)
        assert re.search(r"error: cannot write .*: No space left on device; make room on its disk", found.err)
        run_id = resume_line(found)
        filler.unlink()
        resumed = project.here("resume", run_id, "--json", "r.json")
        assert resumed.code == 0, resumed.text
        assert project.report("r.json")["queries"]["planned"] == len(server.distinct)


@pytest.mark.parametrize("own_server", [True, False])
def test_a_project_that_may_not_be_written(project, server, own_server):
    project.fill(server, people(40))
    if own_server:
        del project.env["PREFECT_API_URL"]
    database = (project.home / "mlflow.db").read_bytes()
    with small_disk(project.home, "32m"):
        for name in ("prefect", "logs", "store"):
            (project.home / name).mkdir()
        (project.home / "mlflow.db").write_bytes(database)
        make_read_only(project.home)
        found = project.here("run", "suite.yaml")
    assert found.code in (2, 3), found.text
    assert found.err.count("error:") == 1
    assert is_calm(found.text)
    assert "Read-only file system" in found.err
    assert server.calls == 0


@pytest.mark.parametrize("address", ["127.0.0.1:4200/api", "http://", "http://user:word@host/api", "nonsense"])
def test_an_address_of_prefect_that_is_none(project, server, address):
    project.fill(server, people(40))
    project.env["PREFECT_API_URL"] = address
    found = project.here("run", "suite.yaml")
    assert found.code == 2, found.text
    assert "PREFECT_API_URL is not the address of a Prefect server; expected http://host:4200/api" in found.err
    assert "word" not in found.err
    assert server.calls == 0


def test_a_prefect_server_that_does_not_answer(project, server):
    project.fill(server, people(40))
    project.env["PREFECT_API_URL"] = "http://127.0.0.1:1/api"
    found = project.here("run", "suite.yaml")
    assert found.code == 3, found.text
    assert "the Prefect server at http://127.0.0.1:1/api (PREFECT_API_URL) does not answer" in found.err
