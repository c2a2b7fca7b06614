"""The commands around a run: each does what it says, quietly, in a process of its own where that may matter."""

import json
import math
import os
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from model_server import serving
from projects import AITEST, COLUMNS, ended, income, is_calm, new_project, people

from aitest_lib.reports.report import RunReport

TOP = {
    "schema_version",
    "suite",
    "run_id",
    "status",
    "model",
    "provenance",
    "started",
    "seconds",
    "queries",
    "properties",
}
INSIDE = {
    "model": {"name", "version", "revision", "type", "digest", "epoch", "changed"},
    "provenance": {
        "aitest",
        "packages",
        "suite_digest",
        "data_digest",
        "random_seed",
        "started_by",
        "previous_looks",
    },
    "queries": {"planned", "sent", "cached", "sentinel", "retries", "errors"},
}
PROPERTY = {"property", "status", "cases", "metrics", "gates", "explanation", "queries", "seconds", "artifacts"}
METRIC = {"name", "slice", "value", "low", "high", "n", "unit", "higher_is_better"}
GATE = {"metric", "slice", "verdict", "waived", "reason"}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A finished run, made by the command as a process."""
    project = new_project(tmp_path_factory.mktemp("commands") / "project")
    with serving(income) as server:
        project.fill(server, people(250))
        ran = project.cli("run", "suite.yaml", "--json", "r.json", "--junit", "r.xml")
        yield project, ran


def numbers(value):
    if isinstance(value, dict):
        return [number for item in value.values() for number in numbers(item)]
    if isinstance(value, list):
        return [number for item in value for number in numbers(item)]
    return [value] if isinstance(value, float) else []


def test_the_report_has_the_keys_of_the_contract(done):
    project, ran = done
    assert ran.code == 0, ran.text
    assert is_calm(ran.text)
    text = (project.folder / "r.json").read_text()
    assert "NaN" not in text
    assert "Infinity" not in text
    report = json.loads(text)
    RunReport.model_validate(report)
    assert set(report) >= TOP
    for name, keys in INSIDE.items():
        assert set(report[name]) >= keys
    assert report["started"].endswith("Z")
    for item in report["properties"]:
        assert set(item) >= PROPERTY
        assert set(item["cases"]) == {"total", "passed", "failed", "skipped", "error"}
        assert item["cases"]["total"] == sum(count for name, count in item["cases"].items() if name != "total")
        assert set(item["queries"]) == {"planned", "sent", "cached"}
        for metric in item["metrics"]:
            assert set(metric) >= METRIC
            assert metric["value"] is not None or metric["reason"]
            if None not in (metric["low"], metric["value"], metric["high"]):
                assert metric["low"] <= metric["value"] <= metric["high"]
        for gate in item["gates"]:
            assert set(gate) >= GATE
            assert (gate["min"] is None) != (gate["max"] is None)
    assert all(math.isfinite(number) for number in numbers(report))


def test_show_in_every_format(done):
    project, _ = done
    table = project.here("show")
    shown = project.here("show", "last", "--property", "tabular.robustness", "--failures", "3")
    data = project.here("show", "last", "--format", "json")
    page = project.here("show", "last", "--format", "md", "--failures", "2")
    for found in (table, shown, data, page):
        assert found.code == 0, found.text
        assert found.err == ""
    assert "tabular.generalization" in table.out
    assert "tabular.generalization" not in shown.out
    assert "pass_rate" in shown.out
    assert json.loads(data.out)
    assert "|" in page.out
    wrong = project.here("show", "last", "--format", "yaml")
    assert wrong.code == 2
    unknown = project.here("show", "last", "--property", "tabular.fairness")
    assert unknown.code == 2


def test_a_prefix_of_the_id_names_the_run(done):
    project, _ = done
    run_id = project.report("r.json")["run_id"]
    assert project.here("show", run_id[:10]).out == project.here("show", "last").out
    assert run_id in project.here("status", run_id[:10]).out


def test_the_page_is_self_contained(done):
    project, _ = done
    found = project.here("report", "last", "-o", "page.html")
    assert found.code == 0, found.text
    page = (project.folder / "page.html").read_text()
    assert "tabular.robustness" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert project.here("report", "last", "-o", "nowhere/page.html").code == 2


def test_junit(done):
    project, _ = done
    root = ET.parse(project.folder / "r.xml").getroot()
    gates = sum(len(item["gates"]) or 1 for item in project.report("r.json")["properties"])
    cases = root.findall(".//testcase")
    assert len(cases) == gates
    assert not root.findall(".//failure")


def test_a_run_that_has_ended_is_not_resumed(done):
    project, _ = done
    found = project.here("resume", "last")
    assert found.code == 2
    assert "has ended already" in found.err


def test_status_counts_like_the_report(done):
    project, _ = done
    found = project.here("status")
    assert found.code == 0
    for item in project.report("r.json")["properties"]:
        [line] = [line for line in found.out.splitlines() if line.startswith(item["property"])]
        words = line.replace(",", "").split()
        assert str(item["cases"]["passed"]) in words
        assert str(item["cases"]["failed"]) in words


def test_a_run_that_nobody_reads_ends_with_its_verdict(project, server):
    project.fill(server, people(60))
    reading, writing = os.pipe()
    os.close(reading)
    process = project.start("run", "suite.yaml", "--json", "r.json", out=writing, err=writing)
    os.close(writing)
    assert ended(process).code == 0
    assert project.report("r.json")["status"] == "passed"


def test_a_full_disk_behind_stdout_costs_the_output_only(project, server):
    project.fill(server, people(60))
    said = "the output cannot be written: No space left on device"
    with Path("/dev/full").open("w") as full:
        ran = ended(project.start("run", "suite.yaml", "--json", "r.json", out=full))
        shown = [ended(project.start("show", "last", "--format", name, out=full)) for name in ("table", "json")]
        silent = ended(project.start("show", "last", err=full))
    assert project.report("r.json")["status"] == "passed"
    assert [ran.code, *(one.code for one in shown), silent.code] == [0, 3, 3, 0]
    for found in (ran, *shown):
        assert [line for line in found.err.splitlines() if "error" in line] == [f"error: {said}; make room for it"]


def test_closed_streams_are_no_trouble(done):
    project, _ = done
    for closed in ("2>&-", ">&- 2>&-"):
        command = f"exec {AITEST} show last {closed}"
        # A shell, since what is tested is how the command ends in a pipe of one; the text is this file's own.
        assert subprocess.run(command, shell=True, cwd=project.folder, env=project.environment()).returncode == 0


def test_lists_and_schemas(done):
    project, _ = done
    for args in (("list", "properties"), ("list", "transforms"), ("schema", "suite"), ("schema", "model")):
        found = project.here(*args)
        assert found.code == 0, found.text
        assert found.err == ""
        if args[0] == "schema":
            assert json.loads(found.out)["properties"]
    assert "numeric_noise" in project.here("list", "transforms").out


def test_help_and_version_need_no_project(tmp_path):
    project = new_project(tmp_path / "empty", prefect=False)
    for args in (("--help",), ("--version",), ("run", "--help")):
        found = project.cli(*args)
        assert found.code == 0
        assert found.err == ""
    assert not project.home.exists()


def test_probe_says_how_the_model_answers(done):
    project, _ = done
    found = project.cli("probe", "card.yaml", "--data", "data.csv")
    assert found.code == 0, found.text
    assert "deterministic" in found.out
    assert found.err == ""


def test_probe_of_a_model_that_answers_wrongly_says_what_came_back(project, server):
    project.fill(server, people(50))
    server.inject("one", None)
    found = project.here("probe", "card.yaml", "--data", "data.csv")
    assert found.code == 3
    assert "sent 2 rows, got 1 label" in found.err


def test_audit_runs_the_default_properties(project, server):
    project.fill(server, people(150))
    found = project.here("audit", "card.yaml", "data.csv", "--label", "income", "--protected", "sex", "--json", "r.json")
    report = project.report("r.json")
    assert found.code == {"passed": 0, "unjudged": 0, "failed": 1, "inconclusive": 4}[report["status"]]
    assert {"tabular.generalization", "tabular.robustness"} <= {item["property"] for item in report["properties"]}
    assert any("sex" in metric["slice"] for item in report["properties"] for metric in item["metrics"])
    assert report["queries"]["sent"] == len(server.distinct)


def test_doctor(done):
    project, _ = done
    found = project.cli("doctor")
    assert found.code == 0, found.text
    assert is_calm(found.text)
    project.env["AITEST_STORE"] = str(project.folder / "data.csv" / "store")
    try:
        broken = project.here("doctor")
    finally:
        del project.env["AITEST_STORE"]
    assert broken.code == 3
    assert "AITEST_STORE" in broken.out


def test_columns_of_the_card_are_sent_in_its_order(project, server):
    frame = people(60)
    project.fill(server, frame[["sex", "income", "job", "rate", "hours", "age"]])
    project.run("--only", "tabular.generalization")
    body = json.loads(server.requests[-1]["body"])
    assert body["fields"] == COLUMNS
    assert len(server.distinct) == 60


def test_runs_are_listed_the_newest_first(project, server):
    project.fill(server, people(30))
    first = project.run("--only", "tabular.generalization")
    second = project.run("--only", "tabular.generalization")
    lines = [line for line in project.here("list", "runs").out.splitlines() if "people" in line]
    assert [line.split()[0] for line in lines] == [second["run_id"][:12], first["run_id"][:12]]
    assert "served" in lines[0]
    assert "unjudged" in lines[0]


def test_a_run_that_cannot_be_read_any_more_is_one_line_among_the_others(project, server):
    project.fill(server, people(30))
    outdated, damaged, ended = (project.run("--only", "tabular.generalization")["run_id"] for _ in range(3))
    path = project.store / "runs" / outdated / "run.json"
    record = json.loads(path.read_text())
    record["suite"]["data"]["schema"] = {"age": {"min": 90, "max": 18}}
    path.write_text(json.dumps(record))
    (project.store / "runs" / damaged / "run.json").write_text("{")
    listed = project.here("list", "runs")
    assert listed.code == 0 and is_calm(listed.text)
    lines = {run: [line for line in listed.out.splitlines() if run[:12] in line] for run in (outdated, damaged, ended)}
    assert "people" in lines[ended][0] and "unjudged" in lines[ended][0]
    assert lines[outdated] == [
        f"{outdated[:12]} cannot be read: data.schema.age: got min 90 above max 18, expected min <= max; swap them"
    ]
    assert len(lines[damaged]) == 1 and "is damaged (it is no JSON)" in lines[damaged][0]
