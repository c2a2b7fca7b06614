"""Directions: one column at value after value, everything else as it is; does the answer move as it may.

A case is a row with the column at one value. It is compared with its neighbour towards the row's own value: the last value on
the way there, or the row itself. So every stretch between two neighbouring values is looked at once, wherever the row stands.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from aitest_lib.answers import AnswerBook
from aitest_lib.artifacts.codecs import TableWriter
from aitest_lib.config.suite import PropertyConfig
from aitest_lib.reports.explain_fairness import explain_direction_case
from aitest_lib.reports.records_fairness import DirectionReport
from aitest_lib.reports.slices import rank_slices
from aitest_lib.scorers.directions import direction_report
from aitest_lib.scorers.figures import Figure
from aitest_lib.scorers.invariance import ERROR, FAILED, PASSED, SKIPPED
from aitest_lib.stats.clusters import clustered_rate
from aitest_lib.stats.estimates import Estimate, undefined
from aitest_lib.stats.noise import taken_off, turned_by_chance
from aitest_tasks import live
from aitest_tasks.baseline import Baseline, Errors
from aitest_tasks.cases import METADATA, CaseLog, cases_schema, text_of, texts
from aitest_tasks.counterpart_cases import Part, block, own_baseline, parts
from aitest_tasks.direction_curves import MovedCurves, moved_columns, moved_curves, step_of
from aitest_tasks.pair_plans import own_flips
from aitest_tasks.property_report import finish, setting
from aitest_tasks.querying import answer_book, run_errors
from aitest_tasks.runs import Run
from aitest_tasks.shown import FailureSample

NO_SCORES = "the model gives no scores; watch the decision instead: {column}: {{{expected}: decision}}"
CHANCE = "the {:.3f} that the model's own flips explain are taken off"
NO_SCORE = "the model gave an answer without a score"
NOT_APPLICABLE = "not_applicable"
LARGEST = "the largest move that was seen has no interval"


def score_directions(run: Run, index: int, config: PropertyConfig, job: dict[str, Any]) -> dict[str, Any]:
    errors = Errors(run_errors(run), job["unpaid"] > 0)
    book = answer_book(run)
    base = own_baseline(run, book, errors, config)
    made = moved_columns(run, index)
    columns = moved_curves(run, index, job["cases"], book, base, errors)
    sample = FailureSample(len(made))
    size = len(base.places)
    counts = {name: np.zeros((3, size), np.int64) for name in columns}  # trials, failures, doubtful ones of each seed
    with TableWriter(run.store, cases_schema(base.columns), METADATA) as writer:
        log = CaseLog(writer, config.property, base.columns)
        for number, part in enumerate(parts(run, index, job["cases"], book, base, errors)):
            moved = made[part.number]
            column = columns[moved.column]
            step = step_of(made, part.number)
            ended = _outcomes(part, column, step, base)
            expected, said = _explained(part, column, step, ended[0], book, base)
            done = block(run, part, book, expected, column.curves.values[part.ranks, step], ended, said)
            doubtful = column.curves.against[part.ranks, step] & (ended[0] == PASSED)
            for row, mask in enumerate(
                (np.isin(ended[0], (PASSED, FAILED)), ended[0] == FAILED, (ended[0] == ERROR) | doubtful)
            ):
                counts[moved.column][row][part.ranks] += mask
            sample.add(part.number, done, part.rows)
            log.add(done)
            live.progress(config.property, "score", number + 1, len(job["cases"]))
    confidence = float(setting(run.suite.suite, config, "confidence"))
    sequential = bool(setting(run.suite.suite, config, "sequential"))
    figures, reports, flips = list[Figure](), [], own_flips(run, base)
    for name, column in columns.items():
        chance = turned_by_chance(flips, len(column.values)) if column.watched.on == "decision" else 0.0
        of_column, report = _figures(base, column, counts[name], confidence, sequential, chance)
        figures += of_column
        reports.append(report)
    trials, failures, lost = np.sum([*counts.values()], axis=0)
    every = sum(len(column.values) for column in columns.values() if column.watched.on == "decision")
    figures += _rates(base, {}, trials, failures, lost, sequential, turned_by_chance(flips, every))
    ranked = rank_slices(base.columns, trials > 0, failures > 0, confidence)
    return finish(run, config, figures, base, log, writer, sample, ranked, directions=reports)


def _outcomes(part: Part, column: MovedCurves, step: int, base: Baseline) -> tuple[NDArray[np.int8], NDArray[np.object_]]:
    """Outcome and reason of the cases of a column at one value."""
    outcome, reason = part.outcomes(base, ~column.curves.against[part.ranks, step])
    unknown = np.isin(outcome, (PASSED, FAILED)) & np.isnan(column.curves.values[part.ranks, step])
    outcome[unknown] = ERROR if column.watched.known else SKIPPED
    reason[unknown] = NO_SCORE if column.watched.known else NOT_APPLICABLE
    return outcome, reason


def _explained(
    part: Part,
    column: MovedCurves,
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
    column: MovedCurves,
    counts: NDArray[np.int64],
    confidence: float,
    sequential: bool,
    chance: float,
) -> tuple[list[Figure], DirectionReport]:
    """The figures of a column and its report; `counts` (3, seeds): cases that were judged, that failed, without an answer."""
    where = {"column": column.name}
    trials, failures, lost = counts
    if not column.watched.known:
        why = NO_SCORES.format(column=column.name, expected=column.expected.expected)
        figures = [Figure(name="violation_rate", slice=where, estimate=undefined(why), higher_is_better=False, component=True)]
    else:
        figures = _rates(base, where, trials, failures, lost, sequential, chance)
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
    sequential: bool,
    chance: float,
) -> list[Figure]:
    """Share of rows with a violation, and of cases without one, over all columns or those of one; `lost` may be violations;
    `chance`: share of rows that the model's own flips explain."""
    told, hit = trials > 0, failures > 0
    worst = base.share(hit | (lost > 0), told | (lost > 0), sequential) if lost.any() else None
    share = base.share(hit, told, sequential)
    violations = Figure(
        name="violation_rate",
        slice=where,
        estimate=share,
        judged=taken_off(share, chance) if chance else None,
        note=CHANCE.format(chance) if chance else None,
        pessimistic=worst,
        higher_is_better=False,
        component=bool(where),
    )
    kept, tried, asked = (_by_unit(base, counts) for counts in (trials - failures, trials, trials + lost))
    passed = Figure(
        name="pass_rate",
        slice=where,
        estimate=clustered_rate(kept, tried),
        pessimistic=clustered_rate(kept, asked) if lost.any() else None,
        component=bool(where),
    )
    return [violations, passed]


def _by_unit(base: Baseline, counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Counts of seeds, or of the real rows that synthesized ones descend from."""
    return counts if base.descent is None else np.bincount(base.descent, counts).astype(np.int64)
