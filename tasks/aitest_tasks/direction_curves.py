"""Curves of the moved columns: what is watched in every row, value after value, as the model answered it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aitest_lib.answers import AnswerBook
from aitest_lib.artifacts.codecs import put_table
from aitest_lib.config.fairness import Expectation, expectations
from aitest_lib.data.table import frame_cells
from aitest_lib.scorers.directions import Curves, Watched
from aitest_lib.transforms.values import MovedColumn
from aitest_tasks.baseline import Baseline, Errors
from aitest_tasks.cases import text_of
from aitest_tasks.components import components
from aitest_tasks.counterpart_cases import own_baseline, parts
from aitest_tasks.counterparts import rows_looked_at, seed_frame
from aitest_tasks.favorable import favorable_answer
from aitest_tasks.growing_rows import public_columns
from aitest_tasks.inputs import input_digests
from aitest_tasks.preparing import SELF_FLIP_REPEATS
from aitest_tasks.querying import answer_book, run_errors
from aitest_tasks.runs import Run
from aitest_tasks.seed_tables import DIGEST, RANK

SCORE_MOVE = 1e-6  # of a score, which as a float32 is no more exact


@dataclass(frozen=True)
class MovedCurves:
    """A column, what is expected of it, the values that it was set to, and what came of it. `doubtful` (seeds, values): it
    goes against the expectation by the middle answers, but not by all; then it does not count as such."""

    name: str
    expected: Expectation
    watched: Watched
    values: list[Any]
    curves: Curves
    doubtful: NDArray[np.bool_]


def moved_curves(
    run: Run, index: int, cases: list[dict[str, Any]], book: AnswerBook, base: Baseline, errors: Errors
) -> dict[str, MovedCurves]:
    """The curves of every column over the rows that were looked at; of several answers to a row the middle one counts."""
    config, rows = run.suite.suite.properties[index], rows_looked_at(run, index)
    made = moved_columns(run, index)
    books = [book, *_repeats(run)]
    watched = {name: _watched(base, book, run, one, config.tolerance) for name, one in expectations(config.directions).items()}
    grids = {name: [one.to for one in made if one.column == name] for name in watched}
    own = {name: _range(books, base, one, base.digests, np.arange(len(base.places))) for name, one in watched.items()}
    if len(books) > 1:  # what differs between answers to the same row is no move
        watched = {name: replace(one, tolerance=one.tolerance + _noise(own[name])) for name, one in watched.items()}
    found = {name: np.full((3, len(base.places), len(grid)), np.nan) for name, grid in grids.items()}
    for part in parts(run, index, cases, book, base, errors):
        name = made[part.number].column
        values = _range(books, base, watched[name], input_digests(run, part.cases), part.ranks)
        # A case that leaves the row as it is has the row's own answer.
        same = np.array([why == "no_op" for why in part.skip], bool)
        values = np.where(same, own[name][:, part.ranks], np.where(part.asked & part.on_case.known, values, np.nan))
        found[name][:, part.ranks, step_of(made, part.number)] = values
    columns = {}
    for name, expected in expectations(config.directions).items():
        place = _places(frame_cells(seed_frame(run, [name], rows)[name]), grids[name])
        own_place = np.concatenate([place, np.full(len(base.places) - rows, np.nan)])
        least, middle, most = found[name]
        curves = Curves.of(middle, own[name][1], own_place, expected.upwards, watched[name].tolerance)
        firm = curves.firm((least, most), (own[name][0], own[name][2]), expected.upwards, watched[name].tolerance)
        doubtful = curves.against & ~firm
        columns[name] = MovedCurves(name, expected, watched[name], grids[name], replace(curves, against=firm), doubtful)
    return columns


def moved_columns(run: Run, index: int) -> list[MovedColumn]:
    """The components of the property: each column at each of its values."""
    return [one for one in components(run, index) if isinstance(one, MovedColumn)]


def step_of(made: list[MovedColumn], number: int) -> int:
    """The place of a component's value among those of its column."""
    return sum(one.column == made[number].column for one in made[:number])


def write_against(run: Run, index: int, cases: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The cases that go against an expectation by the first answers of a model that does not always answer alike, and those
    that they are compared with, to be asked again; None where there are none."""
    book, errors = answer_book(run), Errors(run_errors(run), True)
    base = own_baseline(run, book, errors, run.suite.suite.properties[index])
    columns, made, wanted = moved_curves(run, index, cases, book, base, errors), moved_columns(run, index), {}
    for name, column in columns.items():
        rows, steps = np.nonzero(column.curves.against)
        near = column.curves.neighbour[rows, steps]
        wanted[name] = np.zeros(column.curves.against.shape, bool)
        wanted[name][rows, steps] = True
        wanted[name][rows[near >= 0], near[near >= 0]] = True
    tables = []
    for part in parts(run, index, cases, book, base, errors):
        again = wanted[made[part.number].column][part.ranks, step_of(made, part.number)] & part.asked
        if again.any():
            tables.append(part.cases.filter(pa.array(again)).select([RANK, DIGEST, *public_columns(run)]))
    return put_table(run.store, pa.concat_tables(tables)).to_dict() if tables else None


def _repeats(run: Run) -> list[AnswerBook]:
    """Further answers to the same inputs, of a model that does not always answer alike."""
    if run.prepared["deterministic"]:
        return []
    return [answer_book(run, repeat) for repeat in range(1, 1 + SELF_FLIP_REPEATS)]


def _range(
    books: list[AnswerBook], base: Baseline, watched: Watched, digests: NDArray[np.void], ranks: NDArray[np.int64]
) -> NDArray[np.float64]:
    """What is watched of inputs: the least, the median and the greatest of all answers to each (3, n); NaN where none is."""
    answers = []
    for book in books:
        places = book.find(digests)
        answers.append(_measured(book, base, watched, places, base.values(book, places, ranks)))
    found = np.stack(answers)
    known = ~np.isnan(found[0])
    result = np.full((3, len(digests)), np.nan)
    if known.any():
        result[:, known] = [summary(found[:, known], axis=0) for summary in (np.nanmin, np.nanmedian, np.nanmax)]
    return result


def _noise(own: NDArray[np.float64]) -> float:
    """How far the answers to an untouched row are apart: no further in 95 % of the rows."""
    apart = own[2] - own[0]
    known = apart[~np.isnan(apart)]
    return float(np.quantile(known, 0.95)) if len(known) else 0.0


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
