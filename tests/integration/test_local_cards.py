"""The ready cards of models that run here, as they stand, each beside the file that it names."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from aitest_lib.config.card import load_card
from aitest_lib.models.opening import open_model
from aitest_lib.types import Predictions

CARDS = Path(__file__).parents[2] / "deployments" / "cards"
MODELS = """
class CreditModel:
    def __init__(self, version):
        self.version = version

    def predict(self, frame):
        return frame["income"] * self.version - frame["age"] + (frame["job"] == "nurse")
"""


def answers(name: str, folder: Path, data: pd.DataFrame) -> Predictions:
    """What the model of a copy of the card answers."""
    shutil.copy(CARDS / f"{name}.yaml", folder)
    model = open_model(load_card(folder / f"{name}.yaml"))
    try:
        return model.predict(data)
    finally:
        model.close()


def people(rows: int = 40) -> pd.DataFrame:
    rng = np.random.default_rng(4)
    return pd.DataFrame(
        {
            "job": rng.choice(["nurse", "cook"], rows),
            "debt": rng.normal(10, 3, rows).round(3),
            "income": rng.integers(10, 90, rows),
            "age": rng.integers(18, 80, rows),
        }
    )


def test_python(tmp_path: Path) -> None:
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package" / "models.py").write_text(MODELS)
    data = people()
    found = answers("python", tmp_path, data)
    assert list(found.labels) == (data["income"] * 3 - data["age"] + (data["job"] == "nurse")).tolist()


def test_onnx(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    data = people()
    pipeline = fitted(data)
    (tmp_path / "model.onnx").write_bytes(as_onnx(pipeline))
    found = answers("onnx", tmp_path, data)
    own = data[["age", "income", "debt"]].to_numpy(np.float32)
    assert list(found.labels) == pipeline.predict(own).tolist() and len(set(found.labels)) == 2
    np.testing.assert_allclose(found.scores, pipeline.predict_proba(own)[:, ::-1], atol=1e-5)


def test_predictions(tmp_path: Path) -> None:
    labels = ["declined", "approved"] * 20
    data = people()
    pd.DataFrame({"prediction": labels}).to_parquet(tmp_path / "predictions.parquet")
    assert list(answers("predictions", tmp_path, data).labels) == labels


def fitted(data: pd.DataFrame) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    inputs = data[["age", "income", "debt"]].to_numpy(np.float32)
    labels = np.where(data["income"] - data["age"] > 0, "approved", "declined")
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(inputs, labels)


def as_onnx(pipeline: Any) -> bytes:
    from skl2onnx import to_onnx

    return to_onnx(pipeline, np.zeros((1, 3), np.float32)).SerializeToString()
