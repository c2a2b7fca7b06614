"""The same suite of images everywhere a run can be: in a bucket, on the workers of a pool, killed and resumed, on a store
that has lost images."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path

import pytest
from image_projects import ROBUSTNESS, as_files, filled, label, rows
from model_server import serving
from pool_workers import pool_workers
from projects import ended, is_calm, new_project, property_of, until
from s3_server import s3_server

from aitest_lib.answers import read_book
from aitest_lib.artifacts.store import Store

EVERY_KIND = [
    {"name": "rotate", "degrees": [10, 30]},
    {"name": "gaussian_noise", "severity": 5},
    {"name": "brightness", "strength": "breaking_point"},
    {"compose": [{"name": "rotate", "degrees": 60.0}, {"name": "brightness", "delta": 0.01}]},
]
CALL = {"batch_size": 8, "concurrency": 2}
KEPT = ("case_id", "seed_id", "expected", "observed", "outcome", "reason", "explanation", "distance", "query_cost")


def slowly(seconds):
    def answer(image):
        time.sleep(seconds)
        return label(image)

    return answer


@pytest.fixture(scope="module")
def endpoint():
    with serving(label) as server:
        yield server


@pytest.fixture
def server(endpoint):
    endpoint.distinct.clear()
    endpoint.rows = 0
    endpoint.label = label
    return endpoint


@pytest.fixture(scope="module")
def alone(endpoint, tmp_path_factory):
    """A run in one process on a store in a folder: project and report."""
    project = filled(new_project(tmp_path_factory.mktemp("alone") / "project"), endpoint, EVERY_KIND, **CALL)
    return project, project.run()


@pytest.fixture(scope="module")
def s3():
    return s3_server()


def in_a_bucket(project, s3):
    project.env |= s3.environment() | {"AITEST_STORE": s3.prefix()}
    return project


def cases(project, report, s3=None):
    return rows(project, report, KEPT, s3 and s3.client())


def findings(report):
    """What a run says of the model, without where and when."""
    found = property_of(report, ROBUSTNESS)
    return [report["status"], *(found[key] for key in ("metrics", "gates", "cases", "breaking_points", "attributions"))]


def test_a_bucket_and_a_folder_give_the_same_and_another_machine_asks_nothing(alone, server, s3, tmp_path):
    project, expected = alone
    bucket = in_a_bucket(filled(new_project(tmp_path / "bucket"), server, EVERY_KIND, **CALL), s3)
    first = bucket.run()
    assert first["queries"] == expected["queries"]
    assert findings(first) == findings(expected)
    assert cases(bucket, first, s3) == cases(project, expected)
    assert not bucket.store.exists()
    asked = len(server.distinct)
    assert asked == first["queries"]["planned"]
    other = in_a_bucket(filled(new_project(tmp_path / "other"), server, EVERY_KIND, **CALL), s3)
    other.env["AITEST_STORE"] = bucket.env["AITEST_STORE"]
    second = other.run()
    assert (second["queries"]["sent"], second["queries"]["sentinel"]) == (0, 50)
    assert len(server.distinct) == asked
    assert findings(second) == findings(first)
    assert cases(other, second, s3) == cases(bucket, first, s3)
    page = other.here("report", first["run_id"], "-o", "page.html")
    assert page.code == 0, page.text
    assert "data:image/png" in (other.folder / "page.html").read_text(), "no image of the bucket is on the page"


@pytest.mark.slow  # two minutes: every flow run on a pool boots a process
def test_two_workers_share_a_run_on_a_folder_that_they_cannot_see(alone, server, s3, tmp_path):
    whole, expected = alone
    server.label = slowly(0.3)
    project = in_a_bucket(filled(new_project(tmp_path / "project"), server, EVERY_KIND, **CALL), s3)
    folder = as_files(project)
    store, client = project.env["AITEST_STORE"].removeprefix("s3://"), s3.client()

    def takers():
        return {json.loads(client.cat_file(path))["by"] for path in client.glob(f"{store}/runs/*/plans/*/taken/*")}

    with pool_workers(project, 2) as pool:
        process = project.start("run", "suite.yaml", "--on", pool.name, "--workers", "2", "--json", "report.json")
        assert until(
            lambda: any(path.endswith("/.complete") for path in client.find(f"{store}/data")) or process.poll() is not None
        )
        shutil.move(folder, tmp_path / "elsewhere")
        assert until(lambda: len(takers()) > 1 or process.poll() is not None, 120)
        server.label = label
        found = ended(process)
    assert found.code == 1, found.text
    assert is_calm(found.text)
    report = project.report("report.json")
    assert cases(project, report, s3) == cases(whole, expected)
    assert findings(report) == findings(expected)
    assert len(takers()) > 1, "nobody helped"
    queries = report["queries"]
    assert queries["planned"] == queries["sent"] == len(server.distinct) == expected["queries"]["planned"]
    assert server.rows <= queries["sent"] + queries["sentinel"] + 1  # the probe asks its first image alone, too


@pytest.mark.slow
def test_a_run_that_is_killed_among_its_cases_is_resumed(alone, server, tmp_path):
    whole, expected = alone
    planned = expected["queries"]["planned"]
    server.label = slowly(0.02)
    project = filled(new_project(tmp_path / "project"), server, EVERY_KIND, **CALL)
    process = project.start("run", "suite.yaml")
    assert until(lambda: len(server.distinct) > planned / 2 or process.poll() is not None)
    os.killpg(process.pid, signal.SIGKILL)
    ended(process)
    kept, asked = answered(project), server.rows
    assert 0 < kept < planned
    assert "INTERRUPTED" in project.here("status").out
    server.label = label
    resumed = project.cli("resume", "last", "--json", "report.json")
    assert resumed.code == 1, resumed.text
    assert is_calm(resumed.text)
    report = project.report("report.json")
    assert server.rows - asked == planned - kept
    assert report["queries"]["planned"] == report["queries"]["sent"] == planned == len(server.distinct)
    assert cases(project, report) == cases(whole, expected)
    assert findings(report) == findings(expected)


def answered(project):
    store = Store(str(project.store))
    [digest] = store.folders("answers")
    return len(read_book(store, [f"answers/{digest}/1"]).digests)


def test_images_that_are_gone_or_damaged_are_made_again(alone, server):
    project, expected = alone
    before = pictured(project, expected)
    paths = sorted({Path(uri.rpartition("#")[0].removeprefix("file://")) for _, uri in before})
    stored = {path: path.read_bytes() for path in paths}
    assert len(paths) > 5
    for place, path in enumerate(paths):
        if place % 2:
            path.unlink()
        else:
            path.write_bytes(b"damaged")
    again = project.run()
    assert again["queries"]["sent"] == 0
    assert findings(again) == findings(expected)
    assert pictured(project, again) == before
    assert {path: path.read_bytes() for path in paths} == stored


def pictured(project, report):
    """Every case and where its image is, seeds included."""
    tables = [project.cases(report, name) for name in ("image.generalization", ROBUSTNESS)]
    return [(row["case_id"], row["input_uri"]) for table in tables for row in table.to_pylist()]
