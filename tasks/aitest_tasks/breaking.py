"""Breaking points: round by round, the next strengths to try on each seed, by the answers so far.

The first round asks the coarse levels of all seeds at once; each later one a level a seed, between one that held and one
that broke. What is asked hangs on seeds and answers alone, so that a resumed run asks the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aitest_lib.answers import AnswerBook
from aitest_lib.artifacts.codecs import get_table
from aitest_lib.searches.breaking_point import BROKE, HELD, UNKNOWN, UNUSABLE, Outcomes
from aitest_lib.searches.strengths import StrengthSearch
from aitest_lib.types import ArtifactRef
from aitest_tasks.baseline import Baseline, Errors, read_baseline
from aitest_tasks.case_tables import STATUS, strengths_of
from aitest_tasks.generation import generation_job
from aitest_tasks.inputs import input_digests
from aitest_tasks.querying import answer_book, run_errors
from aitest_tasks.runs import Run
from aitest_tasks.seed_tables import DIGEST, RANK

Made = dict[str, Any]  # {"search": place of the search, "job": of the generation, "ref": its cases}


def baseline_of(run: Run, index: int) -> Baseline:
    """The answers on the seeds, as a property counts them."""
    config = run.suite.suite.properties[index]
    errors = Errors(run_errors(run), True)
    return read_baseline(run, answer_book(run), errors, config)


def first_jobs(run: Run, searches: list[StrengthSearch], base: Baseline) -> list[tuple[int, dict[str, Any]]]:
    """Place of the search and job, for the coarse levels of all seeds that the model gets right."""
    usable = base.answered.known & base.right
    return [
        (place, job)
        for place, search in enumerate(searches)
        for level in search.search.coarse().tolist()
        for job in _jobs(run, search, np.where(usable, level, 0))
    ]


def next_jobs(
    run: Run, searches: list[StrengthSearch], base: Baseline, book: AnswerBook, made: list[Made]
) -> list[tuple[int, dict[str, Any]]]:
    """The same for one more level of each seed; none where nothing is left to ask."""
    jobs = []
    for place, search in enumerate(searches):
        outcomes = ladder(run, search, base, book, (one for one in made if one["search"] == place))
        levels = search.search.next_levels(outcomes)
        levels[(outcomes[:, search.search.coarse()] == UNKNOWN).any(axis=1)] = 0  # not begun, or the budget has ended
        jobs += [(place, job) for job in _jobs(run, search, levels)]
    return jobs


def ladder(run: Run, search: StrengthSearch, base: Baseline, book: AnswerBook, made: Iterable[Made]) -> Outcomes:
    """What is known of every seed (by rank) at every level."""
    outcomes = search.search.start(len(base.places))
    strengths = search.search.strengths(search.identity, float(search.transform.strength_value or 0))
    errors = run_errors(run)
    for one in made:
        ranks, found = case_outcomes(run, base, book, ArtifactRef.of(one["ref"]), errors)
        levels = np.abs(strengths_of(one["job"])[:, None] - strengths).argmin(axis=1)
        outcomes[ranks, levels] = found
    return outcomes


def case_outcomes(
    run: Run, base: Baseline, book: AnswerBook, ref: ArtifactRef, errors: dict[str, str]
) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
    """Rank and outcome of each case of a shard: held, broke, unusable, or unknown where it was not asked."""
    table = get_table(run.store, ref, [DIGEST, RANK, STATUS])
    ranks = table.column(RANK).to_numpy().astype(np.int64)
    digests = input_digests(run, table)
    places = book.find(digests)
    values = base.values(book, places, ranks)
    same = base.oracle.same(base.answers[ranks], values)
    found = np.where(places >= 0, np.where(same, HELD, BROKE), UNKNOWN).astype(np.int8)
    for row, status in enumerate(table.column(STATUS).to_pylist()):
        if status is not None:
            found[row] = HELD if status == "no_op" else UNUSABLE
        elif found[row] == UNKNOWN and digests[row].tobytes().hex() in errors:
            found[row] = UNUSABLE
    return ranks, found


def _jobs(run: Run, search: StrengthSearch, levels: NDArray[np.int64]) -> list[dict[str, Any]]:
    """Generations of the seeds whose level (by rank) is not 0, one a shard."""
    jobs, start = [], 0
    for ref in run.seeds:
        part = levels[start : start + ref.rows]
        rows = np.flatnonzero(part)
        if len(rows):
            strengths = [search.strength_of(level) for level in part[rows].tolist()]
            jobs.append(generation_job(run, search.transform, ref, rows.tolist(), strengths))
        start += ref.rows
    return jobs
