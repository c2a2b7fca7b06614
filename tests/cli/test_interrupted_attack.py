"""A search that is killed in the middle, and one that two processes share: nothing is asked twice but a step in flight."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest
from attack_projects import ADVERSARIAL, SEEDS, attacked, cases, label, scores
from model_server import serving
from pool_workers import pool_workers
from projects import ended, is_calm, new_project, property_of, until

SEARCH = {"queries": 40, "baselines": ["square"]}


@pytest.fixture
def slow_server():
    with serving(label, scores) as running:
        running.pause_s = 0.004

        def slowly(image):
            time.sleep(running.pause_s)
            return label(image)

        running.label = slowly
        yield running


@pytest.fixture
def expected(tmp_path, slow_server):
    """The report and the cases of a run that nothing disturbs."""
    project = attacked(new_project(tmp_path / "whole"), slow_server, SEARCH)
    report = project.run()
    found = report, cases(project, report)
    slow_server.distinct.clear()
    slow_server.rows = 0
    return found


def test_a_killed_search_is_taken_up_where_it_was(tmp_path, slow_server, expected):
    report, rows = expected
    planned = report["queries"]["planned"]
    project = attacked(new_project(tmp_path / "killed"), slow_server, SEARCH)
    process = project.start("run", "suite.yaml")
    assert until(lambda: len(slow_server.distinct) > planned / 2 or process.poll() is not None, 120)
    os.killpg(process.pid, signal.SIGKILL)
    ended(process)
    resumed = project.cli("resume", "last", "--json", "r.json")
    assert resumed.code == 0, resumed.text
    assert is_calm(resumed.text)
    again = project.report("r.json")
    assert again["queries"]["planned"] == again["queries"]["sent"] == len(slow_server.distinct) == planned
    assert cases(project, again) == rows
    assert property_of(again, ADVERSARIAL)["metrics"] == property_of(report, ADVERSARIAL)["metrics"]
    # Those twice: what the probe asked again, and the images of the steps that were in flight in its four threads.
    assert slow_server.rows - planned <= again["queries"]["sentinel"] + 1 + SEEDS


@pytest.mark.slow
def test_two_workers_share_the_images(tmp_path, slow_server, expected):
    _, rows = expected
    slow_server.pause_s = 0.03  # so that it is worth a helper's start
    project = attacked(new_project(tmp_path / "spread"), slow_server, SEARCH, concurrency=4)
    with pool_workers(project, 2) as pool:
        process = project.start("run", "suite.yaml", "--on", pool.name, "--workers", "2", "--json", "r.json")
        out, err = process.communicate(timeout=240)
    assert process.returncode == 0, out + err
    again = project.report("r.json")
    assert cases(project, again) == rows
    assert again["queries"]["planned"] == again["queries"]["sent"] == len(slow_server.distinct)
    [folder] = (project.store / "runs").glob("*")
    plans = [json.loads(path.read_text()) for path in folder.glob("plans/*/plan.json")]
    assert {plan["kind"] for plan in plans} == {"query", "attack"}
    takers = {json.loads(path.read_text())["by"] for path in folder.glob("plans/*/taken/[!.]*")}
    assert len(takers) >= 2
