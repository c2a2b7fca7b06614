"""The model's answers on the untouched seeds, beside the labels: what both oracles and all slices start from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aitest_lib.answers import AnswerBook
from aitest_lib.artifacts.codecs import get_table
from aitest_lib.config.suite import PropertyConfig
from aitest_lib.data.schema import slice_labels, sliceable
from aitest_lib.reports.slices import SliceColumn
from aitest_lib.scorers.invariance import Answered
from aitest_lib.scorers.oracle import Classes, Oracle, classes_of, regression_oracle
from aitest_lib.stats.clusters import rate_of_rows
from aitest_lib.stats.estimates import Estimate
from aitest_lib.stats.sequences import rate_sequence
from aitest_lib.types import ArtifactRef
from aitest_tasks.inputs import input_digests
from aitest_tasks.runs import Run
from aitest_tasks.seed_tables import LABEL, SECONDS, SPEAKER_CODE
from aitest_tasks.transcripts import Transcripts, read_transcripts

WER_TOLERANCE = 0.1  # by which the word error rate may rise and the case still pass
UNINTELLIGIBLE = 0.5  # word error rate above which an untouched clip is not understood
NOT_ASKED = "the query did not end"
BY_LABEL = "label"  # the slice of a seed by its label


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

    `answers`, `labels`: class codes (classifier; -1 no class), numbers (regressor; NaN where there is none), or word error
    rates and zeros (recogniser, whose `transcripts` say what was heard), as float64; `descent`: the number of the unit that a
    seed belongs to, where that is not the seed: the real row that a synthesized one descends from, the speaker of a clip;
    `digests` of the inputs.
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
    transcripts: Transcripts | None = None
    digests: NDArray[np.void] = field(default_factory=lambda: np.empty(0, "V16"))
    by_label: SliceColumn | None = None  # the one of `columns` that is the label, and no column of the data

    @property
    def cuts(self) -> list[SliceColumn]:
        """The slices by columns of the data alone."""
        return [column for column in self.columns if column is not self.by_label]

    def values(self, book: AnswerBook, places: NDArray[np.int64], ranks: NDArray[np.int64]) -> NDArray[np.float64]:
        """The answers at places as `answers` has them; `ranks`: those of the seeds that they belong to."""
        if self.transcripts is not None:
            return self.transcripts.rates(book, places, ranks)
        return answer_values(book, places, self.classes if self.oracle.classifier else None)

    @property
    def heard(self) -> Transcripts:
        """What a recogniser heard; `ValueError` of other models."""
        if self.transcripts is None:
            raise ValueError("this model hears nothing")
        return self.transcripts

    def share(self, hit: NDArray[np.bool_], told: NDArray[np.bool_], sequential: bool) -> Estimate:
        """The share of the seeds of `told` (seeds,) that are in `hit`, by the units that they belong to; `sequential`: valid
        under repeated looks, where every seed is a unit."""
        if sequential and self.descent is None:
            return rate_sequence(int((hit & told).sum()), int(told.sum()))
        return rate_of_rows(hit[told], self.descent_of(told))

    def descent_of(self, mask: NDArray[np.bool_]) -> NDArray[np.int64] | None:
        """`descent` of the seeds of a mask."""
        return None if self.descent is None else self.descent[mask]


def read_baseline(run: Run, book: AnswerBook, errors: Errors, config: PropertyConfig) -> Baseline:
    """Reads the seeds shard by shard and looks up their answers; `config`: of the property, for its tolerances."""
    digests, label_values, speakers, seconds = [], [], list[int](), list[float]()
    slices = _SliceBuilder(run)
    for ref in run.seeds:
        table = get_table(run.store, ref)
        digests.append(input_digests(run, table))
        if LABEL in table.column_names:
            label_values.append(table.column(LABEL).to_pylist())
        speakers += table.column(SPEAKER_CODE).to_pylist() if SPEAKER_CODE in table.column_names else []
        seconds += table.column(SECONDS).to_pylist() if SECONDS in table.column_names else []
        slices.add(table)
    ids = np.concatenate(digests)
    places = book.find(ids)
    answered = errors.answered(ids, places)
    if run.modality == "speech":
        said = [value for part in label_values for value in part] if label_values else None
        transcripts = read_transcripts(run, book, config, places, said, speakers, ids, seconds)
        return _of_transcripts(book, config, answered, places, transcripts, slices.columns)
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
        oracle = regression_oracle(answers, labels, config.tolerance, config.seed_tolerance)
    right = oracle.right(answers, labels)
    columns, by_label = slices.columns, None
    if classifier and labels is not None:
        by_label = SliceColumn(_free_name(columns, run), classes.names, labels.astype(np.int32))
        columns.insert(0, by_label)
    descent = descent_rows(run)
    return Baseline(classes, oracle, answered, places, answers, labels, right, columns, descent, digests=ids, by_label=by_label)


def _free_name(columns: list[SliceColumn], run: Run) -> str:
    """`label`, or another name where the data have a column of that name which is not the label."""
    taken, name = {column.name for column in columns}, BY_LABEL
    while name in taken:
        name = f"{name} ({run.suite.suite.data.label})"
    return name


def _of_transcripts(
    book: AnswerBook,
    config: PropertyConfig,
    answered: Answered,
    places: NDArray[np.int64],
    transcripts: Transcripts,
    columns: list[SliceColumn],
) -> Baseline:
    """The baseline of a recogniser: word error rates, of which none is what it should be."""
    answers = transcripts.rates(book, places, np.arange(len(places)))
    oracle = Oracle(
        False,
        WER_TOLERANCE if config.tolerance is None else config.tolerance,
        UNINTELLIGIBLE if config.seed_tolerance is None else config.seed_tolerance,
        one_sided=True,
    )
    labels = None if transcripts.own else np.zeros(len(places))
    right = oracle.right(np.nan_to_num(answers, nan=np.inf), labels)
    descent = transcripts.units if transcripts.by_speaker else None
    return Baseline(Classes(()), oracle, answered, places, answers, labels, right, columns, descent, transcripts)


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
