"""Adversarial searches as runs: every query counted at a real server, no image beyond its ball or its budget, the same verdicts
however the work is spread."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from attack_projects import ADVERSARIAL, RADIUS, SEARCH, SEEDS, asked_of, attacked, cases, image_of, label, nearest, scores
from image_models import digits
from model_server import serving
from PIL import Image
from projects import new_project, property_of

STRONG = {"delta": 0.4, "queries": 20}


@pytest.fixture
def server():
    with serving(label, scores) as running:
        yield running


@pytest.fixture
def project(tmp_path):
    return new_project(tmp_path / "project")


def test_the_server_counts_what_the_report_says_and_a_second_run_asks_nothing(project, server):
    attacked(project, server, {"baselines": ["square"]})
    first = project.run()
    queries = first["queries"]
    assert queries["planned"] == queries["sent"] == len(server.distinct) > 5 * SEEDS
    assert server.rows == queries["sent"] + queries["sentinel"] + 1  # the probe asks its first image alone, too
    found = property_of(first, ADVERSARIAL)
    assert found["queries"]["sent"] == queries["sent"]
    curves = found["adversarial"]["curves"]
    assert [curve["method"] for curve in curves] == ["random", "square"]
    clean = len(digits(SEEDS))
    assert sum(curve["queries"] for curve in curves) + clean == queries["sent"]
    second = project.run()
    assert second["queries"]["sent"] == 0
    assert second["queries"]["cached"] == queries["sent"]
    assert cases(project, second) == cases(project, first)
    assert property_of(second, ADVERSARIAL)["metrics"] == found["metrics"]


def test_no_candidate_leaves_the_ball_and_no_seed_costs_more_than_its_budget(project, server):
    report = attacked(project, server).run()
    of, far = nearest(asked_of(server), digits(SEEDS))
    assert far.max() == RADIUS
    assert np.bincount(of, minlength=SEEDS).max() <= 1 + SEARCH["queries"]
    found = cases(project, report)
    assert {case["outcome"] for case in found} >= {"passed", "failed"}
    assert all(case["query_cost"] == SEARCH["queries"] for case in found if case["outcome"] == "passed")
    assert all(case["query_cost"] == 0 for case in found if case["outcome"] == "skipped")


def test_a_stored_image_survives_png_and_still_fools_the_model(project, server):
    report = attacked(project, server).run()
    originals = digits(SEEDS).astype(np.int16)
    broken = [case for case in project.cases(report, ADVERSARIAL).to_pylist() if case["outcome"] == "failed"]
    assert len(broken) > SEEDS / 4
    for case in broken:
        file = io.BytesIO()
        Image.fromarray(image_of(case)[..., 0]).save(file, "PNG")
        image = np.asarray(Image.open(file))[..., None]
        far = np.abs(originals - image).reshape(SEEDS, -1).max(axis=1)
        assert far.min() <= RADIUS
        assert case["distance"] == pytest.approx(far.min() / 255)
        assert str(label(image)) == case["observed"] != case["expected"] == str(label(originals[far.argmin()]))
        assert json.loads(case["params"])["norm"] == far.min()
    replayed = project.cli("replay", "last", broken[0]["case_id"])
    assert replayed.code == 0, replayed.text
    assert "NO" not in replayed.out


def test_the_verdicts_are_the_same_however_the_work_is_spread(project, server, tmp_path):
    first = cases(project, attacked(project, server).run("--workers", "1"))
    other = new_project(tmp_path / "other")
    order = np.random.default_rng(0).permutation(SEEDS)
    x, y = digits(SEEDS)[order], np.array([label(image) for image in digits(SEEDS)])[order]
    attacked(other, server, x=digits(SEEDS)[order], y=np.load(project.folder / "digits.npz")["y"][order], batch_size=1)
    assert len(x) == len(y) == SEEDS
    assert cases(other, other.run("--workers", "8")) == first


def test_figures_cases_and_curves_tell_the_same(project, server):
    report = attacked(project, server).run()
    found = property_of(report, ADVERSARIAL)
    attack, rows = found["adversarial"], cases(project, report)
    ends = [case["outcome"] for case in rows]
    assert found["cases"] == {
        "total": SEEDS,
        "passed": ends.count("passed"),
        "failed": ends.count("failed"),
        "skipped": ends.count("skipped"),
        "error": 0,
    }
    assert found["skipped"] == {"misclassified_seed": attack["wrong"]}
    assert attack["right"] + attack["wrong"] == SEEDS
    metrics = {(metric["name"], json.dumps(metric["slice"])): metric["value"] for metric in found["metrics"]}
    assert metrics["attacked_accuracy", "{}"] == ends.count("passed") / SEEDS
    assert metrics["clean_accuracy", "{}"] == attack["right"] / SEEDS
    assert metrics["success_rate", "{}"] == ends.count("failed") / attack["right"]
    needed = sorted(case["query_cost"] for case in rows if case["outcome"] == "failed")
    assert metrics["median_queries", "{}"] == attack["curves"][0]["median_queries"] == needed[(len(needed) - 1) // 2]
    for point in attack["curves"][0]["points"]:
        broken = sum(one <= point["queries"] for one in needed)
        assert point["broken"] == broken
        assert point["rate"] == broken / attack["right"]
        if point["queries"] in (10, 25, 30):
            assert metrics["success_rate", json.dumps({"queries": point["queries"]})] == point["rate"]
    assert sum(attack["norms"]) == sum(one["broken"] for one in attack["classes"]) == ends.count("failed")
    sentence = next(case["explanation"] for case in rows if case["outcome"] == "failed")
    assert "of 255 grey levels" in sentence
    assert found["gates"][0]["reason"].startswith("resisted this attack at 30 queries")
    assert "robust" not in found["gates"][0]["reason"]


def test_a_budget_leaves_out_the_last_seeds_and_its_gate_open(project, server):
    attacked(project, server, {"baselines": ["square"]})
    report = project.run("--budget", "400")
    assert report["queries"]["sent"] <= 400
    assert len(server.distinct) == report["queries"]["sent"]
    found = property_of(report, ADVERSARIAL)
    assert found["status"] == "inconclusive"
    ends = [(case["outcome"], case["reason"]) for case in cases(project, report)]
    left_out = [place for place, end in enumerate(ends) if end == ("skipped", "budget")]
    searched = [place for place, end in enumerate(ends) if end[0] in ("passed", "failed")]
    assert searched
    assert left_out
    assert min(left_out) > np.mean(searched)
    again = project.run()
    assert again["queries"]["sent"] + report["queries"]["sent"] == len(server.distinct)
    assert property_of(again, ADVERSARIAL)["status"] == "passed"


def test_a_budget_without_a_query_left_settles_what_is_known(project, server):
    first = attacked(project, server).run()
    again = project.run("--budget", "0")
    assert again["queries"]["sent"] == 0
    assert cases(project, again) == cases(project, first)


def test_a_time_limit_leaves_searches_unfinished(project, server):
    attacked(project, server, {"time_limit_s": 0.01})
    found = property_of(project.run(), ADVERSARIAL)
    assert found["status"] == "inconclusive"
    assert found["reason"].startswith("time limit: ")
    assert found["adversarial"]["stopped"] == "the time limit had passed"
    assert found["skipped"]["budget"] == found["adversarial"]["right"]


def test_labels_alone_are_enough(project):
    with serving(label) as server:
        report = attacked(project, server, {**STRONG, "baselines": None}).run()
        attack = property_of(report, ADVERSARIAL)["adversarial"]
        assert attack["labels_only"]
        assert attack["curves"][0]["broken"] > 0
        assert [curve["method"] for curve in attack["curves"]] == ["random"]  # of itself and of `square`, nothing is left


def test_a_search_that_scores_must_guide_is_skipped_where_there_are_none(project):
    with serving(label) as server:
        report = attacked(project, server, {"method": "square"}).run()
        found = property_of(report, ADVERSARIAL)
        assert found["status"] == "skipped"
        assert "square is guided by scores" in found["reason"]
        assert len(server.distinct) == SEEDS


def test_one_image_that_the_model_does_not_answer_spares_the_others(project, server):
    whole = cases(project, attacked(project, server, seeds=20).run())
    stubborn = digits(20)[3].astype(int)

    def is_noisy(row):
        far = np.abs(np.array(row).reshape(8, 8, 1) - stubborn).max()
        return 0 < far <= RADIUS

    server.bad_row, server.bad_status = is_noisy, 400
    report = attacked(project, server, seeds=20, card={"revision": "2"}, suite={"max_error_rate": 0.2}).run()
    found = cases(project, report)
    errors = [case for case in found if case["outcome"] == "error"]
    assert len(errors) == 1
    assert "gave no usable answer" in errors[0]["reason"]
    others = [case for case in found if case["outcome"] != "error"]
    assert others == [case for case in whole if case["seed_id"] != errors[0]["seed_id"]]


def test_a_model_that_answers_by_chance_is_broken_by_a_majority_only(project):
    calls = np.random.default_rng(0)

    def wavering(image):
        return label(image) if calls.random() < 0.8 else int(calls.integers(10))

    with serving(wavering) as server:
        report = attacked(project, server, {"delta": 1 / 255, "queries": 30, "method": "random"}).run()
        found = property_of(report, ADVERSARIAL)
        assert not report["model"]["deterministic"]
        assert found["adversarial"]["votes"] == 3
        # One answer in five is off, so that without the majority nearly every seed would be "broken" by 30 queries.
        assert found["adversarial"]["curves"][0]["broken"] < 0.9 * found["adversarial"]["right"]
        assert "majority" in found["explanation"]
        of, _ = nearest(asked_of(server), digits(SEEDS))
        assert np.bincount(of).max() <= 1 + 30


def test_equal_images_are_asked_once_whatever_the_workers(project, server):
    """What one chunk asks no other one asks: sixteen copies of three digits make the same candidates."""
    x = digits(12)[np.tile([0, 4, 8], 16)]
    y = np.array([label(image) for image in x])
    report = attacked(project, server, {"method": "sign_hunter", "queries": 12}, x=x, y=y).run("--workers", "8")
    queries = report["queries"]
    assert queries["sent"] == queries["planned"] == len(server.distinct) < 3 * 13 + 1
    assert server.rows - queries["sentinel"] <= queries["sent"] + 50  # the probe asks its rows again, copies among them


def test_gates_on_what_there_is_not(project, server):
    for gates, says in (
        ({"median_queries": {"min": 3, "slice": {"queries": 10}}}, "name queries alone"),
        ({"attacked_accuracy": {"min": 0.1, "slice": {"queries": 10, "label": 3}}}, "name queries alone"),
        ({"success_rate": {"max": 0.1, "slice": {"label": 3}}}, "put the gate on attacked_accuracy"),
    ):
        attacked(project, server, gates=gates)
        refused = project.here("run", "suite.yaml")
        assert refused.code == 2
        assert says in refused.err
    assert not server.distinct
