"""The `predictions` backend: answers that were computed before, from a Parquet or CSV file."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from aitest_lib.config.card import LoadedCard
from aitest_lib.errors import InputError
from aitest_lib.models.answers import to_predictions
from aitest_lib.models.base import Usage, select_columns
from aitest_lib.models.batches import Batch
from aitest_lib.types import ModelInfo, Predictions

LABEL, SCORE = "prediction", "score"
UNKNOWN = "not among the computed answers"
CONFLICT = "equal rows have different computed answers"
_CONFLICTING = -2
_ABSENT = -1


class PredictionsModel:
    """Computed answers: column `prediction`, and optionally `score` (of the last class) or `score.<class>` for each class.

    Rows are matched by content when the file has all input columns, else by position: the integer index of the inputs.
    """

    def __init__(self, loaded: LoadedCard, info: ModelInfo) -> None:
        if loaded.card.predictions is None:
            raise InputError(f"{loaded.card.name}: got a card without `predictions`, expected one")
        self.info = info
        self.usage = Usage()
        self._card = loaded.card
        self._table = _read(loaded.base_dir / loaded.card.predictions, info)
        answers = to_predictions(self._table[LABEL], _scores(self._table, info), len(self._table), info)
        self._answers = answers
        self._by_content: dict[Hashable, dict[tuple[Any, ...], int]] = {}

    def start(self) -> None:
        """Nothing to start."""

    def predict(self, inputs: Batch) -> Predictions:
        """The stored answers to n rows; a row that is not in the file is an error of that row."""
        if not isinstance(inputs, pd.DataFrame):
            raise InputError(f"{self._card.name}: computed answers are those to rows of a table; ask the model itself")
        inputs = select_columns(inputs, self._card.name, self._card.inputs.columns)
        at = self._positions(inputs)
        errors = np.where(at == _CONFLICTING, CONFLICT, UNKNOWN).astype(object)
        labels = np.full(len(at), None, dtype=object)
        scores = None if self._answers.scores is None else np.full((len(at), self._answers.scores.shape[1]), np.nan)
        found = at >= 0
        labels[found], errors[found] = self._answers.labels[at[found]], self._answers.errors[at[found]]
        if scores is not None and self._answers.scores is not None:
            scores[found] = self._answers.scores[at[found]]
        return Predictions(labels, scores, errors)

    def stop(self) -> None:
        """Nothing waits here."""

    def close(self) -> None:
        """Nothing to release."""

    def _positions(self, inputs: pd.DataFrame) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        columns = [str(name) for name in inputs.columns]
        if all(name in self._table.columns for name in columns):
            times = tuple(name for name in columns if inputs[name].dtype.kind == "M")
            known = self._content(tuple(columns), times)
            return np.array([known.get(key, _ABSENT) for key in _keys(inputs)], dtype=np.int64)
        if not pd.api.types.is_integer_dtype(inputs.index):
            raise InputError(
                f"the computed answers of {self._card.name} lack input columns, and the rows carry no positions; "
                f"add the columns {', '.join(name for name in columns if name not in self._table.columns)} to the file"
            )
        at = inputs.index.to_numpy(dtype=np.int64)
        return np.where((at >= 0) & (at < len(self._table)), at, _ABSENT)

    def _content(self, columns: tuple[str, ...], times: tuple[str, ...]) -> dict[tuple[Any, ...], int]:
        """Row content -> position. Rows that are equal but answered differently have none."""
        if (columns, times) not in self._by_content:
            table = self._table[list(columns)].copy()
            for name in times:
                table[name] = pd.to_datetime(table[name])  # CSV has them as text
            known: dict[tuple[Any, ...], int] = {}
            for n, key in enumerate(_keys(table)):
                first = known.setdefault(key, n)
                if first >= 0 and self._answers.labels[first] != self._answers.labels[n]:
                    known[key] = _CONFLICTING
            self._by_content[(columns, times)] = known
        return self._by_content[(columns, times)]


def _read(path: Path, info: ModelInfo) -> pd.DataFrame:
    # CSV has no types: the card's classes say whether a label is text.
    text = bool(info.classes) and all(isinstance(label, str) for label in info.classes or ())
    try:
        if path.suffix.lower() == ".csv":
            table = pd.read_csv(path, dtype={LABEL: str} if text else None)
        else:
            table = pd.read_parquet(path)
    except (OSError, ValueError) as error:  # pyarrow's errors are ValueErrors
        raise InputError(f"{path}: cannot be read as Parquet or CSV: {str(error).splitlines()[0]}") from error
    if LABEL not in table.columns:
        raise InputError(f"{path}: got the columns {', '.join(map(str, table.columns))}, expected one named {LABEL}")
    return table


def _scores(table: pd.DataFrame, info: ModelInfo) -> Any:
    if info.classes is None:
        return None
    names = [f"{SCORE}.{label}" for label in info.classes]
    if all(name in table.columns for name in names):
        return table[names].to_numpy(dtype=np.float64)
    return table[SCORE].astype(np.float64) if SCORE in table.columns else None


def _keys(table: pd.DataFrame) -> list[tuple[Any, ...]]:
    """Rows as tuples that are equal whatever the storage: 39 and 39.0 are, and so are the kinds of missing values."""
    columns = []
    for n in range(table.shape[1]):
        column = table.iloc[:, n]
        missing = column.isna().to_numpy()
        columns.append([None if absent else value for value, absent in zip(column.tolist(), missing, strict=True)])
    return list(zip(*columns, strict=True))
