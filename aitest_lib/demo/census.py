"""The tabular demonstration: census data and two real models, one sound and one with a weakness that accuracy hides.

Data: Becker, B. & Kohavi, R. (1996). Adult. UCI Machine Learning Repository; see `data/README.md`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aitest_lib.demo.files import DATA, copied
from aitest_lib.errors import InputError

LABEL = "income"
CLASSES = ("<=50K", ">50K")
NUMERIC = ("age", "education-num", "capital-gain", "capital-loss", "hours-per-week")
SPOUSE = {"marital-status": ("Married-civ-spouse", "Married-AF-spouse"), "relationship": ("Husband", "Wife")}
USED = (*NUMERIC, *SPOUSE, "occupation")
# Direction in which each feature may move the odds of the second class; 0: either way.
MONOTONIC = {"education-num": 1, "capital-gain": 1, "hours-per-week": 1, "married": 1}
FILES = (
    "census_sound.yaml",
    "census_brittle.yaml",
    "census_sound_suite.yaml",
    "census_brittle_suite.yaml",
    "census_train.parquet",
    "census_test.parquet",
)
PLANTED = (
    "The brittle model looks the weekly hours up in a table of the frequent values; any other value counts as no paid work, "
    "so that 40 -> 39 hours turns >50K into <=50K"
)
FOUND = (
    "the sound model gives >50K to women a quarter as often as to men. It decides alike whatever sex and race say, so that the "
    "difference comes through what goes with them, relationship and marital status first"
)


class SoundModel:
    """An additive boosted model of income, trained on `census_train.parquet` when it is constructed.

    Regularised as one would for a decision about people: no interactions (Lou, Caruana, Gehrke 2012: generalized additive
    models by boosted trees), effects that may only rise with schooling, gains and hours, marriage read from two columns,
    and neither sex nor race nor the columns that added nothing. Missing values and unseen categories are accepted.
    """

    def __init__(self) -> None:
        from sklearn.ensemble import HistGradientBoostingClassifier

        train = pd.read_parquet(DATA / "census_train.parquet")
        self.classes_ = list(CLASSES)
        self._occupations = sorted(train["occupation"].unique())
        self._model = HistGradientBoostingClassifier(
            learning_rate=0.1,
            max_iter=150,
            max_leaf_nodes=4,
            min_samples_leaf=40,
            l2_regularization=1.0,
            interaction_cst="no_interactions",
            monotonic_cst=MONOTONIC,
            categorical_features="from_dtype",
            early_stopping=False,
            random_state=0,
        )
        with _one_thread():
            self._model.fit(self._features(train), train[LABEL])

    def predict(self, rows: pd.DataFrame) -> NDArray[np.object_]:
        """One of `classes_` for each of n rows: object array (n,)."""
        second = self.predict_proba(rows)[:, 1]
        return np.where(second >= 0.5, CLASSES[1], CLASSES[0]).astype(object)

    def predict_proba(self, rows: pd.DataFrame) -> NDArray[np.float64]:
        """Probabilities (n, 2) in the order of `classes_`."""
        _check_columns(rows)
        with _one_thread():
            return np.asarray(self._model.predict_proba(self._features(rows)))

    def _features(self, rows: pd.DataFrame) -> pd.DataFrame:
        numbers = {name: pd.to_numeric(rows[name], errors="coerce").astype(float) for name in NUMERIC}
        spouse = [rows[name].isin(values) for name, values in SPOUSE.items()]
        known = rows["occupation"].where(rows["occupation"].isin(self._occupations))
        return pd.DataFrame(
            {
                **numbers,
                "married": (spouse[0] | spouse[1]).astype(float),
                "occupation": pd.Categorical(known, categories=self._occupations),
            }
        )


class BrittleModel(SoundModel):
    """The same model behind a faulty data feed. PLANTED WEAKNESS: it knows the weekly hours by exact value only.

    The feed looks `hours-per-week` up in the table of the 16 most frequent values of the training data and writes 0 for
    any other, as a code list in front of a model does; a rule then takes 0 hours for "no paid work" and answers `<=50K`.
    Accuracy hides it: 88 % of the rows carry one of the 16 values, and most of the others earn `<=50K` anyway. One hour
    less (40 -> 39) turns every `>50K`.
    """

    KNOWN_HOURS = 16
    SCORE_WITHOUT_HOURS = 0.02

    def __init__(self) -> None:
        super().__init__()
        hours = pd.read_parquet(DATA / "census_train.parquet", columns=["hours-per-week"])["hours-per-week"]
        self._hours = hours.value_counts().index[: self.KNOWN_HOURS].to_numpy()

    def predict_proba(self, rows: pd.DataFrame) -> NDArray[np.float64]:
        """Probabilities (n, 2) in the order of `classes_`."""
        _check_columns(rows)
        hours = pd.to_numeric(rows["hours-per-week"], errors="coerce").astype(float)
        looked_up = hours.where(hours.isin(self._hours), 0.0)
        scores = super().predict_proba(rows.assign(**{"hours-per-week": looked_up}))
        scores[(looked_up == 0).to_numpy()] = (1 - self.SCORE_WITHOUT_HOURS, self.SCORE_WITHOUT_HOURS)
        return scores


def demo_files(folder: Path) -> list[Path]:
    """Copies cards, suites and data of the demonstration into `folder` (made if need be); returns the copies."""
    return copied(FILES, folder)


def _check_columns(rows: pd.DataFrame) -> None:
    missing = [name for name in USED if name not in rows]
    if missing:
        raise InputError(f"got rows without {', '.join(missing)}, expected the columns {', '.join(USED)}; add them")


def _one_thread() -> Any:
    """Limits OpenMP to one thread: on so few rows more threads cost more than they bring."""
    from threadpoolctl import threadpool_limits  # comes with scikit-learn

    return threadpool_limits(1)
