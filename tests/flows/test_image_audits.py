"""Audits of image models by the shortest way: an object and arrays in a notebook, a card and a folder on the command line."""

from __future__ import annotations

import numpy as np
import pytest
from image_models import TRAIN, classify, digits
from PIL import Image
from projects import new_project, property_of
from sklearn.datasets import load_digits

from aitest_flows import api

SEEDS = 40


class Nearest:
    classes_ = np.arange(10)

    def predict(self, images):
        assert images.dtype == np.uint8 and images.shape[1:] == (8, 8, 1)
        return np.array(classify(images[..., 0].astype(float)))


@pytest.fixture
def project(tmp_path):
    return new_project(tmp_path / "project")


def labels():
    return load_digits().target[TRAIN : TRAIN + SEEDS]


def test_an_object_and_arrays(project):
    with project.entered():
        report = api.audit(Nearest(), (digits(SEEDS)[..., 0], labels()))
    assert report.model.type == "image-classifier"
    named = {item.property: item for item in report.properties}
    assert set(named) == {"image.generalization", "image.robustness", "image.adversarial"}
    assert named["image.adversarial"].adversarial.labels_only
    assert named["image.adversarial"].cases.total == SEEDS
    assert named["image.robustness"].cases.total == 31 * SEEDS
    assert named["image.robustness"].cases.error == 0
    saturation = [gate for gate in named["image.robustness"].gates if gate.slice.get("transform") == "saturation"]
    assert {gate.verdict for gate in saturation} == {"skipped"}
    accuracy = {item.name: item.value for item in named["image.generalization"].metrics if not item.slice}["accuracy"]
    assert accuracy == pytest.approx(np.mean(np.array(classify(digits(SEEDS)[..., 0].astype(float))) == labels()))


def test_arrays_without_labels_are_judged_by_the_models_own_answers(project):
    with project.entered():
        report = api.audit(Nearest(), digits(SEEDS)[..., 0])
    found, attacked = report.properties
    assert attacked.adversarial.right == SEEDS
    assert {item.name for item in attacked.metrics} == {"attacked_accuracy", "success_rate", "median_queries"}
    assert {item.name for item in found.metrics} == {"pass_rate"}
    assert found.cases.passed + found.cases.failed > 20 * SEEDS


def test_a_card_and_a_folder(project):
    (project.folder / "nearest.py").write_text(
        "import numpy as np\n"
        "class Bright:\n"
        "    def predict(self, images):\n"
        "        return np.where(images.mean(axis=(1, 2, 3)) > 100, 'bright', 'dark')\n"
    )
    project.write("model.yaml", {"name": "bright", "type": "image-classifier", "python": {"callable": "nearest:Bright"}})
    rng = np.random.default_rng(0)
    for place in range(24):
        kind, low = ("bright", 140) if place % 2 else ("dark", 0)
        (project.folder / "photos" / kind).mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(low, low + 80, (20, 30, 3), np.uint8)
        Image.fromarray(pixels).save(project.folder / "photos" / kind / f"{place}.png")
    done = project.here("audit", "model.yaml", "photos", "--json", "report.json")
    report = project.report("report.json")
    assert done.code in (1, 4), done.text
    assert property_of(report, "image.generalization")["cases"]["passed"] == 24
    assert report["provenance"]["packages"]["torch"]
    inverse = [gate for gate in property_of(report, "image.robustness")["gates"] if gate["slice"] == {"transform": "inverse"}]
    assert inverse[0]["verdict"] == "failed"
    probed = project.here("probe", "model.yaml", "--data", "photos")
    assert probed.code == 0, probed.text
