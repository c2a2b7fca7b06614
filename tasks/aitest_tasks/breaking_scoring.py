"""Breaking points: one case a seed, the smallest failing strength found on it, and what that says of the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aitest_lib.answers import AnswerBook
from aitest_lib.artifacts.codecs import get_table
from aitest_lib.canonical import canonical_json
from aitest_lib.reports.explain import explain_image_case
from aitest_lib.reports.report import BreakingPoints
from aitest_lib.scorers.figures import Figure
from aitest_lib.scorers.invariance import FAILED, PASSED, Answered, InvarianceScorer
from aitest_lib.searches.breaking_point import HELD, UNKNOWN, Outcomes
from aitest_lib.searches.strengths import StrengthSearch
from aitest_lib.stats.estimates import Estimate, undefined
from aitest_lib.stats.intervals import median, wilson
from aitest_lib.transforms.base import unit_of
from aitest_lib.types import ArtifactRef
from aitest_tasks.baseline import Baseline, Errors, own_scores
from aitest_tasks.breaking import Made, ladder
from aitest_tasks.case_tables import DETAIL, DISTANCE, STATUS, case_id, strengths_of
from aitest_tasks.cases import CaseBlock, CaseLog, text_of, texts
from aitest_tasks.components import components, searches
from aitest_tasks.contents import content_of
from aitest_tasks.hearing import Hearing
from aitest_tasks.inputs import input_digests
from aitest_tasks.runs import Run
from aitest_tasks.seed_tables import DIGEST, RANK, SEED_ID
from aitest_tasks.shown import FailureSample, ImageRows, Shown

NO_ANSWER = "the model gave no usable answer at some of the strengths"


@dataclass(frozen=True)
class Tried:
    """Everything tried by one search; arrays are (tried,): rank of the seed, level, place of the answer, distance, and
    artifact (`refs`) and row of the image."""

    ranks: NDArray[np.int64]
    levels: NDArray[np.int64]
    places: NDArray[np.int64]
    distance: NDArray[np.float64]
    source: NDArray[np.int64]
    row: NDArray[np.int64]
    refs: list[ArtifactRef]
    misfit: dict[int, str]  # by rank: why a seed has no case

    def at(self, ranks: NDArray[np.int64], levels: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where each rank was tried at its level, -1 where it was not."""
        place = {key: at for at, key in enumerate(zip(self.ranks.tolist(), self.levels.tolist(), strict=True))}
        return np.array([place.get(key, -1) for key in zip(ranks.tolist(), levels.tolist(), strict=True)], np.int64)


def score_searches(
    run: Run,
    index: int,
    job: dict[str, Any],
    base: Baseline,
    book: AnswerBook,
    errors: Errors,
    scorer: InvarianceScorer,
    log: CaseLog,
    sample: FailureSample,
) -> tuple[list[BreakingPoints], list[Figure]]:
    """Writes one case for each seed and search; returns what was found, and its figures."""
    found = searches(run, index)
    if not found or not job.get("searched"):
        return [], []
    made: list[Made] = run.store.get_json(ArtifactRef.of(job["searched"]))
    points: list[BreakingPoints] = []
    figures: list[Figure] = []
    fixed = len(components(run, index))
    for place, search in enumerate(found):
        own = [one for one in made if one["search"] == place]
        outcomes = ladder(run, search, base, book, own)
        tried = _tried(run, search, book, own)
        ended, reason = _outcomes(scorer, search, base, errors, outcomes, tried)
        start = 0
        for ref in run.seeds:
            ranks = np.arange(start, start + ref.rows)
            block, rows = _block(run, search, base, book, outcomes[ranks], tried, ended[ranks], reason[ranks], ranks, ref)
            log.add(block)
            sample.add(fixed + place, block, rows)
            start += ref.rows
        counted = (ended == PASSED) | (ended == FAILED)
        points.append(_points(search, outcomes[counted]))
        figures += _figures(search, outcomes[counted])
    return points, figures


def _tried(run: Run, search: StrengthSearch, book: AnswerBook, made: Sequence[Made]) -> Tried:
    strengths = search.search.strengths(search.identity, float(search.transform.strength_value or 0))
    parts: list[tuple[NDArray[Any], ...]] = []
    refs: list[ArtifactRef] = []
    misfit: dict[int, str] = {}
    for number, one in enumerate(made):
        ref = ArtifactRef.of(one["ref"])
        table = get_table(run.store, ref, [DIGEST, RANK, STATUS, DETAIL, DISTANCE])
        refs.append(content_of(table))
        ranks = table.column(RANK).to_numpy().astype(np.int64)
        levels = np.abs(strengths_of(one["job"])[:, None] - strengths).argmin(axis=1)
        status = table.column(STATUS).to_pylist()
        misfit |= {
            int(rank): why
            for rank, end, why in zip(ranks, status, table.column(DETAIL).to_pylist(), strict=True)
            if end == "not_applicable"
        }
        places = np.where([end is None for end in status], book.find(input_digests(run, table)), -1)
        rows = np.arange(len(ranks))
        parts.append((ranks, levels, places, table.column(DISTANCE).to_numpy(), np.full(len(ranks), number), rows))
    if not parts:
        empty = np.empty(0, np.int64)
        return Tried(empty, empty, empty, np.empty(0), empty, empty, [], {})
    ranks, levels, places, distance, source, row = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Tried(ranks, levels, places, distance, source, row, refs, misfit)


def _outcomes(
    scorer: InvarianceScorer, search: StrengthSearch, base: Baseline, errors: Errors, outcomes: Outcomes, tried: Tried
) -> tuple[NDArray[np.int8], NDArray[np.object_]]:
    """Outcome and reason of the case of each seed: failed where a strength was found that breaks its answer, passed where the
    answers at all coarse levels held. What the model gave no usable answer to may have broken it: such a case is an error."""
    coarse = outcomes[:, search.search.coarse()]
    broken = search.search.smallest(outcomes) > 0
    unfinished = (coarse == UNKNOWN).any(axis=1) | (search.search.next_levels(outcomes) > 0)
    unpaid = base.right & unfinished & errors.unpaid
    known = broken | (coarse == HELD).all(axis=1) | ~base.right  # what the model gets wrong untouched is not searched
    reason = np.full(len(known), NO_ANSWER, dtype=object)
    reason[known] = None
    on_case = Answered(known, unpaid, reason)
    skip = np.full(len(known), None, dtype=object)
    for rank in tried.misfit:
        skip[rank] = "not_applicable"
    return scorer.outcomes(skip, base.answered, on_case, base.right, ~broken)


def _block(
    run: Run,
    search: StrengthSearch,
    base: Baseline,
    book: AnswerBook,
    outcomes: Outcomes,
    tried: Tried,
    ended: NDArray[np.int8],
    reason: NDArray[np.object_],
    ranks: NDArray[np.int64],
    seeds_ref: ArtifactRef,
) -> tuple[CaseBlock, Shown]:
    seeds: pa.Table = get_table(run.store, seeds_ref)
    seed_ids = seeds.column(SEED_ID).to_pylist()
    smallest = search.search.smallest(outcomes)
    strongest = np.full(len(ranks), search.search.ladder)
    at = tried.at(ranks, np.where(smallest > 0, smallest, strongest))  # of an unbroken seed, the strongest is shown
    places = np.where(at >= 0, tried.places[at], -1) if len(tried.ranks) else np.full(len(ranks), -1)
    values = base.values(book, places, ranks)
    observed, expected = book.labels(places), book.labels(base.places[ranks])
    heard = None if base.transcripts is None else Hearing.of(base, book, ranks, places)
    score = own_scores(book, places, values) if heard is None else values
    configuration = {"search": search.search.key, **search.transform.parameters()}
    found = [search.strength_of(level) if level else None for level in smallest.tolist()]
    explanation: list[str | None] = [None] * len(ranks)
    for row in np.flatnonzero(ended == FAILED).tolist():
        own = None if np.isnan(score[row]) else float(score[row])
        if heard is not None:
            explanation[row] = heard.explained(row, search.name, search.transform.slice | {search.parameter: found[row]})
            continue
        explanation[row] = explain_image_case(
            search.name,
            {search.parameter: found[row]},
            unit_of(search.transform),
            text_of(expected[row]),
            text_of(observed[row]),
            own,
            found[row],
        )
    own_pixels = content_of(seeds)
    images = [
        (tried.refs[tried.source[place]], int(tried.row[place])) if place >= 0 else (own_pixels, row)
        for row, place in enumerate(at.tolist())
    ]
    block = CaseBlock(
        case_id=[case_id(seed, search.name, search.transform.version, {"breaking_point": configuration}) for seed in seed_ids],
        seed_id=seed_ids,
        transform=search.name,
        strength=found,
        params=[canonical_json({"breaking_point": configuration, search.parameter: one}) for one in found],
        expected=texts(expected),
        observed=texts(observed),
        score=score,
        outcome=ended,
        reason=reason,
        explanation=explanation,
        distance=np.where(at >= 0, tried.distance[at], 0.0) if len(tried.ranks) else np.zeros(len(ranks)),
        input_uri=[f"{run.store.url_of(ref.uri)}#{row}" for ref, row in images],
        asked=(outcomes[:, 1:] != UNKNOWN).sum(axis=1),
        ranks=ranks,
    )
    rows: Shown = ImageRows(run.store, seeds, images) if heard is None else heard.rows(run.store, seeds, images)
    return block, rows


def _points(search: StrengthSearch, outcomes: Outcomes) -> BreakingPoints:
    """What the searches of all counted seeds found."""
    smallest = search.search.smallest(outcomes)
    broken = smallest[smallest > 0]
    coarse = search.search.coarse()
    return BreakingPoints(
        transform=search.name,
        parameter=search.parameter,
        unit=unit_of(search.transform),
        levels=[search.strength_of(level) for level in coarse.tolist()],
        counts=np.bincount(np.searchsorted(coarse, broken), minlength=len(coarse)).tolist(),
        unbroken=int((smallest == 0).sum()),
        median=search.strength_of(int(np.sort(broken)[(len(broken) - 1) // 2])) if len(broken) else None,
        non_monotone=int(search.search.non_monotone(outcomes).sum()),
        queries_per_case=float((outcomes[:, 1:] != UNKNOWN).sum(axis=1).mean()) if len(outcomes) else 0.0,
    )


def _figures(search: StrengthSearch, outcomes: Outcomes) -> list[Figure]:
    """Share of seeds that no strength breaks, and the strength that breaks half of them."""
    smallest = search.search.smallest(outcomes)
    unbroken = int((smallest == 0).sum())
    level = median(np.where(smallest > 0, smallest, search.search.ladder + 1))
    return [
        Figure(name="unbroken_rate", slice=search.slice, estimate=wilson(unbroken, len(smallest)), component=True),
        Figure(
            name="median_breaking_point",
            slice=search.slice,
            estimate=_as_strength(search, level),
            unit=unit_of(search.transform) or "1",
            higher_is_better=search.strength_of(search.search.ladder) > search.identity,
            component=True,
        ),
    ]


def _as_strength(search: StrengthSearch, level: Estimate) -> Estimate:
    """A level of the ladder as a strength. Beyond its end nothing was tried: what held there stands at the strongest one, which
    is the least that the median can be."""
    most = search.search.ladder
    if level.value is None:
        return undefined("no seed was searched")
    reason = f"at least: most seeds held up to {search.strength_of(most):g}" if level.value > most else None
    value = search.strength_of(min(int(level.value), most))
    return Estimate(value=value, n=level.n, reason=reason, interval=partial(_bounds, search, level))


def _bounds(search: StrengthSearch, level: Estimate, confidence: float) -> tuple[float, float]:
    low, high = level.bounds(confidence) or (level.value or 0, level.value or 0)
    ends = [search.strength_of(min(max(int(one), 1), search.search.ladder)) for one in (low, high)]
    return min(ends), max(ends)
