"""What attack libraries are known to trip over, as runs: odd models, odd images, odd budgets."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from attack_projects import ADVERSARIAL, SEARCH, attacked, cases, image_of, label, nearest, scores
from image_models import digits
from image_projects import labels
from model_server import serving
from projects import new_project, property_of

HERE = Path(__file__).parent.parent / "support"


@pytest.fixture
def project(tmp_path):
    return new_project(tmp_path / "project")


def found_in(project, report):
    return property_of(report, ADVERSARIAL), cases(project, report)


def test_misclassified_seeds_are_left_alone(project):
    wrong = (labels(30) + 1) % 10
    with serving(label, scores) as server:
        report = attacked(project, server, y=np.where(np.arange(30) < 10, wrong, labels(30)), seeds=30).run()
        found, rows = found_in(project, report)
    skipped = [case for case in rows if case["reason"] == "misclassified_seed"]
    assert len(skipped) >= 10
    assert all(case["query_cost"] == 0 for case in skipped)
    assert found["adversarial"]["right"] == 30 - len(skipped)


def test_where_every_seed_is_wrong_there_is_nothing_to_attack(project):
    with serving(label, scores) as server:
        report = attacked(project, server, y=(np.array([label(one) for one in digits(12)]) + 1) % 10, seeds=12).run()
        found, _ = found_in(project, report)
        assert len(server.distinct) == 12
    assert found["skipped"] == {"misclassified_seed": 12}
    assert found["status"] in ("failed", "inconclusive")
    assert "nothing to attack" in found["explanation"]


def searched_by(methods, **search):
    """A suite with one search by each method."""
    return {"properties": [{"property": ADVERSARIAL, "search": SEARCH | search | {"method": one}} for one in methods]}


def all_cases(report):
    """The cases of all properties."""
    files = [found["artifacts"]["cases"].removeprefix("file://") for found in report["properties"]]
    return [case for file in files for case in pq.read_table(file).to_pylist()]


def test_a_budget_smaller_than_one_step(project):
    methods = ("auto", "bayesian", "rays", "square", "sign_hunter", "random")
    with serving(label, scores) as server:
        report = attacked(project, server, seeds=12, suite=searched_by(methods, queries=1)).run()
        assert len(server.distinct) == report["queries"]["sent"] <= 12 * (1 + len(methods))
    assert [found["adversarial"]["method"] for found in report["properties"]] == list(methods)
    for found in report["properties"]:
        assert found["cases"]["error"] == 0
    assert {case["query_cost"] for case in all_cases(report) if case["outcome"] != "skipped"} == {1}


def test_an_image_without_a_starting_point_is_resisted(project):
    """A model that nothing turns: a search that needs an adversarial image to start from has none, and says so in time."""
    with serving(lambda image: 3, lambda image: [0.01] * 3 + [0.91] + [0.01] * 6) as server:
        report = attacked(project, server, {"method": "rays", "queries": 25}, y=np.array([3] * 7 + [4]), seeds=8).run()
        found, rows = found_in(project, report)
    assert found["cases"]["passed"] == 7
    assert found["status"] == "passed"
    assert all("Resisted this attack" in case["explanation"] for case in rows if case["outcome"] == "passed")


def test_rectangular_images_in_colour(project):
    rng = np.random.default_rng(0)
    x = rng.integers(90, 160, (8, 12, 7, 3), dtype=np.uint8)
    means = x.astype(float).mean(axis=(1, 2, 3))
    middle = float(np.median(means))

    def bright(image):
        return "bright" if np.mean(image) > middle else "dark"

    def sure(image):
        likely = 1 / (1 + np.exp(-(np.mean(image) - middle) / 4))
        return [float(likely), float(1 - likely)]

    with serving(bright, sure) as server:
        y = np.where(means > middle, "bright", "dark")
        card = {"classes": ["bright", "dark"]}
        suite = searched_by(["auto", "sign_hunter", "square"], delta=0.1)
        report = attacked(project, server, x=x, y=y, card=card, suite=suite).run()
    auto, sign_hunter, square = (found["adversarial"]["curves"][0] for found in report["properties"])
    assert auto["broken"] == sign_hunter["broken"] == auto["attacked"] == 8
    assert square["broken"] > 4
    for case in all_cases(report):
        image = image_of(case)
        assert image.shape == (12, 7, 3)
        _, far = nearest(image[None].astype(np.int16), x)
        assert far[0] <= 25


def test_one_score_of_two_classes_guides_a_search(project):
    likely = 0.4 + 0.2 * (digits(20).mean(axis=(1, 2, 3)) > 75)

    def score(image):
        return float(1 / (1 + np.exp(-(np.mean(image) - 75) / 8)))

    with serving(lambda image: int(np.mean(image) > 75), score) as server:
        y = (likely > 0.5).astype(int)
        card = {"classes": [0, 1]}
        report = attacked(project, server, {"method": "sign_hunter", "queries": 10}, y=y, seeds=20, card=card).run()
        found, _ = found_in(project, report)
    assert not found["adversarial"]["labels_only"]
    assert found["adversarial"]["curves"][0]["broken"] > 10


def test_a_network_in_double_precision(project):
    attacked_card = {
        "name": "double",
        "revision": "1",
        "type": "image-classifier",
        "classes": list(range(10)),
        "inputs": {"image": {"size": [8, 8], "channels": 1}},
        "python": {"callable": "image_models:DoubleModel", "path": [str(HERE)]},
    }
    with serving(label, scores) as server:
        attacked(project, server, {"delta": 0.4}, seeds=20)
    project.write("card.yaml", attacked_card)
    found, rows = found_in(project, project.run())
    assert found["cases"]["error"] == 0
    assert not found["adversarial"]["labels_only"]
    assert found["adversarial"]["curves"][0]["broken"] > 0
    assert all(json.loads(params)["norm"] <= 102 for params in project.cases(project.run(), ADVERSARIAL)["params"].to_pylist())
    assert len(rows) == 20
