"""The model's answers on the untouched seeds, beside the labels: what both oracles and all slices start from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aitest_lib.answers import AnswerBook
from aitest_lib.artifacts.codecs import get_table
from aitest_lib.data.schema import slice_labels, sliceable
from aitest_lib.reports.slices import SliceColumn
from aitest_lib.scorers.invariance import Answered
from aitest_lib.scorers.oracle import Classes, Oracle, classes_of, regression_oracle
from aitest_lib.types import ArtifactRef
from aitest_tasks.inputs import input_digests
from aitest_tasks.runs import Run
from aitest_tasks.seed_tables import LABEL

NOT_ASKED = "the query did not end"


@dataclass(frozen=True)
class Errors:
    """Why inputs have no answer: reasons by digest (hex), and whether the budget left some out."""

    reasons: dict[str, str]
    unpaid: bool

    def answered(self, digests: NDArray[np.void], places: NDArray[np.int64]) -> Answered:
        """What is known of inputs: answered, in error, or left out by the budget."""
        known = places >= 0
        error = np.full(len(places), None, dtype=object)
        unpaid = np.zeros(len(places), bool)
        for place in np.flatnonzero(~known):
            reason = self.reasons.get(digests[place].tobytes().hex())
            if reason is None and self.unpaid:
                unpaid[place] = True
            else:
                error[place] = reason or NOT_ASKED
        return Answered(known, unpaid, error)


@dataclass
class Baseline:
    """Answers, labels and slices of all seeds, by rank; arrays are (seeds,).

    `answers`, `labels`: class codes (classifier; -1 no class) or numbers (regressor; NaN where there is none) as float64;
    `descent`: of synthesized seeds, the number of the real row that each descends from.
    """

    classes: Classes
    oracle: Oracle
    answered: Answered
    places: NDArray[np.int64]
    answers: NDArray[np.float64]
    labels: NDArray[np.float64] | None
    right: NDArray[np.bool_]
    columns: list[SliceColumn]
    descent: NDArray[np.int64] | None = None

    def descent_of(self, mask: NDArray[np.bool_]) -> NDArray[np.int64] | None:
        """`descent` of the seeds of a mask."""
        return None if self.descent is None else self.descent[mask]


def read_baseline(
    run: Run, book: AnswerBook, errors: Errors, tolerance: float | None, seed_tolerance: float | None
) -> Baseline:
    """Reads the seeds shard by shard and looks up their answers."""
    digests, label_values = [], []
    slices = _SliceBuilder(run)
    for ref in run.seeds:
        table = get_table(run.store, ref)
        digests.append(input_digests(run, table))
        if LABEL in table.column_names:
            label_values.append(table.column(LABEL).to_pylist())
        slices.add(table)
    ids = np.concatenate(digests)
    places = book.find(ids)
    answered = errors.answered(ids, places)
    classifier = run.info.type.endswith("-classifier")
    if classifier:
        used = sorted({int(code) for code in np.unique(book.codes[places[places >= 0]])}) if len(book.codes) else []
        classes = classes_of(run.info.classes, run.prepared["labels"], [book.values[code] for code in used])
        labels = classes.codes([value for part in label_values for value in part]).astype(float) if label_values else None
        answers = answer_values(book, places, classes)
        oracle = Oracle(True)
    else:
        classes = Classes(())
        labels = np.array([value for part in label_values for value in part], float) if label_values else None
        answers = answer_values(book, places, None)
        oracle = regression_oracle(answers, labels, tolerance, seed_tolerance)
    right = oracle.right(answers, labels)
    columns = slices.columns
    if classifier and labels is not None:
        columns.insert(0, SliceColumn("label", classes.names, labels.astype(np.int32)))
    return Baseline(classes, oracle, answered, places, answers, labels, right, columns, descent_rows(run))


def descent_rows(run: Run) -> NDArray[np.int64] | None:
    """The number of the real row that each synthesized seed descends from, by rank; None where the seeds are real."""
    if "real" not in run.prepared:
        return None
    rows = get_table(run.store, ArtifactRef.of(run.prepared["positions"])).column("row").to_numpy()
    return np.asarray(np.unique(rows, return_inverse=True)[1], np.int64)


def answer_values(book: AnswerBook, places: NDArray[np.int64], classes: Classes | None) -> NDArray[np.float64]:
    """Class codes (or numbers, where `classes` is None) of the answers at places; -1 (NaN) where there is none."""
    missing = np.nan if classes is None else -1.0
    values = np.array([float(value) for value in book.values] if classes is None else classes.codes(book.values), float)
    result = np.full(len(places), missing)
    found = places >= 0
    if found.any():
        result[found] = values[book.codes[places[found]]]
    return result


def own_scores(book: AnswerBook, places: NDArray[np.int64], codes: NDArray[np.float64]) -> NDArray[np.float64]:
    """The model's score of its own answer, NaN where there is none."""
    result = np.full(len(places), np.nan)
    if book.scores is None:
        return result
    usable = (places >= 0) & (codes >= 0) & (codes < book.scores.shape[1])
    result[usable] = book.scores[places[usable], codes[usable].astype(int)]
    return result


class _SliceBuilder:
    """Collects the slice of every seed, column by column, as small codes."""

    def __init__(self, run: Run) -> None:
        self._profile = run.profile
        self._names = [column.name for column in run.profile.columns if sliceable(column)]
        self._known: dict[str, dict[str, int]] = {name: {} for name in self._names}
        self._codes: dict[str, list[NDArray[np.int32]]] = {name: [] for name in self._names}

    def add(self, table: Any) -> None:
        for name in self._names:
            known = self._known[name]
            labels = slice_labels(table.column(name), self._profile[name])
            self._codes[name].append(np.array([known.setdefault(label, len(known)) for label in labels], np.int32))

    @property
    def columns(self) -> list[SliceColumn]:
        return [SliceColumn(name, list(self._known[name]), np.concatenate(self._codes[name])) for name in self._names]
