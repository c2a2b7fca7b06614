"""What somebody else puts into the store is not trusted: no pickle is ever loaded, damaged answers are asked again, and
damaged records are told or made anew."""

from __future__ import annotations

import base64
import json
import os
import pickle

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from projects import is_calm, people

from aitest_tasks.runs import _open


class Payload:
    """Leaves a file behind where it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_a_planted_pickle_is_not_loaded(project, server, tmp_path):
    project.fill(server, people(200))
    first = project.run()
    planted = tmp_path / "planted"  # pickle is only written here, to see that nothing reads it
    results = [path for path in (project.store / "results").iterdir() if path.is_file()]
    assert results
    for path in results:
        stored = json.loads(path.read_text())
        stored["metadata"]["serializer"] = {"type": "pickle", "picklelib": "pickle"}
        stored["result"] = base64.b64encode(pickle.dumps(Payload(str(planted)))).decode()
        path.write_text(json.dumps(stored))
    second = project.run()
    assert not planted.exists()
    assert [gate["verdict"] for item in second["properties"] for gate in item["gates"]] == [
        gate["verdict"] for item in first["properties"] for gate in item["gates"]
    ]
    assert second["queries"]["sent"] == 0


def change_results(project, prefix, change):
    """Puts something else in place of the results of a task."""
    for path in (project.store / "results").glob(f"{prefix}-*"):
        stored = json.loads(path.read_text())
        stored["result"] = json.dumps(change(json.loads(stored["result"])))
        path.write_text(json.dumps(stored))


def verdicts(report):
    return [[gate["verdict"] for gate in item["gates"]] for item in report["properties"]]


@pytest.mark.parametrize("wrong", [{}, 5, {"ref": "x"}])
def test_results_of_another_shape_are_made_again(project, server, wrong):
    first = project.fill(server, people(60)).run()
    tasks = ("sample_seeds", "generate_cases", "generate_flips", "score_property")
    for task in tasks:
        change_results(project, task, lambda _: wrong)
    second = project.run()
    assert verdicts(second) == verdicts(first)
    assert second["status"] == first["status"]
    assert second["queries"]["sent"] == 0
    assert str(wrong) not in [json.loads(path.read_text())["result"] for path in (project.store / "results").iterdir()]


def test_a_planted_reference_neither_reads_nor_removes_a_file(project, server):
    first = project.fill(server, people(60)).run()
    precious = project.folder / "precious.txt"
    precious.write_text("mine")
    planted = os.path.relpath(precious, project.store)
    assert (project.store / planted).read_text() == "mine"
    change_results(project, "generate_flips", lambda ref: ref | {"uri": planted})
    change_results(project, "sample_seeds", lambda seeds: seeds | {"profile": seeds["profile"] | {"uri": planted}})
    second = project.run()
    assert verdicts(second) == verdicts(first)
    path = project.store / "runs" / second["run_id"] / "report.json"
    report = json.loads(path.read_text())
    for item in report["properties"]:
        item["artifacts"]["failures"] = planted
    path.write_text(json.dumps(report))
    _open.cache_clear()
    assert "it is no path of an artifact" in one_message(project.here("show", second["run_id"]))
    assert precious.read_text() == "mine"


def test_damaged_and_foreign_answers_are_asked_again(project, server):
    project.fill(server, people(200))
    first = project.run()
    damaged, foreign, *rest = sorted((project.store / "answers").glob("*/*/*.parquet"))
    assert rest is not None
    damaged.write_bytes(b"PAR1 garbage")
    pq.write_table(pa.table({"something": ["else"]}), foreign)
    second = project.run()
    assert second["status"] == first["status"]
    assert second["queries"]["sent"] > 0
    assert second["queries"]["planned"] == first["queries"]["planned"]
    assert not damaged.exists()


def test_a_run_folder_without_its_record_is_passed_over(project, server):
    project.fill(server, people(60))
    report = project.run()
    (project.store / "runs" / "zzz").mkdir()
    assert report["run_id"][:12] in project.here("show", "last").out


DAMAGES = ('{"suite": "peo', "{}", "[1, 2]")  # half a file, an empty object, something else


def damage(project, run_id, name, text):
    """Writes a file of a run's record, for a process that has not read it yet."""
    path = project.store / "runs" / run_id / f"{name}.json"
    path.write_text(text)
    _open.cache_clear()
    return path


def one_message(found):
    assert found.code == 3, found.text
    assert found.err.count("error:") == 1
    assert is_calm(found.text)
    return " ".join(found.err.split())


def test_a_damaged_report_is_told_and_can_be_made_again(project, server):
    first = project.fill(server, people(60)).run()
    run_id = first["run_id"]
    for text in DAMAGES:
        path = damage(project, run_id, "report", text)
        for command in (["show", "last"], ["report", run_id], ["status", run_id]):
            message = one_message(project.here(*command))
            assert f"the report.json of run {run_id[:8]} is damaged" in message
            assert f"remove it and go on with: aitest resume {run_id[:12]}" in message
    path.unlink()
    calls = server.calls
    again = project.here("resume", run_id, "--json", "again.json")
    assert again.code == 0, again.text
    assert server.calls == calls
    second = project.report("again.json")
    assert second["status"] == first["status"]
    assert second["queries"]["planned"] == first["queries"]["planned"]


def test_a_damaged_run_record_is_told(project, server):
    run_id = project.fill(server, people(60)).run()["run_id"]
    for text in DAMAGES:
        damage(project, run_id, "run", text)
        for command in (["show", run_id], ["resume", run_id], ["status", "last"]):
            message = one_message(project.here(*command))
            assert f"the run.json of run {run_id[:8]} is damaged" in message
            assert "run the suite again: kept answers are used" in message
    assert project.run()["queries"]["sent"] == 0


def test_damaged_records_of_an_interrupted_run(project, server):
    project.fill(server, people(60), retries=0)
    label, seen = server.label, []

    def failing(row):
        seen.append(row)
        if len(seen) == 150:
            server.inject("drop", None)
        return label(row)

    server.label = failing
    lost = project.here("run", "suite.yaml")
    assert lost.code == 3, lost.text
    server.label, server._always = label, None
    [run_id] = [path.name for path in (project.store / "runs").iterdir()]
    for text in DAMAGES:
        for name in ("lease", "progress"):  # the run can do without
            damage(project, run_id, name, text)
        status = project.here("status", run_id)
        assert status.code == 0, status.text
        assert "INTERRUPTED" in status.out
        path = damage(project, run_id, "prepared", text)
        message = one_message(project.here("resume", run_id))
        assert f"the prepared.json of run {run_id[:8]} is damaged" in message
    path.unlink()
    resumed = project.here("resume", run_id, "--json", "r.json")
    assert resumed.code == 0, resumed.text
    assert project.report("r.json")["queries"]["planned"] == len(server.distinct)


def test_a_damaged_epoch_is_followed_by_a_new_one(project, server):
    project.fill(server, people(60))
    assert project.run()["model"]["epoch"] == 1
    [epoch] = (project.store / "answers").glob("*/epoch.json")
    for number, text in enumerate(DAMAGES, start=2):
        epoch.write_text(text)
        found = project.run("--only", "tabular.generalization")
        assert found["model"]["epoch"] == number
        assert found["queries"]["sent"] == 60, "nobody knows what the kept answers belong to"
    assert project.run("--only", "tabular.generalization")["queries"]["sent"] == 0
