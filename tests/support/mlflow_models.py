"""A real MLflow store on files, with models to log into it."""

from __future__ import annotations

import os
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from projects import empty_tracking
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler


def adults(rows: int, seed: int = 0) -> pd.DataFrame:
    """Rows with a label; `age` is whole numbers, `rate` real ones, `job` text."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(17, 90, rows),
            "rate": rng.normal(10, 3, rows).round(3),
            "job": rng.choice(["clerk", "cook", "nurse"], rows).astype(object),
        }
    )
    score = frame["age"] + frame["rate"] + 10 * (frame["job"] == "nurse") + rng.normal(0, 8, rows)
    return frame.assign(income=np.where(score > 65, "high", "low").astype(object))


def pipeline() -> Pipeline:
    """A classifier of these rows."""
    columns = make_column_transformer((StandardScaler(), ["age", "rate"]), (OneHotEncoder(handle_unknown="ignore"), ["job"]))
    return make_pipeline(columns, LogisticRegression())


class Registry:
    """The embedded MLflow store of the project in a folder."""

    def __init__(self, folder: Path) -> None:
        from mlflow import MlflowClient

        self.folder = folder
        self.home = folder / ".aitest"
        self.home.mkdir(exist_ok=True)
        if not (self.home / "mlflow.db").exists():
            shutil.copy(empty_tracking(), self.home / "mlflow.db")
        self.uri = f"sqlite:///{self.home / 'mlflow.db'}"
        self.client = MlflowClient(self.uri)

    def log(self, model: Any, example: Any, name: str, **options: Any) -> None:
        """Logs a scikit-learn model as the next version of a registered model; `example` makes its signature."""
        import mlflow.sklearn

        self._log(mlflow.sklearn.log_model, model, example, name, serialization_format="cloudpickle", **options)

    def log_python(self, model: Any, example: Any, name: str) -> None:
        """Logs a PythonModel likewise."""
        import mlflow.pyfunc

        self._log(mlflow.pyfunc.log_model, None, example, name, python_model=model)

    def _log(self, log_model: Any, model: Any, example: Any, name: str, **options: Any) -> None:
        import mlflow
        from mlflow.models import infer_signature

        before, variable = mlflow.get_tracking_uri(), os.environ.get("MLFLOW_TRACKING_URI")
        mlflow.set_tracking_uri(self.uri)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                signature = None if example is None else infer_signature(example)
                given = () if model is None else (model,)
                with mlflow.start_run(experiment_id=self._experiment()):
                    log_model(
                        *given, name="model", signature=signature, registered_model_name=name, pip_requirements=[], **options
                    )
        finally:
            mlflow.set_tracking_uri(before)
            os.environ.pop("MLFLOW_TRACKING_URI")  # which that sets as well
            os.environ |= {} if variable is None else {"MLFLOW_TRACKING_URI": variable}

    def _experiment(self) -> str:
        found = self.client.get_experiment_by_name("training")
        if found is not None:
            return str(found.experiment_id)
        return str(self.client.create_experiment("training", artifact_location=(self.home / "mlartifacts").as_uri()))
