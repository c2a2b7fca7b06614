"""Two real classifiers under the whole suite: LeNet-5 behind an HTTP server on digits, a published ResNet-20 in ONNX on CIFAR-10."""

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


def of_components(found: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [item for item in found["metrics"] if item["name"] == name and item["slice"] and set(item["slice"]) <= {"transform", "severity"}]
