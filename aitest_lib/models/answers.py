"""From what a model answered to `Predictions`: n answers for n inputs, each a usable label or a reason why not."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aitest_lib.errors import ModelAnswerError
from aitest_lib.types import ModelInfo, Predictions, Scalar

SUM_TOLERANCE = 1e-3  # of a row of probabilities
RANGE_TOLERANCE = 1e-6  # float32 models answer 1.0000001
SHOWN_CLASSES = 10


def to_predictions(labels: Any, scores: Any, n: int, info: ModelInfo, threshold: float | None = None) -> Predictions:
    """The answers to n inputs.

    `labels`: n scalars (list, array, Series; a scalar where n = 1), or None when there are scores only.
    `scores`: n numbers in [0, 1] (of the last class), n lists in the order of `info.classes`, n objects by class, or None.
    `threshold`: given, the label is the last class where its score >= threshold, else the first (two classes).

    One unusable answer makes an error of its row; a wrong number of answers raises `ModelAnswerError`.
    """
    reasons: list[str | None] = [None] * n
    matrix: NDArray[np.float64] | None = None
    if scores is not None and info.classes is not None:
        matrix = _score_matrix(_answers(scores, n, "score"), info.classes, reasons)
    if threshold is not None and matrix is not None and info.classes is not None:
        first, last = info.classes[0], info.classes[-1]
        values: list[Any] = [last if score >= threshold else first for score in matrix[:, -1]]
    else:
        values = _labels(_answers(labels, n, "prediction"), info, reasons)
    errors = np.array(reasons, dtype=object)
    failed = errors != np.array(None, dtype=object)
    out = np.empty(n, dtype=object)
    out[:] = values
    out[failed] = None
    if matrix is not None:
        matrix[failed] = np.nan
    return Predictions(out, matrix, errors)


def all_failed(n: int, reason: str) -> Predictions:
    """n inputs without an answer, for one reason."""
    return Predictions(np.full(n, None, dtype=object), None, np.full(n, reason, dtype=object))


def joined(parts: Sequence[Predictions]) -> Predictions:
    """The parts as one, in their order. A part without scores (all of it failed) gets NaN where others have them."""
    widths = {part.scores.shape[1] for part in parts if part.scores is not None}
    scores = None
    if len(widths) == 1:
        width = widths.pop()
        scores = np.concatenate(
            [part.scores if part.scores is not None else np.full((len(part), width), np.nan) for part in parts]
        )
    labels = np.concatenate([part.labels for part in parts]) if parts else np.empty(0, dtype=object)
    errors = np.concatenate([part.errors for part in parts]) if parts else np.empty(0, dtype=object)
    return Predictions(labels, scores, errors)


def with_reasons(predictions: Predictions, change: Callable[[str], str]) -> Predictions:
    """The same answers, every reason passed through `change`."""
    errors = np.empty(len(predictions), dtype=object)
    errors[:] = [None if reason is None else change(reason) for reason in predictions.errors]
    return Predictions(predictions.labels, predictions.scores, errors)


def _answers(value: Any, n: int, what: str) -> list[Any]:
    """The n answers as a list; numpy and pandas give Python values."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    one_row_of_scores = (
        what == "score" and n == 1 and isinstance(value, list) and len(value) > 1 and all(map(_is_number, value))
    )
    if n == 1 and (value is None or isinstance(value, (str, int, float, bool, Mapping)) or one_row_of_scores):
        return [value]
    sent = f"sent {n} row{'' if n == 1 else 's'}"
    if not isinstance(value, (list, tuple)):
        raise ModelAnswerError(f"{sent}, got {_kind(value)} as {what}s, expected a list of {n}")
    if len(value) != n:
        raise ModelAnswerError(f"{sent}, got {len(value)} {what}{'' if len(value) == 1 else 's'}, expected {n}")
    return list(value)


def _labels(values: list[Any], info: ModelInfo, reasons: list[str | None]) -> list[Scalar | None]:
    regressor = info.type.endswith("-regressor")
    known = None if info.classes is None else {(type(label), label) for label in info.classes}
    out: list[Scalar | None] = []
    for n, value in enumerate(values):
        try:
            plain = value.item() if isinstance(value, np.generic) else value
            out.append(_number(plain) if regressor else _label(plain, known, info.classes))
        except ModelAnswerError as error:
            reasons[n] = reasons[n] or str(error)
            out.append(None)
    return out


def _label(value: Any, known: set[tuple[type, Scalar]] | None, classes: Sequence[Scalar] | None) -> Scalar:
    if isinstance(value, float) and not math.isfinite(value):
        raise ModelAnswerError(f"got {value} as label, expected a class")
    if not isinstance(value, (str, int, float, bool)):
        raise ModelAnswerError(f"got {_kind(value)} as label, expected text, a number, true or false")
    if isinstance(value, str) and not _is_encodable(value):
        raise ModelAnswerError("got a label that is not valid Unicode, expected text")
    if known is not None and (type(value), value) not in known:
        twin = next((one for one in classes or () if _same_text(one, value)), None)
        raise ModelAnswerError(
            f"got the label {_show(value)}, expected one of {_list(classes or ())}"
            + ("" if twin is None else f"; it differs from {_show(twin)} by type only: write the card's classes as answered")
        )
    return value


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _number(value: Any) -> float:
    if not _is_number(value) or not math.isfinite(value):
        got = value if _is_number(value) else f"{_show(value)} ({_kind(value)})" if isinstance(value, str) else _kind(value)
        raise ModelAnswerError(f"got {got} as prediction, expected a finite number")
    return float(value)


def _score_matrix(values: list[Any], classes: Sequence[Scalar], reasons: list[str | None]) -> NDArray[np.float64]:
    """float64 (n, number of classes); rows that are no probabilities are NaN and have a reason."""
    matrix = np.full((len(values), len(classes)), np.nan)
    for n, value in enumerate(values):
        try:
            matrix[n] = _score_row(value, classes)
        except (ModelAnswerError, TypeError, ValueError) as error:
            reasons[n] = str(error) if isinstance(error, ModelAnswerError) else "got scores that are not numbers"
        reasons[n] = reasons[n] or _not_probabilities(matrix[n])
    clipped: NDArray[np.float64] = np.clip(matrix, 0.0, 1.0)
    return clipped


def _not_probabilities(row: NDArray[np.float64]) -> str | None:
    if not np.isfinite(row).all():
        problem = "are not finite"
    elif (row < -RANGE_TOLERANCE).any() or (row > 1 + RANGE_TOLERANCE).any():
        problem = "lie outside 0..1"
    elif abs(row.sum() - 1) > SUM_TOLERANCE:
        problem = f"sum to {row.sum():.6g}"
    else:
        return None
    return f"got scores that {problem}, expected probabilities in 0..1 that sum to 1"


def _score_row(value: Any, classes: Sequence[Scalar]) -> list[float]:
    if isinstance(value, Mapping):
        by_name = {str(key): score for key, score in value.items()}
        missing = [name for name in map(_json_key, classes) if name not in by_name]
        if missing:
            raise ModelAnswerError(f"got no score for {_list(missing)}, expected one for each of {_list(classes)}")
        return [by_name[_json_key(name)] for name in classes]
    if isinstance(value, (list, tuple)):
        if len(value) != len(classes):
            raise ModelAnswerError(f"got {len(value)} scores, expected {len(classes)}, one for each of {_list(classes)}")
        return list(value)
    if not _is_number(value):
        raise ModelAnswerError(f"got {_kind(value)} as score, expected a number, a list or an object by class")
    if len(classes) != 2:
        raise ModelAnswerError(f"got one score, expected {len(classes)}, one for each of {_list(classes)}")
    return [1.0 - value, value]


def _json_key(label: Scalar) -> str:
    return str(label).lower() if isinstance(label, bool) else str(label)


def _same_text(one: Scalar, other: Scalar) -> bool:
    return one == other or str(one).casefold() == str(other).casefold()


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _show(value: Any) -> str:
    return _json_key(value) if isinstance(value, bool) else repr(value)[:80]


def _list(values: Sequence[Any]) -> str:
    shown = ", ".join(map(_show, values[:SHOWN_CLASSES]))
    return f"[{shown}{', ...' if len(values) > SHOWN_CLASSES else ''}]"


def _kind(value: Any) -> str:
    names: list[tuple[type | tuple[type, ...], str]] = [
        (type(None), "nothing (null)"),
        (bool, "true or false"),
        (str, "text"),
        ((int, float), "a number"),
        (Mapping, "an object"),
        ((list, tuple), "a list"),
    ]
    return next((name for kinds, name in names if isinstance(value, kinds)), f"a {type(value).__name__}")
