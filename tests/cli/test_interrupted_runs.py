"""Runs that are killed, interrupted, or started three at once: nothing is lost, nothing asked twice, nobody left behind."""

import json
import os
import signal
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from mlflow import MlflowClient
from projects import AITEST, NOISE_AND_SWAP, ended, is_calm, new_project, people, property_of, until

from aitest_lib.answers import read_book
from aitest_lib.artifacts.store import Store

ROWS = 500
PROPERTIES = [
    {"property": "tabular.generalization", "gates": {"accuracy": {"min": 0.5}}},
    {"property": "tabular.robustness", "transforms": NOISE_AND_SWAP, "gates": {"pass_rate": {"min": 0.5}}},
]
# What may differ between an uninterrupted run and one that was resumed.
OWN = {"run_id", "started", "seconds", "sent", "cached", "sentinel", "retries", "artifacts"}
RETURNS_S = 60.0  # a call in flight takes ten minutes here: only a run that does not wait for it returns


def slow_start(project, server, hold_s):
    """Starts a run whose probe is slow, so that its shards are small; its calls then take `hold_s`."""
    server.slow_s = 1.5
    server.inject("slow", 3)
    process = project.start("run", "suite.yaml", "--json", "r.json")
    assert until(lambda: server.statuses[200] >= 3 or process.poll() is not None)
    server.slow_s = hold_s
    server.inject("slow", None)
    return process


def go_on(server):
    server._always = None
    server.released.set()


def comparable(value):
    if isinstance(value, dict):
        return {key: comparable(item) for key, item in value.items() if key not in OWN}
    return [comparable(item) for item in value] if isinstance(value, list) else value


def answered(project):
    store = Store(str(project.store))
    [digest] = store.folders("answers")
    [epoch] = store.folders(f"answers/{digest}") or ["1"]
    return len(read_book(store, [f"answers/{digest}/{epoch}"]).digests)


def processes(folder):
    """Ids of the processes whose command line names the folder."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes().decode(errors="replace") if entry.name.isdigit() else ""
        except OSError:
            continue
        if str(folder) in command and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return found


def test_a_killed_run_is_resumed_and_ends_like_one_that_was_not(tmp_path, server):
    endpoint = {"batch_size": 64, "concurrency": 2}
    whole = new_project(tmp_path / "whole").fill(server, people(ROWS), properties=PROPERTIES, **endpoint)
    expected = whole.run()
    planned = expected["queries"]["planned"]
    project = new_project(tmp_path / "killed", prefect=False).fill(server, people(ROWS), properties=PROPERTIES, **endpoint)
    server.distinct.clear()
    process = slow_start(project, server, 0.25)
    assert until(lambda: len(server.distinct) > planned / 2)
    os.killpg(process.pid, signal.SIGKILL)
    ended(process)
    go_on(server)
    kept, rows = answered(project), server.rows
    assert 0 < kept < planned
    status = project.here("status")
    assert status.code == 0
    assert "INTERRUPTED" in status.out
    resumed = project.cli("resume", "last", "--json", "r.json")
    assert resumed.code == 0, resumed.text
    assert is_calm(resumed.text)
    assert server.rows - rows == planned - kept
    report = project.report("r.json")
    assert report["queries"]["planned"] == report["queries"]["sent"] == planned == len(server.distinct)
    assert comparable(report) == comparable(expected)
    left = ("case_id", "outcome", "observed", "explanation")
    assert project.cases(report).select(left) == whole.cases(expected).select(left)
    assert until(lambda: not processes(project.folder), 30), "a server was left behind"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_a_stopped_run_returns_at_once_and_can_be_resumed(tmp_path, server, number):
    own_server = number == signal.SIGINT
    project = new_project(tmp_path / "project", prefect=not own_server)
    project.fill(server, people(ROWS), properties=PROPERTIES, batch_size=64, concurrency=2)
    process = slow_start(project, server, 600)
    assert until(lambda: server.calls >= 5)
    os.killpg(process.pid, number)
    stopped = ended(process, RETURNS_S)
    go_on(server)
    assert stopped.code == 130, stopped.text
    assert is_calm(stopped.text)
    [line] = [line for line in stopped.err.splitlines() if "aitest resume" in line]
    run_id = line.split("aitest resume ")[1].split()[0]
    if own_server:
        assert until(lambda: not processes(project.folder), 30), "a server was left behind"
    resumed = project.cli("resume", run_id, "--json", "r.json")
    assert resumed.code == 0, resumed.text
    assert is_calm(resumed.text)
    report = project.report("r.json")
    assert report["run_id"].startswith(run_id)
    assert len(server.distinct) == report["queries"]["planned"]
    recorded = MlflowClient(f"sqlite:///{project.home / 'mlflow.db'}").get_run(report["run_id"])
    assert recorded.info.status == "FINISHED"
    assert recorded.data.tags["aitest.status"] == report["status"]


@pytest.mark.slow
def test_a_closed_terminal_stops_a_run_cleanly(tmp_path, server):
    project = new_project(tmp_path / "project")
    project.fill(server, people(ROWS), properties=PROPERTIES, batch_size=64, concurrency=2)
    server.slow_s = 600
    server.inject("slow", None)
    terminal, line = os.openpty()
    process = subprocess.Popen(
        [AITEST, "run", "suite.yaml"],
        cwd=project.folder,
        env=project.environment(),
        start_new_session=True,
        preexec_fn=lambda: os.login_tty(line),
    )
    os.close(line)
    assert until(lambda: server.calls)
    os.close(terminal)
    assert process.wait(RETURNS_S) == 130
    assert not processes(project.folder)
    assert "INTERRUPTED" in project.here("status").out


def test_nohup_is_respected(tmp_path, server):
    project = new_project(tmp_path / "project").fill(server, people(60), properties=PROPERTIES[:1])
    server.slow_s = 600
    server.inject("slow")
    process = subprocess.Popen(
        ["nohup", AITEST, "run", "suite.yaml"],
        cwd=project.folder,
        env=project.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert until(lambda: server.calls)
    process.send_signal(signal.SIGHUP)
    go_on(server)
    assert ended(process).code == 0


@pytest.mark.slow
def test_killed_while_mlflows_database_is_made(tmp_path):
    project = new_project(tmp_path / "project", prefect=False)
    process = project.start("models")
    assert until(lambda: [path for path in project.home.glob("*/mlflow.db") if path.stat().st_size])
    process.kill()
    ended(process)
    assert not (project.home / "mlflow.db").exists()
    begun = [project.start("models") for _ in range(2)]
    for found in map(ended, begun):
        assert (found.code, is_calm(found.text)) == (0, True), found.text
    assert [path.name for path in project.home.iterdir() if "mlflow" in path.name and path.is_dir()] == []


def test_half_a_database_of_mlflows_is_told_with_its_mend(project):
    database = project.home / "mlflow.db"
    with closing(sqlite3.connect(database)) as whole:
        whole.execute("DROP TABLE model_versions")
    found = project.cli("models")
    assert found.code == 3
    assert "defect" not in found.err
    assert f"it holds no run: where it was left half made, remove {database} and run again" in found.err
    database.unlink()
    assert project.cli("models").code == 0


@pytest.mark.slow
def test_killed_while_prefects_database_is_made(tmp_path):
    project = new_project(tmp_path / "project", prefect=False)
    prefect = project.home / "prefect"
    process = project.start("doctor")
    assert until(lambda: (prefect / "prefect.db").exists() and tables(prefect / "prefect.db"))
    os.killpg(int((prefect / "supervisor.pid").read_text()), signal.SIGKILL)
    assert (prefect / "unfinished").exists()
    assert ended(process).code == 3
    with sqlite3.connect(prefect / "prefect.db") as half:  # where a step was done and not yet noted, it cannot be done again
        half.execute("DELETE FROM alembic_version")
    half.close()
    found = project.cli("doctor")
    assert found.code == 0, found.text
    assert is_calm(found.text)
    assert not (prefect / "unfinished").exists()


def tables(database):
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as opened:
        return opened.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()


def test_a_run_that_is_worked_on_cannot_be_resumed(tmp_path, server):
    project = new_project(tmp_path / "project").fill(server, people(ROWS), properties=PROPERTIES, batch_size=64)
    process = slow_start(project, server, 600)
    assert until(lambda: server.calls >= 4)
    second = project.here("resume", "last")
    status = project.here("status")
    os.killpg(process.pid, signal.SIGTERM)
    ended(process, RETURNS_S)
    go_on(server)
    assert second.code == 2
    assert "being worked on" in second.err
    assert "RUNNING" in status.out


def test_a_resumed_run_refuses_other_data(tmp_path, server):
    project = new_project(tmp_path / "project").fill(server, people(ROWS), properties=PROPERTIES, batch_size=64)
    process = slow_start(project, server, 600)
    assert until(lambda: server.calls >= 4)
    os.killpg(process.pid, signal.SIGTERM)
    ended(process, RETURNS_S)
    go_on(server)
    project.write("data.csv", people(ROWS, seed=1).to_csv(index=False))
    found = project.here("resume", "last")
    assert found.code == 2
    assert "data.csv changed" in found.err


def test_a_model_that_goes_away_ends_the_run_and_resume_finishes_it(project, server):
    project.fill(server, people(ROWS), properties=PROPERTIES, batch_size=64, retries=0, concurrency=1)
    calls = []
    label = server.label

    def failing(row):
        calls.append(row)
        if len(calls) == 300:
            server.inject("drop", None)
        return label(row)

    server.label = failing
    lost = project.here("run", "suite.yaml")
    assert lost.code == 3, lost.text
    assert is_calm(lost.text.replace("RemoteProtocolError", ""))
    assert "aitest resume" in lost.err
    server.label, server._always = label, None
    resumed = project.here("resume", "last", "--json", "r.json")
    assert resumed.code == 0, resumed.text
    report = project.report("r.json")
    assert report["queries"]["planned"] == len(server.distinct)
    assert report["queries"]["errors"] == 0


def test_three_runs_at_once_on_a_fresh_folder(tmp_path, server):
    project = new_project(tmp_path / "project", prefect=False).fill(server, people(150), properties=PROPERTIES)
    begun = [project.start("run", "suite.yaml", "--json", f"{number}.json") for number in range(3)]
    found = [ended(process) for process in begun]
    for one in found:
        assert one.code == 0, one.text
        assert is_calm(one.text), one.text
    reports = [project.report(f"{number}.json") for number in range(3)]
    assert len({report["run_id"] for report in reports}) == 3
    for report in reports:
        assert report["status"] == "passed"
        assert report["queries"]["planned"] == len(server.distinct)
        assert property_of(report, "tabular.robustness")["cases"] == property_of(reports[0], "tabular.robustness")["cases"]
    assert sum(report["queries"]["sent"] for report in reports) >= len(server.distinct)
    assert json.loads((project.store / "runs" / reports[0]["run_id"] / "report.json").read_text()) == reports[0]
    assert until(lambda: not processes(project.folder), 30), "a server was left behind"
