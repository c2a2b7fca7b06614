"""From what a model answered to `Predictions`: n answers for n inputs, each a usable label or a reason why not."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aitest_lib.errors import ModelAnswerError
from aitest_lib.models.withholding import WITHHELD, is_withheld
from aitest_lib.types import ModelInfo, Predictions, Scalar

SUM_TOLERANCE = 1e-3  # of a row of probabilities
RANGE_TOLERANCE = 1e-6  # float32 models answer 1.0000001
SHOWN_CLASSES = 10


def to_predictions(labels: Any, scores: Any, n: int, info: ModelInfo, threshold: float | None = None) -> Predictions:
    """The answers to n inputs.

    `labels`: n scalars (list, array, Series; a scalar where n = 1), or None when there are scores only.
    `scores`: n numbers in [0, 1] (of the last class), n lists in the order of `info.classes`, these lists as one flat list,
    n objects by class, or None.
    `threshold`: given, the label is the last class where its score >= threshold, else the first (two classes). Without labels
    and threshold it is the class of the highest score, the first one of equals; numbers then do not suffice.

    One unusable answer makes an error of its row; a wrong number of answers raises `ModelAnswerError`.
    """
    sent = f"sent {counted(n, input_word(info.type))}"
    reasons: list[str | None] = [None] * n
    matrix: NDArray[np.float64] | None = None
    if scores is not None and info.classes is not None:
        found = _unflattened(_answers(scores, n, sent, "score", len(info.classes)), n, sent, len(info.classes))
        if labels is None and threshold is None:
            too_little = "got one number as score, expected `decision: {threshold: ...}` in the card"
            reasons = [too_little if _is_number(one) else None for one in found]
        matrix = _score_matrix(found, info.classes, reasons)
    values: list[Any]
    if threshold is not None and matrix is not None and info.classes is not None:
        first, last = info.classes[0], info.classes[-1]
        values = [last if score >= threshold else first for score in matrix[:, -1]]
    elif labels is None and matrix is not None and info.classes is not None:
        values = [None if reason else info.classes[int(np.argmax(row))] for row, reason in zip(matrix, reasons, strict=True)]
    else:
        values = _labels(_answers(labels, n, sent, "prediction"), info, reasons)
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


def counted(n: int, what: str) -> str:
    """`1 row`, `2 images`."""
    return f"{n} {what}{'' if n == 1 else 's'}"


def input_word(model_type: str) -> str:
    """What messages call one input of a model of this type."""
    if model_type == "speech-to-text":
        return "clip"
    return "image" if model_type.startswith("image-") else "row"


def is_encodable(text: str) -> bool:
    """Whether a text is valid Unicode: JSON may hold half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _answers(value: Any, n: int, sent: str, what: str, width: int = 1) -> list[Any]:
    """The n answers as a list, or n·width of them; numpy and pandas give Python values."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    one_row_of_scores = (
        what == "score" and n == 1 and isinstance(value, list) and len(value) > 1 and all(map(_is_number, value))
    )
    if n == 1 and (value is None or isinstance(value, (str, int, float, bool, Mapping)) or one_row_of_scores):
        return [value]
    if not isinstance(value, (list, tuple)):
        raise ModelAnswerError(f"{sent}, got {_kind(value)} as {what}s, expected a list of {n}")
    if len(value) not in (n, n * width):
        raise ModelAnswerError(f"{sent}, got {counted(len(value), what)}, expected {n}")
    return list(value)


def _unflattened(values: list[Any], n: int, sent: str, width: int) -> list[Any]:
    """n lists of `width` numbers where there is one list of all of them, row by row."""
    if len(values) == n:
        return values
    if not all(map(_is_number, values)):
        raise ModelAnswerError(f"{sent}, got {len(values)} scores, expected {n}")
    return [values[start : start + width] for start in range(0, n * width, width)]


def _labels(values: list[Any], info: ModelInfo, reasons: list[str | None]) -> list[Scalar | None]:
    readers: dict[str, Callable[[Any], Scalar]] = {"tabular-regressor": _number, "speech-to-text": _transcript}
    read = readers.get(info.type)
    known = None if info.classes is None else {(type(label), label) for label in info.classes}
    out: list[Scalar | None] = []
    for n, value in enumerate(values):
        try:
            plain = value.item() if isinstance(value, np.generic) else value
            out.append(_label(plain, known, info.classes) if read is None else read(plain))
        except ModelAnswerError as error:
            reasons[n] = reasons[n] or str(error)
            out.append(None)
    return out


def _label(value: Any, known: set[tuple[type, Scalar]] | None, classes: Sequence[Scalar] | None) -> Scalar:
    if isinstance(value, float) and not math.isfinite(value):
        raise ModelAnswerError(f"got {value} as label, expected a class")
    if not isinstance(value, (str, int, float, bool)):
        where = "; say where the label is in it (response.labels of an endpoint)" if isinstance(value, dict) else ""
        raise ModelAnswerError(f"got {_kind(value)} as label, expected text, a number, true or false{where}")
    if isinstance(value, str) and not is_encodable(value):
        raise ModelAnswerError("got a label that is not valid Unicode, expected text")
    if isinstance(value, int) and abs(value) >= 2**63:
        raise ModelAnswerError("got a whole number beyond 64 bits as label, expected a class")
    if known is not None and (type(value), value) not in known:
        yes_no = isinstance(value, str) and all(isinstance(one, bool) for one in classes or ())
        twin = next((one for one in classes or () if _same_text(one, value)), None)
        score = isinstance(value, float) and 0 < value < 1 and twin is None
        got = f"a label that is not among the classes {WITHHELD}" if is_withheld() else f"the label {_show(value)}"
        alike = "" if twin is None else f"; it differs from {_show(twin)} by {_difference(twin, value)} only"
        raise ModelAnswerError(
            f"got {got}, expected one of {_list(classes or ())}"
            + (f"{alike}: write the card's classes as answered" if alike else "")
            + ("; YAML reads yes, no, on and off as truth values: put such classes in quotes" if yes_no else "")
            + ("; if it is a score, give it as scores and write decision: {threshold: 0.5} in the card" if score else "")
        )
    return value


def _transcript(value: Any) -> str:
    """The text without the blanks around it; silence may be ''."""
    if not isinstance(value, str) or not is_encodable(value):
        raise ModelAnswerError(f"got {_kind(value)} as transcript, expected text in valid Unicode")
    return value.strip()


def _number(value: Any) -> float:
    if isinstance(value, int) and abs(value) > sys.float_info.max:
        raise ModelAnswerError("got a number beyond 1e308 as prediction, expected a finite number")
    if not _is_number(value) or not math.isfinite(value):
        quoted = isinstance(value, str) and not is_withheld()
        got = value if _is_number(value) else f"{_show(value)} ({_kind(value)})" if quoted else _kind(value)
        raise ModelAnswerError(f"got {got} as prediction, expected a finite number")
    return float(value)


def _score_matrix(values: list[Any], classes: Sequence[Scalar], reasons: list[str | None]) -> NDArray[np.float64]:
    """float64 (n, number of classes); rows that are no probabilities are NaN and have a reason."""
    matrix = np.full((len(values), len(classes)), np.nan)
    for n, value in enumerate(values):
        try:
            matrix[n] = _score_row(value, classes)
        except (ModelAnswerError, TypeError, ValueError, OverflowError) as error:
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
        problem = "do not sum to 1" if is_withheld() else f"sum to {row.sum():.6g}"
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
    return one == other or _bare(one) == _bare(other)


def _bare(label: Scalar) -> str:
    return str(label).strip().rstrip(".").casefold()


def _difference(one: Scalar, other: Scalar) -> str:
    return "case, spaces or a full stop" if isinstance(one, str) and isinstance(other, str) else "type"


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
