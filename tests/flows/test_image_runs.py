"""Runs on images: everything asked once, the same cases whatever the order and the batches, breaking points, chains, files
that cannot be read."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from image_models import classify, digits
from image_projects import ROBUSTNESS, SEEDS, SWEEP, as_files, filled, label, labels, rows
from model_server import serving
from PIL import Image
from projects import new_project, property_of

from aitest_lib.transforms.image.geometry import Rotate
from aitest_tasks import querying


@pytest.fixture
def server():
    with serving(label) as running:
        yield running


@pytest.fixture
def project(tmp_path):
    return new_project(tmp_path / "project")


def test_every_image_is_asked_once_and_a_second_run_asks_sentinels_only(project, server):
    filled(project, server)
    first = project.run()
    distinct = len(server.distinct)
    assert first["queries"]["planned"] == first["queries"]["sent"] == distinct > 4 * SEEDS
    assert first["queries"]["errors"] == 0
    second = project.run()
    assert second["queries"]["sent"] == 0
    assert second["queries"]["sentinel"] == 50
    assert len(server.distinct) == distinct
    assert rows(project, second) == rows(project, first)


def test_ids_and_verdicts_are_the_same_whatever_the_order_the_batches_the_workers_and_the_form_of_the_data(
    project, server, tmp_path
):
    first = project_rows = rows(project, filled(project, server).run())
    shuffled = np.random.default_rng(0).permutation(SEEDS)
    other = new_project(tmp_path / "other")
    filled(other, server, x=digits(SEEDS)[shuffled], y=labels()[shuffled], batch_size=1)
    assert rows(other, other.run("--workers", "1")) == first
    files = new_project(tmp_path / "files")
    filled(files, server)
    as_files(files)
    assert rows(files, files.run("--workers", "8")) == project_rows


def test_an_image_of_a_case_is_its_seed_transformed(project, server):
    report = filled(project, server).run()
    case = next(
        row
        for row in project.cases(report, ROBUSTNESS).to_pylist()
        if row["transform"] == "rotate" and row["outcome"] == "failed" and row["strength"] == 30
    )
    uri, _, place = case["input_uri"].rpartition("#")
    stored = pq.read_table(uri.removeprefix("file://")).slice(int(place), 1).to_pylist()[0]
    image = np.frombuffer(stored["pixels"], np.uint8).reshape(stored["height"], stored["width"], stored["channels"])
    assert str(label(image)) == case["observed"] != case["expected"]
    turned = Rotate(degrees=30).apply(digits(SEEDS), [{"degrees": 30.0}] * SEEDS)
    assert any(np.array_equal(one, image) for one in turned)
    assert case["explanation"].startswith("rotated by 30°")
    assert 0 < case["distance"] < 1


def test_what_a_transform_leaves_alone_leaves_the_denominator(project, server):
    report = filled(project, server, [{"name": "saturation", "severity": [1, 5]}, {"name": "rotate", "degrees": 0.0}]).run()
    cases = project.cases(report, ROBUSTNESS).to_pylist()
    ended = {(case["transform"], case["outcome"], case["reason"]) for case in cases}
    assert ended == {("saturation", "skipped", "not_applicable"), ("rotate", "skipped", "no_op")}
    found = property_of(report, ROBUSTNESS)
    assert all(item["n"] == 0 and item["value"] is None for item in found["metrics"] if item["name"] == "pass_rate")
    assert report["queries"]["sent"] == SEEDS


def test_a_breaking_point_is_the_smallest_failing_level_of_the_grid(project, server):
    search = {"name": "rotate", "strength": "breaking_point", "degrees": 64.0}
    report = filled(project, server, [search]).run()
    cases = project.cases(report, ROBUSTNESS).to_pylist()
    assert len(cases) == SEEDS
    by_seed = {case["seed_id"]: case for case in cases}
    x = digits(SEEDS)
    clean = classify(x[..., 0].astype(float))
    grid = np.array(
        [
            classify(Rotate(degrees=float(d)).apply(x, [{"degrees": float(d)}] * SEEDS)[..., 0].astype(float))
            for d in range(1, 65)
        ]
    )
    seeds = filled_ids(project, report)
    right = agree = failing = 0
    for place, digit in enumerate(labels()):
        case = by_seed[seeds[x[place].tobytes()]]
        if clean[place] != digit:
            assert case["reason"] == "misclassified_seed"
            continue
        right += 1
        broken = np.flatnonzero(grid[:, place] != clean[place])
        assert case["outcome"] == ("failed" if case["strength"] is not None else "passed")
        if len(broken):
            failing += 1
            agree += case["strength"] == broken[0] + 1
        else:
            assert case["outcome"] == "passed"
        assert case["query_cost"] <= 16
    assert right > 40
    assert agree >= 0.95 * failing > 20
    [points] = property_of(report, ROBUSTNESS)["breaking_points"]
    assert sum(points["counts"]) + points["unbroken"] == right
    assert points["unit"] == "degrees"
    assert report["queries"]["sent"] == len(server.distinct)
    metrics = {item["name"]: item for item in property_of(report, ROBUSTNESS)["metrics"]}
    assert metrics["unbroken_rate"]["value"] == pytest.approx(points["unbroken"] / right)
    assert metrics["median_breaking_point"]["low"] <= metrics["median_breaking_point"]["value"]


def filled_ids(project, report):
    """Seed id by the bytes of the image, from the cases of generalization."""
    found = {}
    for case in project.cases(report, "image.generalization").to_pylist():
        uri, _, place = case["input_uri"].rpartition("#")
        found[pq.read_table(uri.removeprefix("file://")).column("pixels")[int(place)].as_py()] = case["seed_id"]
    return found


def test_a_failing_chain_is_attributed_to_its_links(project, server):
    chain = {"compose": [{"name": "rotate", "degrees": 40.0}, {"name": "brightness", "delta": 0.01}]}
    report = filled(project, server, [chain]).run()
    found = property_of(report, ROBUSTNESS)
    turned = {item["link"]: (item["turned"], item["of"]) for item in found["attributions"]}
    failed = found["cases"]["failed"]
    assert failed > 10
    assert turned["brightness"][1] == turned["rotate"][1] == failed
    assert turned["rotate"][0] > 0.9 * failed > turned["brightness"][0]
    assert report["queries"]["sent"] == len(server.distinct)


def test_files_that_cannot_be_read_are_listed_and_nothing_is_lost(project, server):
    filled(project, server)
    folder = as_files(project)
    (folder / "3" / "empty.png").write_bytes(b"")
    (folder / "4" / "text.png").write_text("no image")
    Image.fromarray(np.zeros((9, 8), np.uint8)).save(folder / "5" / "tall.png")
    report = project.run()
    assert report["provenance"]["unreadable"] == 3
    assert report["provenance"]["seeds"] == SEEDS
    listed = {item["place"]: item["reason"] for item in report["unreadable"]}
    assert set(listed) == {"3/empty.png", "4/text.png", "5/tall.png"}
    assert "9×8" in listed["5/tall.png"]


def test_images_of_several_sizes_are_asked_size_by_size(project, server):
    sizes = [(8, 8), (8, 8, 3)]
    images = []
    for place, image in enumerate(digits(SEEDS)):
        images.append(np.repeat(image, 3, axis=2) if place % 3 == 0 else image[..., 0])
    with serving(lambda image: label(np.array(image)[..., 0] if np.ndim(image) == 3 else image)) as mixed:
        filled(project, mixed, card={"inputs": {"image": {"range": [0, 255]}}})
        as_files(project, images)
        report = project.run()
        shapes = {np.shape(row) for request in mixed.requests for row in json.loads(request["body"])["rows"]}
        assert shapes == set(sizes)
        assert len({np.shape(row) for row in json.loads(mixed.requests[-1]["body"])["rows"]}) == 1
    assert report["queries"]["errors"] == 0
    assert report["provenance"]["seeds"] == SEEDS
    skipped = property_of(report, ROBUSTNESS)["cases"]["skipped"]
    assert skipped == property_of(report, ROBUSTNESS)["skipped"]["misclassified_seed"]


def test_a_budget_leaves_out_cases_and_says_so(project, server):
    report = filled(project, server, [*SWEEP, {"name": "rotate", "strength": "breaking_point"}]).run("--budget", "200")
    assert report["queries"]["sent"] == 200 == len(server.distinct)
    assert property_of(report, ROBUSTNESS)["status"] in ("inconclusive", "failed")
    assert not any(gate["verdict"] == "passed" for gate in property_of(report, ROBUSTNESS)["gates"])
    assert property_of(report, ROBUSTNESS)["skipped"]["budget"] > 0


def test_replay_sends_the_stored_image_again(project, server):
    report = filled(project, server).run()
    case = next(row for row in rows(project, report) if row["outcome"] == "failed")
    before = len(server.distinct)
    found = project.here("replay", "last", case["case_id"])
    assert found.code == 0, found.text
    assert "REPRODUCES" in found.out
    assert len(server.distinct) == before


def test_two_runs_are_compared_case_by_case(project, server, tmp_path):
    filled(project, server)
    project.run()
    project.change("card.yaml", revision="2")
    project.run()
    runs = sorted((project.store / "runs").iterdir(), key=lambda path: path.stat().st_mtime)
    found = project.here("compare", runs[0].name, runs[1].name, "--format", "json")
    assert found.code == 0, found.text
    assert '"new": 0' in found.out
    assert '"gone": 0' in found.out


def test_bad_transforms_are_told_with_their_place(project, server):
    for transforms, expected in (
        ([{"name": "rotate", "degrees": 5, "severity": 2}], "got severity and degrees"),
        ([{"name": "rotate", "severity": 7}], "severity"),
        ([{"name": "rotat", "degrees": 5}], "rotate"),
        ([{"name": "inverse", "strength": "breaking_point"}], "no single strength"),
        ([{"compose": ["rotate"]}], "at least two"),
        ([{"compose": ["rotate", "invert"]}], "inverse"),
        ([{"name": "compose", "parts": []}], "write a chain as"),
        ([{"name": "numeric_noise"}], "numeric_noise"),
    ):
        filled(project, server, transforms)
        found = project.here("run", "suite.yaml")
        assert found.code == 2, found.text
        assert "suite.yaml" in found.err
        assert expected in found.err, found.err
    assert server.calls == 0


def test_errors_are_told_as_a_share_of_a_baseline_runs(project, server):
    filled(project, server)
    first = project.run()
    whole = {"property": ROBUSTNESS, "transforms": SWEEP, "baseline_run": first["run_id"][:12]}
    project.change("suite.yaml", properties=[whole], random_seed=7)
    again = project.run()
    found = {item["name"]: item for item in property_of(again, ROBUSTNESS)["metrics"]}["mean_corruption_error"]
    assert found["value"] == pytest.approx(1)
    assert found["low"] < 1 < found["high"]
    assert again["queries"]["sent"] == 0
    project.change("suite.yaml", properties=[whole | {"baseline_run": "nonesuch"}])
    done = project.here("run", "suite.yaml")
    assert done.code == 2
    assert "properties[0].baseline_run: got RUN 'nonesuch'" in done.err


def test_without_torch_nothing_is_asked(project, server, monkeypatch):
    from aitest_flows import runner

    filled(project, server)
    monkeypatch.setattr(runner, "find_spec", lambda name: None)
    done = project.here("run", "suite.yaml")
    assert done.code == 2
    assert "transforms of images need torch" in done.err
    assert "aitest[image]" in done.err
    assert server.calls == 0


def test_a_shard_is_asked_in_loads_of_its_images(project, server, tmp_path, monkeypatch):
    whole = rows(project, filled(project, server, batch_size=16).run("--workers", "1"))
    calls = server.calls
    monkeypatch.setattr(querying, "LOAD_BYTES", 64)  # one image: every part of a plan is a load of its own
    other = new_project(tmp_path / "other")
    report = filled(other, server, batch_size=16).run("--workers", "1")
    assert rows(other, report) == whole
    assert report["queries"]["sent"] == report["queries"]["planned"]
    assert server.calls - calls >= calls


def test_strengths_without_an_answer_buy_no_pass(project, server):
    server.bad_row = lambda image: np.mean(image) > 130  # the brighter ones are never answered
    search = {"name": "brightness", "strength": "breaking_point", "delta": 0.8}
    filled(project, server, [search], batch_size=1, retries=0)
    whole = {"property": ROBUSTNESS, "transforms": [search], "gates": {"unbroken_rate": {"min": 0.5}}}
    project.change("suite.yaml", properties=[whole])
    report = project.run()
    found = property_of(report, ROBUSTNESS)
    assert found["cases"]["error"] > SEEDS / 2
    assert found["cases"]["passed"] == 0
    assert found["status"] == "error"
    assert "some of the strengths" in next(iter(found["errors"]))


@pytest.mark.parametrize("budget", [100, 500, 700])
def test_a_budget_that_ends_within_a_search_ends_the_search(project, server, budget):
    searches = [{"name": name, "strength": "breaking_point"} for name in ("rotate", "shear")]
    report = filled(project, server, searches).run("--budget", str(budget))
    assert report["queries"]["sent"] <= budget
    assert len(server.distinct) <= budget
    found = property_of(report, ROBUSTNESS)
    assert found["skipped"]["budget"] > 0
    assert found["skipped"].get("misclassified_seed", 0) == 2 * sum(
        1 for place, image in enumerate(digits(SEEDS)) if label(image) != labels()[place]
    )
