"""Directions: one column at value after value, everything else as it is; does the answer move as it may.

A case is a row with the column at one value. It is compared with its neighbour towards the row's own value: the last value on
the way there, or the row itself. So every stretch between two neighbouring values is looked at once, wherever the row stands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aitest_lib.answers import AnswerBook
from aitest_lib.artifacts.codecs import TableWriter
from aitest_lib.config.fairness import Expectation
from aitest_lib.config.suite import PropertyConfig
from aitest_lib.data.table import frame_cells
from aitest_lib.reports.explain_fairness import explain_direction_case
from aitest_lib.reports.records_fairness import DirectionReport
from aitest_lib.reports.slices import rank_slices
from aitest_lib.scorers.directions import Curves, Watched, direction_report
from aitest_lib.scorers.figures import Figure
from aitest_lib.scorers.invariance import ERROR, FAILED, PASSED, SKIPPED
from aitest_lib.stats.clusters import clustered_rate, rate_of_rows
from aitest_lib.stats.estimates import Estimate, undefined
from aitest_lib.transforms.values import MovedColumn
from aitest_tasks import live
from aitest_tasks.baseline import Baseline, Errors
from aitest_tasks.cases import METADATA, CaseLog, cases_schema, text_of, texts
from aitest_tasks.components import components
from aitest_tasks.counterpart_cases import Part, block, own_baseline, parts
from aitest_tasks.counterparts import rows_looked_at, seed_frame
from aitest_tasks.favorable import favorable_answer
from aitest_tasks.property_report import finish, setting
from aitest_tasks.querying import answer_book, run_errors
from aitest_tasks.runs import Run
from aitest_tasks.shown import FailureSample

NO_SCORES = "the model gives no scores; watch the decision instead: {column}: {{{expected}: decision}}"
NO_SCORE = "the model gave an answer without a score"
NOT_APPLICABLE = "not_applicable"
LARGEST = "the largest move that was seen has no interval"
SCORE_MOVE = 1e-6  # of a score, which as a float32 is no more exact


@dataclass(frozen=True)
class _Column:
    """A column, what is expected of it, and its curves."""

    name: str
    expected: Expectation
    watched: Watched
    values: list[Any]
    curves: Curves


def score_directions(run: Run, index: int, config: PropertyConfig, job: dict[str, Any]) -> dict[str, Any]:
    errors = Errors(run_errors(run), job["unpaid"] > 0)
    book = answer_book(run)
    base = own_baseline(run, book, errors, config)
    made = [one for one in components(run, index) if isinstance(one, MovedColumn)]
    columns = _columns(run, index, config, job["cases"], book, base, errors)
    sample = FailureSample(len(made))
    size = len(base.places)
    counts = {name: np.zeros((3, size), np.int64) for name in columns}  # trials, failures, errors of each seed
    with TableWriter(run.store, cases_schema(base.columns), METADATA) as writer:
        log = CaseLog(writer, config.property, base.columns)
        for number, part in enumerate(parts(run, index, job["cases"], book, base, errors)):
            moved = made[part.number]
            column = columns[moved.column]
            step = [at for at, one in enumerate(made) if one.column == moved.column].index(part.number)
            ended = _outcomes(part, column, step, base)
            expected, said = _explained(part, column, step, ended[0], book, base)
            done = block(run, part, book, expected, column.curves.values[part.ranks, step], ended, said)
            for row, outcomes in enumerate(((PASSED, FAILED), (FAILED,), (ERROR,))):
                counts[moved.column][row][part.ranks] += np.isin(ended[0], outcomes)
            sample.add(part.number, done, part.rows)
            log.add(done)
            live.progress(config.property, "score", number + 1, len(job["cases"]))
    confidence = float(setting(run.suite.suite, config, "confidence"))
    figures, reports = list[Figure](), []
    for name, column in columns.items():
        of_column, report = _figures(base, column, counts[name], confidence)
        figures += of_column
        reports.append(report)
    trials, failures, lost = np.sum([*counts.values()], axis=0)
    figures += _rates(base, {}, trials, failures, lost)
    ranked = rank_slices(base.columns, trials > 0, failures > 0, confidence)
    return finish(run, config, figures, base, log, writer, sample, ranked, directions=reports)


def _columns(
    run: Run,
    index: int,
    config: PropertyConfig,
    cases: list[dict[str, Any]],
    book: AnswerBook,
    base: Baseline,
    errors: Errors,
) -> dict[str, _Column]:
    """The curves of every column over the rows that were looked at."""
    made = [one for one in components(run, index) if isinstance(one, MovedColumn)]
    rows = rows_looked_at(run, index)
    watched = {name: _watched(base, book, run, one, config.tolerance) for name, one in (config.directions or {}).items()}
    width = {name: sum(one.column == name for one in made) for name in watched}
    found = {name: np.full((len(base.places), count), np.nan) for name, count in width.items()}
    step = {number: sum(one.column == part.column for one in made[:number]) for number, part in enumerate(made)}
    for part in parts(run, index, cases, book, base, errors):
        name = made[part.number].column
        values = _measured(book, base, watched[name], part.places, part.values)
        known = part.on_case.known & np.array([why in (None, "no_op") for why in part.skip], bool)
        # A case that leaves the row as it is has the row's own answer.
        same = np.array([why == "no_op" for why in part.skip], bool)
        own = _measured(book, base, watched[name], base.places[part.ranks], base.answers[part.ranks])
        found[name][part.ranks, step[part.number]] = np.where(same, own, np.where(known, values, np.nan))
    columns = {}
    for name, expected in (config.directions or {}).items():
        grid = [one.to for one in made if one.column == name]
        own_value = _measured(book, base, watched[name], base.places, base.answers)
        place = _places(frame_cells(seed_frame(run, [name], rows)[name]), grid)
        own_place = np.concatenate([place, np.full(len(base.places) - rows, np.nan)])
        curves = Curves.of(found[name], own_value, own_place, expected.upwards, watched[name].tolerance)
        columns[name] = _Column(name, expected, watched[name], grid, curves)
    return columns


def _places(cells: list[Any], values: list[Any]) -> NDArray[np.float64]:
    """Where on the way from the first to the last value each cell stands (n,): between two of them it is one and a half, say;
    NaN where a cell is none of the categories, or missing."""
    if values and all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        numbers = np.array([np.nan if cell is None else float(cell) for cell in cells])
        grid = np.array(values, float)
        left = np.searchsorted(grid, numbers, side="left")
        exact = (left < len(grid)) & (grid[np.minimum(left, len(grid) - 1)] == numbers)
        return np.where(np.isnan(numbers), np.nan, np.where(exact, left, left - 0.5))
    known = {str(value): float(at) for at, value in enumerate(values)}
    return np.array([known.get(str(cell), np.nan) for cell in cells])


def _watched(base: Baseline, book: AnswerBook, run: Run, expected: Expectation, tolerance: float | None) -> Watched:
    """`tolerance`: how far it may move the wrong way; by default as far as rounding may take it."""
    if not base.oracle.classifier:
        known = base.answers[base.answered.known]
        spread = float(np.std(known)) if len(known) else 0.0
        return Watched("number", None, SCORE_MOVE * spread if tolerance is None else tolerance)
    favorable = favorable_answer(run, base)
    scored = book.scores is not None and book.scores.shape[1] == len(base.classes.labels)
    usual = "score" if scored and expected.expected in ("increasing", "decreasing") else "decision"
    on = expected.on or usual
    code = base.classes.codes([favorable])[0]
    if on == "score":
        return Watched("score", text_of(favorable), SCORE_MOVE if tolerance is None else tolerance, int(code), scored)
    return Watched("decision", text_of(favorable), 0.0, int(code))


def _measured(
    book: AnswerBook, base: Baseline, watched: Watched, places: NDArray[np.int64], values: NDArray[np.float64]
) -> NDArray[np.float64]:
    """What is watched of answers at places of the book (n,); NaN where there is none."""
    if watched.on == "number":
        return values
    if watched.on == "decision":
        return np.where(places >= 0, (values == watched.code).astype(float), np.nan)
    if not watched.known or book.scores is None:
        return np.full(len(places), np.nan)
    return np.where(places >= 0, book.scores[places, watched.code], np.nan)


def _outcomes(part: Part, column: _Column, step: int, base: Baseline) -> tuple[NDArray[np.int8], NDArray[np.object_]]:
    """Outcome and reason of the cases of a column at one value."""
    outcome, reason = part.outcomes(base, ~column.curves.against[part.ranks, step])
    unknown = np.isin(outcome, (PASSED, FAILED)) & np.isnan(column.curves.values[part.ranks, step])
    outcome[unknown] = ERROR if column.watched.known else SKIPPED
    reason[unknown] = NO_SCORE if column.watched.known else NOT_APPLICABLE
    return outcome, reason


def _explained(
    part: Part,
    column: _Column,
    step: int,
    outcome: NDArray[np.int8],
    book: AnswerBook,
    base: Baseline,
) -> tuple[list[str | None], list[str | None]]:
    """What the model said at the neighbouring value, as far as it is known by name, and a sentence for every failed case."""
    before = column.curves.before[part.ranks, step]
    neighbour = column.curves.neighbour[part.ranks, step]
    after = column.curves.values[part.ranks, step]
    seeds, said = part.rows, list[str | None]([None] * len(outcome))
    answers = book.labels(part.places)
    own = book.labels(base.places[part.ranks])
    for row in np.flatnonzero(outcome == FAILED).tolist():
        at = neighbour[row]
        start = seeds.seed(row)[column.name] if at < 0 else text_of(column.values[at])
        ends: tuple[Any, Any] = (before[row], after[row])
        if column.watched.on == "decision":
            turned = (
                text_of(own[row])
                if at < 0
                else (column.watched.favorable if before[row] else f"not {column.watched.favorable}")
            )
            ends = (turned, text_of(answers[row]))
        said[row] = explain_direction_case(
            column.name,
            start,
            text_of(column.values[step]),
            column.expected.expected,
            column.watched.on,
            *ends,
            favorable=column.watched.favorable,
        )
    return texts(own), said


def _figures(
    base: Baseline,
    column: _Column,
    counts: NDArray[np.int64],
    confidence: float,
) -> tuple[list[Figure], DirectionReport]:
    """The figures of a column and its report; `counts` (3, seeds): cases that were judged, that failed, without an answer."""
    where = {"column": column.name}
    trials, failures, lost = counts
    if not column.watched.known:
        why = NO_SCORES.format(column=column.name, expected=column.expected.expected)
        figures = [Figure(name="violation_rate", slice=where, estimate=undefined(why), higher_is_better=False, component=True)]
    else:
        figures = _rates(base, where, trials, failures, lost)
    report = direction_report(
        column.name, column.expected.expected, column.watched, column.values, column.curves, figures[0].estimate, confidence
    )
    size = Estimate(value=report.largest or 0.0, n=report.rows, reason=LARGEST)
    unit = "1" if column.watched.on != "number" else "answer units"
    return [*figures, Figure(name="largest_violation", slice=where, estimate=size, unit=unit, higher_is_better=False)], report


def _rates(
    base: Baseline,
    where: dict[str, Any],
    trials: NDArray[np.int64],
    failures: NDArray[np.int64],
    lost: NDArray[np.int64],
) -> list[Figure]:
    """Share of rows with a violation, and of cases without one, over all columns or those of one."""
    told, hit = trials > 0, failures > 0
    worst = rate_of_rows((hit | (lost > 0))[told | (lost > 0)], base.descent_of(told | (lost > 0))) if lost.any() else None
    violations = Figure(
        name="violation_rate",
        slice=where,
        estimate=rate_of_rows(hit[told], base.descent_of(told)),
        pessimistic=worst,
        higher_is_better=False,
        component=bool(where),
    )
    by = (
        (lambda counts: counts) if base.descent is None else (lambda counts: np.bincount(base.descent, counts).astype(np.int64))
    )
    passed = Figure(
        name="pass_rate",
        slice=where,
        estimate=clustered_rate(by(trials - failures), by(trials)),
        pessimistic=clustered_rate(by(trials - failures), by(trials + lost)) if lost.any() else None,
        component=bool(where),
    )
    return [violations, passed]
