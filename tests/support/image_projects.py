"""Projects whose model reads small digits: data, card and suite, and the cases of their runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from image_models import TRAIN, classify, digits
from model_server import ModelServer
from PIL import Image
from projects import Project, property_of
from sklearn.datasets import load_digits

SEEDS = 60
ROBUSTNESS = "image.robustness"
SWEEP = [{"name": "inverse"}, {"name": "rotate", "degrees": [10, 30]}, {"name": "brightness", "severity": [1, 5]}]
CARD = {
    "type": "image-classifier",
    "revision": "1",
    "classes": list(range(10)),
    "inputs": {"image": {"size": [8, 8], "channels": 1, "range": [0, 255]}},
}
REQUEST = '{"fields": [], "rows": {{ images|tojson }} }'
COLUMNS = ("case_id", "seed_id", "transform", "strength", "observed", "outcome", "reason")


def label(image: Any) -> int:
    """The model: the digit on an image (8×8 or 8×8×1, nested lists or an array, in 0..255)."""
    return classify(np.array(image, float).reshape(1, 8, 8))[0]


def labels(n: int = SEEDS) -> np.ndarray:
    """What the first n of `digits` show."""
    return load_digits().target[TRAIN : TRAIN + n]


def filled(
    project: Project,
    server: ModelServer,
    transforms: list[dict[str, Any]] = SWEEP,
    x: np.ndarray | None = None,
    y: np.ndarray | None = None,
    suite: dict[str, Any] | None = None,
    card: dict[str, Any] | None = None,
    **endpoint: Any,
) -> Project:
    """Writes data, card and suite. `card` and `suite` go over the defaults, `endpoint` into the card's endpoint."""
    x, y = digits(SEEDS) if x is None else x, labels() if y is None else y
    np.savez(project.folder / "digits.npz", x=x, y=y)
    top = {f"card__{key}": value for key, value in (CARD | (card or {})).items()}
    project.write("card.yaml", server.card(**{"batch_size": 16, "request": REQUEST, **endpoint, **top}))
    found = {
        "suite": "digits",
        "random_seed": 7,
        "model": {"card": "card.yaml"},
        "data": {"test": "digits.npz"},
        "properties": [
            {"property": "image.generalization"},
            {"property": ROBUSTNESS, "transforms": transforms, "gates": {"pass_rate": {"min": 0.5}}},
        ],
    }
    project.write("suite.yaml", found | (suite or {}))
    return project


def as_files(project: Project, images: list[np.ndarray] | None = None) -> Path:
    """Makes a folder of PNG files, one subfolder a class, the suite's data; `images`: in place of the first digits."""
    folder = project.folder / "images"
    images = list(digits(SEEDS)[..., 0]) if images is None else images
    for place, (image, digit) in enumerate(zip(images, labels(len(images)), strict=True)):
        (folder / str(digit)).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / str(digit) / f"{place:03d}.png")
    project.change("suite.yaml", data={"test": "images"})
    return folder


def rows(
    project: Project, report: dict[str, Any], columns: tuple[str, ...] = COLUMNS, filesystem: Any = None
) -> list[dict[str, Any]]:
    """Columns of the cases of robustness; `filesystem`: of fsspec, where the store is in a bucket."""
    if filesystem is None:
        return project.cases(report, ROBUSTNESS).select(list(columns)).to_pylist()
    uri = property_of(report, ROBUSTNESS)["artifacts"]["cases"]
    table: pa.Table = pq.read_table(uri.removeprefix("s3://"), filesystem=filesystem, columns=list(columns))
    return table.to_pylist()
