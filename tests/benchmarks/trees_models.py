"""The data and the models of the benchmark `trees`."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from aitest_lib.data.schema import Profile, build_profile
from aitest_lib.data.table import TableSource, to_frame

SHARED = Path(os.environ.get("AITEST_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data"))
DATA = {  # file and label
    "adult": ("adult.parquet", "income"),
    "bank": ("bank_additional_full.parquet", "y"),
    "german": ("german_credit.parquet", "credit"),
}
TRAIN = 0.7


class Model:
    """A trained model that counts the CPU seconds that it answers in."""

    def __init__(self, pipeline: Any) -> None:
        self._pipeline, self.seconds = pipeline, 0.0
        self.classes = [str(name) for name in pipeline.classes_]

    def __call__(self, rows: pd.DataFrame) -> np.ndarray[Any, Any]:
        """Class codes (n,)."""
        started = time.process_time()
        answers = np.searchsorted(self._pipeline.classes_, self._pipeline.predict(rows))
        self.seconds += time.process_time() - started
        return np.asarray(answers)

    def scores(self, rows: pd.DataFrame) -> np.ndarray[Any, Any]:
        """Probabilities (n, classes)."""
        started = time.process_time()
        scores = self._pipeline.predict_proba(rows)
        self.seconds += time.process_time() - started
        return np.asarray(scores)


@dataclass(frozen=True)
class Split:
    """A table, split at random: its profile, the rows that the model was trained on, and the held-out ones."""

    profile: Profile
    train: pd.DataFrame
    test: pd.DataFrame
    labels: pd.Series[Any]
    test_labels: pd.Series[Any]

    @property
    def columns(self) -> list[str]:
        """What the model is sent."""
        return list(self.train.columns)


def split(name: str, seed: int) -> Split | None:
    """One of DATA, None where it is not there."""
    file, label = DATA[name]
    path = SHARED / file
    if not path.exists():
        return None
    source = TableSource(str(path))
    profile = build_profile(source, None, {}, [], {label})
    rows = to_frame(source.take(np.arange(source.rows), source.schema.names))
    order = np.random.default_rng(seed).permutation(len(rows))
    train, test = (rows.iloc[part].reset_index(drop=True) for part in np.split(order, [int(TRAIN * len(rows))]))
    return Split(profile, train.drop(columns=label), test.drop(columns=label), train[label], test[label])


def train(kind: str, data: Split, seed: int) -> Model:
    """One of MODELS, trained on the labels."""
    from sklearn.compose import make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

    texts = [name for name in data.columns if not data.profile[name].numeric]
    numbers = [name for name in data.columns if data.profile[name].numeric]
    ordinal = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    categories = ordinal if kind == "gb" else one_hot
    columns = make_column_transformer((categories, texts), (StandardScaler(), numbers))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the network may want more passes
        return Model(make_pipeline(columns, MODELS[kind](seed)).fit(data.train, data.labels))


def _boosting(seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(random_state=seed)


def _forest(seed: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(n_estimators=100, min_samples_leaf=2, random_state=seed)


def _network(seed: int) -> Any:
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier((64, 32), early_stopping=True, max_iter=40, random_state=seed)


MODELS: dict[str, Callable[[int], Any]] = {"gb": _boosting, "rf": _forest, "mlp": _network}
