"""The program behind an `mlflow` card: loads a model with `mlflow.pyfunc` and answers tables (see `python_child.serve`).

Labels are those of `predict`; scores come from the raw model's `predict_proba` where it has that and `classes_`.
"""

from __future__ import annotations

import inspect
import os
import warnings
from pathlib import Path
from typing import Any

import pandas as pd

from aitest_lib.models.processes.python_child import Ask, answer, serve
from aitest_tasks.settings import QUIET, Settings, find_home

WHOLE = ("integer", "long")
REAL = ("float", "double")
_REFUSED = "Failed to enforce schema"


def load(start: dict[str, Any]) -> tuple[Any, Ask]:
    """The model of a start frame with uri, scores and home_from (the folder from which `.aitest` is looked for)."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    warnings.simplefilter("ignore")  # MLflow's are about its own insides and the versions of packages
    import mlflow

    mlflow.set_tracking_uri(Settings(find_home(Path(start["home_from"]))).tracking_uri)
    model = mlflow.pyfunc.load_model(start["uri"], suppress_warnings=True)
    served = MlflowModel(model, start["scores"])
    return served.classes, served.answer


class MlflowModel:
    """A `PyFuncModel`; `classes`: the raw model's `classes_`, or None."""

    def __init__(self, model: Any, want_scores: bool) -> None:
        self._model = model
        signature = model.metadata.signature
        self._schema = signature.inputs if signature else None
        raw = _raw_model(model) if want_scores else None
        self._scores = getattr(raw, "predict_proba", None)
        self.classes = getattr(raw, "classes_", None)
        if self.classes is None or not _takes_one(self._scores):
            self._scores = None

    def answer(self, table: pd.DataFrame) -> tuple[Any, Any]:
        """Labels and scores (or None) of a table."""
        inputs = table if self._schema is None else fitted(table, self._schema)
        try:
            labels, _ = answer(self._model, inputs.copy(), want_scores=False)
        except Exception as error:
            if _REFUSED not in str(error):
                raise
            raise ValueError(str(error).rpartition("Error: ")[2]) from error  # without the table, which MLflow quotes
        return labels, None if self._scores is None else self._scores(inputs)


def fitted(table: pd.DataFrame, schema: Any) -> Any:
    """The inputs that a signature names, in its types as far as no value changes; an array where it is a tensor's.

    What MLflow itself converts or refuses is left to it: it says what is wrong with which column.
    """
    if not schema.has_input_names():
        return table.to_numpy(schema.numpy_types()[0]) if schema.is_tensor_spec() else table
    columns = {}
    for spec in schema.inputs:
        if spec.name in table.columns:
            column = table[spec.name]
            columns[spec.name] = column if schema.is_tensor_spec() else _cast(column, getattr(spec.type, "name", ""))
        elif spec.required:
            raise ValueError(f"the model's signature has the input {spec.name!r}, which the table does not have")
    return pd.DataFrame(columns)


def _cast(column: pd.Series[Any], kind: str) -> pd.Series[Any]:
    """A column as the type of its input in the signature, without loss: `5.0` is a whole number, `5.5` and NaN are none."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(column.dtype.categories.dtype)
    numeric = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    if kind in REAL and numeric:
        return column.astype("float64" if kind == "double" else "float32")
    if kind in WHOLE and numeric and not column.isna().any() and (column % 1 == 0).all():
        return column.astype("int64" if kind == "long" else "int32")
    if kind == "string" and pd.api.types.is_integer_dtype(column):
        return column.astype(object).map(str, na_action="ignore")  # codes that a file shows as numbers
    if kind == "datetime" and not numeric:
        return pd.to_datetime(column)
    if kind == "boolean" and column.dtype == object and column.map(lambda cell: isinstance(cell, bool)).all():
        return column.astype(bool)
    if (kind in REAL or kind in WHOLE) and not numeric and not pd.api.types.is_bool_dtype(column):
        raise ValueError(f"the column {column.name} holds text, and the model's signature says {kind}")
    return column


def _raw_model(model: Any) -> Any:
    """What is inside: a scikit-learn estimator, a user's PythonModel; None where MLflow does not hand it out."""
    for unwrap in (model.get_raw_model, model.unwrap_python_model):
        try:
            return unwrap()
        except Exception:  # noqa: BLE001, S112 - not every flavor has both, and each says so in its own way
            continue
    return None


def _takes_one(function: Any) -> bool:
    """Can it be called with a table alone."""
    if function is None:
        return False
    try:
        inspect.signature(function).bind(None)
    except (TypeError, ValueError):
        return False
    return True


if __name__ == "__main__":
    serve(load)
