"""Tabular fairness of a model behind an endpoint: killed and resumed, with one worker and four, and with private columns."""

from __future__ import annotations

import json
import os
import signal

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from fairness_projects import FLIPS, MOVES, RATIO, cases_of, settled
from model_server import serving
from planted_pairs import DIRECTIONS, GROUPS, PAIRS
from projects import ended, new_project, property_of, until


def of_row(row):
    age, hours, race, sex = row[:4]
    return "high" if age + hours > (90 if race == "black" and sex == "F" else 80) else "low"


def people(rows):
    """Few columns, for a model behind an endpoint that asks ten more of the women of one race."""
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"age": rng.integers(18, 80, rows), "hours": rng.integers(5, 60, rows)})
    frame["race"], frame["sex"] = rng.choice(["black", "white"], rows), rng.choice(["F", "M"], rows)
    return frame.assign(income=[of_row(row) for row in frame.to_numpy().tolist()])


SERVED = {
    "data": {"test": "data.csv", "label": "income", "favorable": "high", "protected": {"sex": {}, "race": {}}},
    "properties": [
        FLIPS,
        MOVES | {"directions": {"hours": "increasing", "age": "never_hurts"}},
        RATIO,
    ],
}
SENT = {"inputs": {"columns": ["age", "hours", "race", "sex"]}}


def test_a_suite_of_which_all_is_skipped_ends_with_0(tmp_path):
    with serving(of_row) as server:
        project = new_project(tmp_path / "project").fill(
            server,
            people(200).rename(columns={"race": "faith"}),
            suite={"data": SERVED["data"] | {"protected": {"faith": {}}}, "properties": [FLIPS]},
            card={"inputs": {"columns": ["age", "hours", "sex"]}},
        )
        server.label = lambda row: of_row([row[0], row[1], "", row[2]])
        ran = project.here("run", "suite.yaml")
    assert ran.code == 0, ran.text
    assert "SKIPPED" in ran.out and "the model is not sent faith" in " ".join(ran.out.split())


@pytest.mark.slow
def test_a_killed_run_asks_nothing_twice(tmp_path):
    with serving(of_row) as server:
        endpoint = {"batch_size": 32, "concurrency": 2}
        whole = new_project(tmp_path / "whole").fill(server, people(150), suite=SERVED, card=SENT, **endpoint)
        expected = whole.run()
        planned = expected["queries"]["planned"]
        project = new_project(tmp_path / "killed").fill(server, people(150), suite=SERVED, card=SENT, **endpoint)
        server.distinct.clear()
        server.slow_s = 0.25
        server.inject("slow", None)
        process = project.start("run", "suite.yaml")
        # The seeds are answered, and so are some of the counterparts.
        assert until(lambda: len(server.distinct) > 300)
        os.killpg(process.pid, signal.SIGKILL)
        ended(process)
        server._always = None
        server.released.set()
        resumed = project.cli("resume", "last", "--json", "r.json")
        report = project.report("r.json")
    assert resumed.code == 1, resumed.text
    assert report["queries"]["planned"] == report["queries"]["sent"] == planned == len(server.distinct)
    assert settled(report) == settled(expected)
    left = ("case_id", "outcome", "observed", "explanation")
    for name in (PAIRS, DIRECTIONS):
        assert cases_of(report, name).select(left) == cases_of(expected, name).select(left)


def test_one_worker_and_four_find_the_same(tmp_path):
    reports = []
    for workers in (1, 4):
        with serving(of_row) as server:
            project = new_project(tmp_path / str(workers)).fill(server, people(300), suite=SERVED, card=SENT, batch_size=16)
            reports.append(project.run("--workers", str(workers)))
    assert settled(reports[0]) == settled(reports[1])
    assert property_of(reports[0], PAIRS)["status"] == "failed"
    for name in (PAIRS, DIRECTIONS, GROUPS):
        first, second = (cases_of(report, name).drop_columns("input_uri") for report in reports)
        assert first == second


def test_private_columns_show_up_in_no_file(tmp_path):
    numbers = np.arange(7_310_000_000, 7_310_000_300)
    data = people(300).assign(ssn=[f"900-55-{n:04d}-PLANTED" for n in range(300)], code=numbers)
    suite = SERVED | {"data": SERVED["data"] | {"schema": {"ssn": {"private": True}, "code": {"private": True}}}}
    card = {"inputs": {"columns": [*SENT["inputs"]["columns"], "ssn", "code"]}}
    with serving(of_row) as server:
        project = new_project(tmp_path / "project").fill(server, data, suite=suite, card=card)
        report = project.run()
        assert any(b"900-55-0007-PLANTED" in one["body"] and b"7310000007" in one["body"] for one in server.requests)
    assert property_of(report, PAIRS)["pairs"]["turned"] > 0
    project.write("report.json", json.dumps(report))
    page = project.here("report", "last", "-o", "page.html")
    shown = project.here("show", "last", "--failures", "50")
    assert (page.code, shown.code) == (0, 0), page.text + shown.text
    texts = [shown.out.encode()]
    for path in sorted(project.folder.rglob("*")):
        if path.is_file() and path.name not in ("data.csv", "card.yaml"):
            texts.append(path.read_bytes())
            if path.suffix == ".parquet":
                texts.append(str(pq.read_table(path).to_pydict()).encode())
    for text in texts:
        assert b"PLANTED" not in text and b"73100000" not in text
