"""When is an answer right, and when are two answers the same: one object for classifiers and regressors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from aitest_lib.canonical import canonical_json
from aitest_lib.errors import InputError
from aitest_lib.types import Scalar

UNKNOWN = -1
SEED_QUANTILE = 0.9  # regressors: a seed counts as right within the error that this share of clean answers keeps
ROUNDING = 1e-9  # 0.4 - 0.3 is no more than 0.1
SPREAD_SHARE = 0.1  # regressors: an answer may move by this share of the standard deviation of the labels


@dataclass(frozen=True)
class Classes:
    """The label set of every metric, in order. Labels are compared as JSON values: 1 and 1.0 are equal, 1, "1" and true not."""

    labels: tuple[Scalar, ...]

    def codes(self, values: Sequence[object]) -> NDArray[np.int32]:
        """Position of each value (n,), -1 where it is None or no class."""
        place = {canonical_json(label): code for code, label in enumerate(self.labels)}
        known: dict[object, int] = {None: UNKNOWN}
        result = np.empty(len(values), np.int32)
        for row, value in enumerate(values):
            key = (type(value), value) if value is not None else None
            if key not in known:
                known[key] = place.get(canonical_json(value), UNKNOWN)
            result[row] = known[key]
        return result

    @property
    def names(self) -> list[str]:
        """The labels as text."""
        return [label_text(label) for label in self.labels]


def label_text(label: Scalar) -> str:
    """A label as text; true and false as YAML and JSON write them."""
    return str(label).lower() if isinstance(label, bool) else str(label)


def classes_of(card: Sequence[Scalar] | None, data: Sequence[Scalar], answered: Sequence[Scalar]) -> Classes:
    """The classes of a model: those of its card, else those seen in the labels and the answers, sorted.

    Labels that are not among them are an `InputError` that says so, and whether they differ in type or spaces alone.
    """
    if card is None and answered:
        seen = {canonical_json(value): value for value in [*data, *answered]}
        classes = Classes(
            tuple(sorted(seen.values(), key=lambda value: (1, 0, value) if isinstance(value, str) else (0, value, "")))
        )
        if data and not {canonical_json(v) for v in data} & {canonical_json(v) for v in answered}:
            raise InputError(_mismatch("the model answers", answered, data))
        return classes
    labels = tuple(card if card is not None else data)
    known = {canonical_json(value) for value in labels}
    strange = [value for value in data if canonical_json(value) not in known]
    if strange:
        raise InputError(_mismatch("the card's classes are", labels, strange))
    return Classes(labels)


def _mismatch(what: str, known: Sequence[Scalar], strange: Sequence[Scalar]) -> str:
    def listed(values: Sequence[Scalar]) -> str:
        shown = ", ".join(f"{value!r}" for value in sorted(values, key=str)[:6])
        return shown + (", …" if len(values) > 6 else "")

    if all(isinstance(value, bool) for value in known) and not any(isinstance(value, bool) for value in strange):
        spoken = "; YAML reads yes, no, on and off as truth values: put such classes in quotes"
    else:
        spoken = ""
    loose = {str(value).strip().rstrip(".").lower() for value in known}
    hint = "name the right label column, or set `classes` in the card"
    if any(str(value).strip().rstrip(".").lower() in loose for value in strange):
        hint = "they differ in type, case or spaces only: make them equal in the data, the card or the model's answer"
    return f"got labels {listed(strange)} in the data, but {what} {listed(known)}; {hint}{spoken}"


@dataclass(frozen=True)
class Oracle:
    """Compares answers: class codes (classifier), numbers within tolerances (regressor), or, `one_sided`, word error rates, of
    which only a higher one is worse (recogniser). All arrays are (n,)."""

    classifier: bool
    tolerance: float = 0.0
    seed_tolerance: float = 0.0
    one_sided: bool = False

    def right(self, answers: NDArray[np.float64], labels: NDArray[np.float64] | None) -> NDArray[np.bool_]:
        """Does each answer agree with its label; without labels every one does."""
        if labels is None:
            return np.ones(len(answers), bool)
        if self.classifier:
            return np.asarray((answers == labels) & (answers != UNKNOWN))
        return np.asarray(np.abs(answers - labels) <= self.seed_tolerance)

    def same(self, before: NDArray[np.float64], after: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Is the answer on the case the one on its seed."""
        if self.classifier:
            return np.asarray(before == after)
        if self.one_sided:
            return np.asarray(after - before <= self.tolerance + ROUNDING)
        return np.asarray(np.abs(before - after) <= self.tolerance)


def regression_oracle(
    answers: NDArray[np.float64], labels: NDArray[np.float64] | None, tolerance: float | None, seed_tolerance: float | None
) -> Oracle:
    """The tolerances of a regressor, as given, else from the data.

    An answer is the same if it moves by at most a tenth of the standard deviation of the labels (without labels, of the
    answers): a yardstick that does not get longer as the model gets worse. A seed counts as right within the 90th
    percentile of the clean errors.
    """
    known = ~np.isnan(answers)
    if tolerance is None:
        spread = answers[known] if labels is None else labels
        tolerance = float(f"{SPREAD_SHARE * float(np.std(np.sort(spread))):.6g}") if len(spread) else 0.0
    if seed_tolerance is None and labels is not None and known.any():
        seed_tolerance = float(f"{float(np.quantile(np.abs(answers - labels)[known], SEED_QUANTILE)):.6g}")
    return Oracle(False, tolerance, seed_tolerance or 0.0)
