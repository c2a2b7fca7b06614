"""Projects with an adversarial search on small digits, and what the served model saw of it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from image_models import digits, logits
from image_projects import label, labels
from model_server import ModelServer
from numpy.typing import NDArray
from projects import Project

ADVERSARIAL = "image.adversarial"
SEARCH: dict[str, Any] = {"method": "random", "delta": 0.3, "queries": 30, "baselines": []}
SCORES = {"labels": "predictions[*].label", "scores": "predictions[*].score"}
SEEDS = 60
RADIUS = 76  # grey levels of delta 0.3
COLUMNS = ["case_id", "seed_id", "expected", "observed", "outcome", "reason", "distance", "query_cost", "explanation"]


def scores(image: Any) -> list[float]:
    """What the model says of each digit: from 0 to 1, all together 1."""
    found = logits(np.array(image, float).reshape(1, 8, 8))[0]
    powers = np.exp(found - found.max())
    return (powers / powers.sum()).tolist()


def attacked(
    project: Project,
    server: ModelServer,
    search: dict[str, Any] | None = None,
    gates: dict[str, Any] | None = None,
    seeds: int = SEEDS,
    x: NDArray[np.uint8] | None = None,
    y: NDArray[np.int64] | None = None,
    suite: dict[str, Any] | None = None,
    card: dict[str, Any] | None = None,
    **endpoint: Any,
) -> Project:
    """Writes data, card and suite. `search`, `suite`, `card` go over the defaults, `endpoint` into the card's endpoint."""
    x, y = digits(seeds) if x is None else x, labels(seeds) if y is None else y
    np.savez(project.folder / "digits.npz", x=x, y=y)
    top: dict[str, Any] = {
        "type": "image-classifier",
        "revision": "1",
        "classes": list(range(10)),
        "inputs": {"image": {"size": list(x.shape[1:3]), "channels": x.shape[3], "range": [0, 255]}},
    }
    top = {f"card__{key}": value for key, value in (top | (card or {})).items()}
    response = SCORES if server.score is not None else {"labels": "predictions[*].label"}
    own = {"batch_size": 16, "request": '{"fields": [], "rows": {{ images|tojson }} }', "response": response}
    project.write("card.yaml", server.card(**{**own, **endpoint, **top}))
    asked = {"property": ADVERSARIAL, "search": SEARCH | (search or {}), "gates": gates or {"attacked_accuracy": {"min": 0.01}}}
    found = {
        "suite": "attacked",
        "random_seed": 7,
        "model": {"card": "card.yaml"},
        "data": {"test": "digits.npz"},
        "properties": [asked],
    }
    project.write("suite.yaml", found | (suite or {}))
    return project


def cases(project: Project, report: dict[str, Any], columns: list[str] = COLUMNS) -> list[dict[str, Any]]:
    """The cases of the search."""
    return project.cases(report, ADVERSARIAL).select(columns).to_pylist()


def image_of(case: dict[str, Any]) -> NDArray[np.uint8]:
    """The stored image of a case."""
    uri, _, place = case["input_uri"].rpartition("#")
    stored = pq.read_table(uri.removeprefix("file://")).slice(int(place), 1).to_pylist()[0]
    return np.frombuffer(stored["pixels"], np.uint8).reshape(stored["height"], stored["width"], stored["channels"])


def asked_of(server: ModelServer) -> NDArray[np.int16]:
    """Every image that the model was asked, each once: n×8×8×1."""
    return np.array([json.loads(row) for row in sorted(server.distinct)], np.int16).reshape(-1, 8, 8, 1)


def nearest(images: NDArray[np.int16], seeds: NDArray[np.uint8]) -> tuple[NDArray[np.intp], NDArray[np.int16]]:
    """Which seed each image is nearest to, and how many grey levels away."""
    far = np.abs(images[:, None] - seeds[None].astype(np.int16)).reshape(len(images), len(seeds), -1).max(axis=2)
    return far.argmin(axis=1), far.min(axis=1)


__all__ = [
    "ADVERSARIAL",
    "RADIUS",
    "SEARCH",
    "SEEDS",
    "asked_of",
    "attacked",
    "cases",
    "image_of",
    "label",
    "nearest",
    "scores",
]
