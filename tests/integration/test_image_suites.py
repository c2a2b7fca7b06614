"""Two real classifiers under the whole suite: LeNet-5 behind an HTTP server on digits, a ResNet-20 in ONNX on CIFAR-10."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from http_app import Request, app
from PIL import Image
from projects import new_project, property_of

from aitest_lib.demo.digits import DigitsModel

SHARED = Path(os.environ.get("AITEST_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data"))
SEEDS, LEVELS = 200, [1, 3, 5]
GRADED = (
    *("scale", "rotate", "shear", "saturation", "brightness", "contrast"),
    *("fog", "gaussian_blur", "zoom_blur", "gaussian_noise"),
)
ELEVEN = [{"name": "inverse"}, *({"name": name, "severity": LEVELS} for name in GRADED)]
COMPONENTS = 1 + len(GRADED) * len(LEVELS)
CIFAR = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
ROBUSTNESS = "image.robustness"
pytestmark = pytest.mark.shared


def shared(name: str) -> Path:
    if not (SHARED / name).exists():
        pytest.skip(f"needs {name} in {SHARED}")
    return SHARED / name


@pytest.fixture(scope="module")
def lenet() -> Iterator[str]:
    """The address of a LeNet-5 that takes the PNG of one digit."""
    model = DigitsModel()

    def answer(request: Request) -> dict[str, Any]:
        with Image.open(io.BytesIO(request.body)) as opened:
            scores = model.predict_proba(np.asarray(opened)[None, ..., None])[0]
        return {"digit": int(scores.argmax()), "scores": scores.tolist()}

    with app({"POST /digit": answer}) as running:
        yield f"{running.url}/digit"


def run(folder: Path, card: dict[str, Any], data: Path) -> tuple[Any, dict[str, Any]]:
    project = new_project(folder)
    project.write("card.yaml", {"revision": "1", "type": "image-classifier"} | card)
    gates = {"pass_rate": {"min": 0.9}, "robust_accuracy": {"min": 0.5}}
    suite = {
        "suite": card["name"],
        "random_seed": 7,
        "model": {"card": "card.yaml"},
        "data": {"test": str(data), "sample": SEEDS},
        "properties": [
            {"property": "image.generalization"},
            {"property": ROBUSTNESS, "transforms": ELEVEN, "gates": gates},
        ],
    }
    project.write("suite.yaml", suite)
    return project, project.run()


@pytest.fixture(scope="module")
def digits(lenet: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, dict[str, Any]]:
    endpoint = {"url": lenet, "body": "raw", "batch_size": 1, "response": {"labels": "digit", "scores": "scores"}}
    card = {"name": "lenet", "classes": list(range(10)), "inputs": {"image": {"size": [28, 28], "channels": 1}}}
    data = shared("mnist_t10k.npz")
    return run(tmp_path_factory.mktemp("digits"), card | {"endpoint": endpoint}, data)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, dict[str, Any]]:
    card = {"name": "resnet", "classes": CIFAR, "onnx": str(shared("cifar10_resnet20.onnx"))}
    return run(tmp_path_factory.mktemp("photos"), card, shared("cifar10_test1000.npz"))


def by_component(report: dict[str, Any], name: str) -> dict[tuple[str, int | None], dict[str, Any]]:
    """A metric by transform and severity."""
    metrics = [item for item in property_of(report, ROBUSTNESS)["metrics"] if item["name"] == name]
    return {(item["slice"]["transform"], item["slice"].get("severity")): item for item in metrics if item["slice"]}


@pytest.mark.parametrize("which", ["digits", "photos"])
def test_every_transform_and_strength_stands_beside_the_clean_accuracy(which: str, request: pytest.FixtureRequest):
    _, report = request.getfixturevalue(which)
    accuracy, clean, passed = (by_component(report, name) for name in ("accuracy", "clean_accuracy", "pass_rate"))
    assert len(accuracy) == COMPONENTS == 31
    assert accuracy.keys() == clean.keys() == passed.keys() == {("inverse", None)} | {(n, s) for n in GRADED for s in LEVELS}
    [whole] = [item["value"] for item in property_of(report, "image.generalization")["metrics"] if item["name"] == "accuracy"]
    assert whole > (0.95 if which == "digits" else 0.7)
    for key, item in accuracy.items():
        if which == "digits" and key[0] == "saturation":
            continue
        assert 0 <= item["low"] <= item["value"] <= item["high"] <= 1, key
        assert item["low"] < item["high"], key
        assert item["n"] == clean[key]["n"] <= SEEDS, key
        if item["n"] == SEEDS:
            assert clean[key]["value"] == pytest.approx(whole)
    for worst in (("inverse", None), ("scale", 5)):
        assert accuracy[worst]["high"] < accuracy["scale", 1]["low"]
    found = property_of(report, ROBUSTNESS)
    assert report["queries"]["errors"] == found["cases"]["error"] == 0
    assert found["cases"]["total"] == COMPONENTS * SEEDS
    assert sum(found["cases"][outcome] for outcome in ("passed", "failed", "skipped")) == COMPONENTS * SEEDS


def test_grey_digits_have_no_saturation(digits: tuple[Any, dict[str, Any]]):
    project, report = digits
    cases = project.cases(report, ROBUSTNESS).to_pylist()
    ended = [(case["outcome"], case["reason"]) for case in cases if case["transform"] == "saturation"]
    assert ended == [("skipped", "not_applicable")] * (len(LEVELS) * SEEDS)
    assert {case["transform"] for case in cases if case["reason"] == "not_applicable"} == {"saturation"}
    gates = property_of(report, ROBUSTNESS)["gates"]
    told = {(gate["verdict"], gate["reason"]) for gate in gates if gate["slice"]["transform"] == "saturation"}
    assert told == {("skipped", "not applicable to any image of the data")}
    assert "skipped" not in {gate["verdict"] for gate in gates if gate["slice"]["transform"] != "saturation"}
    for name in ("accuracy", "clean_accuracy", "pass_rate"):
        for level in LEVELS:
            item = by_component(report, name)["saturation", level]
            assert (item["value"], item["n"]) == (None, 0)
            assert item["reason"] == "not applicable to any image of the data"


def test_photos_have_one(photos: tuple[Any, dict[str, Any]]):
    project, report = photos
    cases = [case for case in project.cases(report, ROBUSTNESS).to_pylist() if case["transform"] == "saturation"]
    counted = [case for case in cases if case["outcome"] in ("passed", "failed")]
    assert len(counted) > 0.7 * len(LEVELS) * SEEDS
    assert "failed" in {case["outcome"] for case in counted}
    verdicts = {gate["verdict"] for gate in property_of(report, ROBUSTNESS)["gates"]}
    assert "skipped" not in verdicts


@pytest.mark.parametrize("which", ["digits", "photos"])
def test_the_page_has_the_table(which: str, request: pytest.FixtureRequest):
    project, report = request.getfixturevalue(which)
    made = project.here("report", "last", "-o", "page.html")
    assert made.code == 0, made.text
    page = (project.folder / "page.html").read_text(encoding="utf-8")
    for name in ("inverse", *GRADED):
        assert f'<th scope="row">{name}</th>' in page
    untested = page.count("Not tested: ")
    assert untested == (1 if which == "digits" else 0)
    worst = by_component(report, "accuracy")["scale", 5]["value"]
    assert f"{worst:.3f}" in page
    assert page.count("data:image/png;base64,") > 20
