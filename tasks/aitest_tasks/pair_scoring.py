"""Individual fairness: in how many real rows other protected values alone turn the decision, and which pairs a search found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from aitest_lib.answers import AnswerBook
from aitest_lib.artifacts.codecs import TableWriter
from aitest_lib.config.suite import PropertyConfig
from aitest_lib.reports.explain_fairness import explain_pair_case
from aitest_lib.reports.records_fairness import Flip, PairReport
from aitest_lib.reports.slices import rank_slices
from aitest_lib.scorers.figures import Figure
from aitest_lib.scorers.invariance import ERROR, FAILED, PASSED
from aitest_lib.stats.noise import taken_off, turned_by_chance
from aitest_lib.transforms.values import PutValues
from aitest_lib.types import ArtifactRef
from aitest_tasks import live
from aitest_tasks.baseline import Baseline, Errors, own_scores
from aitest_tasks.case_tables import CASE_ID
from aitest_tasks.cases import METADATA, CaseLog, cases_schema, text_of, texts
from aitest_tasks.components import components
from aitest_tasks.counterpart_cases import Part, block, own_baseline, parts
from aitest_tasks.counterparts import changed_columns, combinations
from aitest_tasks.inputs import input_digests
from aitest_tasks.pair_plans import Data, majority, own_flips, tied_answers, unanimous
from aitest_tasks.pair_search_report import with_search
from aitest_tasks.property_report import finish, setting, slice_figures
from aitest_tasks.querying import answer_book, run_errors
from aitest_tasks.runs import Run
from aitest_tasks.shown import FailureSample

CHANCE = "the {:.3f} that the model's own flips explain are taken off"
CONTRADICTED = "{:,} more rows were decided otherwise in most answers, but the model contradicted itself on them"


@dataclass
class Tally:
    """What became of the counterparts of a combination, by seed (seeds,). `told`: seed and counterpart are answered; `likely`:
    of those, the counterpart contradicts nothing in the data; `turned`: it was decided otherwise; `doubtful`: mostly, but the
    model contradicted itself on one of the two; `error`: no usable answer."""

    told: NDArray[np.bool_]
    likely: NDArray[np.bool_]
    turned: NDArray[np.bool_]
    doubtful: NDArray[np.bool_]
    error: NDArray[np.bool_]
    alone: NDArray[np.object_]  # the only column in which the counterpart differs, if there is one

    @classmethod
    def empty(cls, seeds: int) -> Tally:
        """Nothing is counted yet."""
        told, likely, turned, doubtful, error = np.zeros((5, seeds), bool)
        return cls(told, likely, turned, doubtful, error, np.full(seeds, None, dtype=object))


def score_pairs(run: Run, index: int, config: PropertyConfig, job: dict[str, Any]) -> dict[str, Any]:
    errors = Errors(run_errors(run), job["unpaid"] > 0)
    book = answer_book(run)
    base = own_baseline(run, book, errors, config)
    data = Data.of(run)
    notes = tied_answers(run, ArtifactRef.of(job["tied"]), book) if job.get("tied") else {}
    made, size = components(run, index), len(base.places)
    tallies = [Tally.empty(size) for _ in made]
    sample = FailureSample(len(made))
    with TableWriter(run.store, cases_schema(base.columns), METADATA) as writer:
        log = CaseLog(writer, config.property, base.columns)
        for number, part in enumerate(parts(run, index, job["cases"], book, base, errors)):
            same, doubtful = _same(run, base, part)
            ended = part.outcomes(base, same | doubtful)
            likely = data.counterparts.likely(data.frame.take(part.ranks), np.full(len(part.ranks), part.number))
            _count(tallies[part.number], part, ended[0], likely, doubtful)
            explanation = _explained(part, book, base, data, ended[0], likely, notes)
            done = block(run, part, book, texts(book.labels(base.places[part.ranks])), None, ended, explanation)
            sample.add(part.number, done, part.rows)
            log.add(done)
            live.progress(config.property, "score", number + 1, len(job["cases"]))
    confidence = float(setting(run.suite.suite, config, "confidence"))
    told, hit = _any([tally.told for tally in tallies]), _any([tally.turned for tally in tallies])
    sequential = bool(setting(run.suite.suite, config, "sequential"))
    figures = _figures(run, base, tallies, changed_columns(run), sequential)
    lost = _any([tally.error | tally.doubtful for tally in tallies]) & ~hit
    figures += slice_figures(run, config, base, told, None, ("prevalence", hit), lost)
    report = _report(run, index, data, base, tallies, figures, confidence)
    if job.get("pairs"):
        report, found, examples = with_search(run, report, data, base, ArtifactRef.of(job["pairs"]))
        figures += found
        sample.cases += examples
    ranked = rank_slices(base.columns, told, hit, confidence)
    return finish(run, config, figures, base, log, writer, sample, ranked, pairs=report)


def _same(run: Run, base: Baseline, part: Part) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which cases (cases,) are decided as their seeds are, and which of the others are doubtful.

    Of a model that does not always answer alike the majority counts, and what is decided otherwise is doubtful unless all
    answers to the row agree, and all to its counterpart: a row has many counterparts, and by majority alone a model that errs
    in one answer of twenty would turn one row of thirty without any bias.
    """
    before, after = base.answers[part.ranks], part.values
    firm = np.ones(len(part.ranks), bool)
    if not run.prepared["deterministic"]:
        rows, counterparts = base.digests[part.ranks], input_digests(run, part.cases)
        before = majority(run, base, rows, part.ranks)
        after = majority(run, base, counterparts, part.ranks)
        firm = unanimous(run, base, rows, part.ranks) & unanimous(run, base, counterparts, part.ranks)
    same = base.oracle.same(before, after)
    if base.oracle.classifier:
        same &= after >= 0
    return same, ~same & ~firm


def _count(tally: Tally, part: Part, outcome: NDArray[np.int8], likely: NDArray[np.bool_], doubtful: NDArray[np.bool_]) -> None:
    ranks, told = part.ranks, np.isin(outcome, (PASSED, FAILED))
    tally.told[ranks] = told
    tally.likely[ranks] = told & likely
    tally.turned[ranks] = outcome == FAILED
    tally.doubtful[ranks] = told & doubtful
    tally.error[ranks] = outcome == ERROR
    for rank, params in zip(ranks.tolist(), part.params, strict=True):
        if len(params["set"]) == 1:
            [tally.alone[rank]] = params["set"]


def _explained(
    part: Part,
    book: AnswerBook,
    base: Baseline,
    data: Data,
    outcome: NDArray[np.int8],
    likely: NDArray[np.bool_],
    notes: dict[str, tuple[dict[str, Any], Any]],
) -> list[str | None]:
    """A sentence for every failed case."""
    before, after = book.labels(base.places[part.ranks]), book.labels(part.places)
    scores = own_scores(book, part.places, part.values)
    rows, ids = part.rows, part.cases.column(CASE_ID).to_pylist()
    said: list[str | None] = [None] * len(outcome)
    for row in np.flatnonzero(outcome == FAILED).tolist():
        seed = rows.seed(row)
        changed = {name: (seed[name], text_of(value)) for name, value in rows.changed(row).items()}
        note = None if likely[row] else _note(part, data, row, notes.get(ids[row]))
        score = None if np.isnan(scores[row]) else float(scores[row])
        said[row] = explain_pair_case(changed, text_of(before[row]), text_of(after[row]), score, note)
    return said


def _note(part: Part, data: Data, row: int, tied: tuple[dict[str, Any], Any] | None) -> str | None:
    """What the data say against such a counterpart, and what is decided of the nearest one that they do have."""
    seed = data.frame.take([part.ranks[row]])
    changed = data.counterparts.apply(seed, np.array([part.number]))
    against = data.counterparts.contradictions(changed)
    if not against:
        return None
    said = f"hardly any row of the data has {' or '.join(against)}"
    if tied is None:
        return said
    moved = [f"{name} {text_of(value)}" for name, value in tied[0].items() if text_of(value) != text_of(_cell(changed, name))]
    return f"{said}; with {', '.join(moved)} it is {text_of(tied[1])}" if moved else said


def _cell(frame: pd.DataFrame, name: str) -> Any:
    value = frame[name].iloc[0]
    return value.item() if isinstance(value, np.generic) else value


def alone(tallies: list[Tally], name: str) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """The seeds with a counterpart in which this column alone differs, and those that one of these turned."""
    told = _any([tally.told & (tally.alone == name) for tally in tallies])
    return told, _any([tally.turned & (tally.alone == name) for tally in tallies])


def _any(masks: list[NDArray[np.bool_]]) -> NDArray[np.bool_]:
    return np.asarray(np.any(masks, axis=0))


def _figures(run: Run, base: Baseline, tallies: list[Tally], columns: list[str], sequential: bool) -> list[Figure]:
    """Prevalence over the real rows: of all counterparts, of those that contradict nothing, and of single columns."""
    every = [np.ones(len(base.places), bool)] * len(tallies)
    likely, flips = [tally.likely | ~tally.told for tally in tallies], own_flips(run, base)
    figures = [
        _prevalence("prevalence", {}, flips, base, tallies, every, sequential),
        _prevalence("likely_prevalence", {}, flips, base, tallies, likely, sequential),
    ]
    for name in columns if len(columns) > 1 else []:
        single = [tally.alone == name for tally in tallies]
        figures.append(_prevalence("prevalence", {"attribute": name}, flips, base, tallies, single, sequential))
    return figures


def _prevalence(
    name: str,
    where: dict[str, Any],
    flips: float,
    base: Baseline,
    tallies: list[Tally],
    counted: list[NDArray[np.bool_]],
    sequential: bool,
) -> Figure:
    """The share of rows that one of the counted counterparts turned; `counted`: by combination (seeds,); `flips`: the chance
    that an answer is not the one that the model mostly gives."""
    pairs = list(zip(tallies, counted, strict=True))
    told, hit = _any([tally.told & mask for tally, mask in pairs]), _any([tally.turned & mask for tally, mask in pairs])
    doubtful = _any([tally.doubtful & mask for tally, mask in pairs]) & ~hit
    lost = _any([tally.error & mask for tally, mask in pairs]) | doubtful
    estimate = base.share(hit, told, sequential)
    compared = float(np.sum([tally.told & mask for tally, mask in pairs]) / max(told.sum(), 1))
    chance = turned_by_chance(flips, compared)
    notes = [CONTRADICTED.format(doubtful.sum())] if doubtful.any() else []
    notes += [CHANCE.format(chance)] if chance else []
    return Figure(
        name=name,
        slice=where,
        estimate=estimate,
        judged=taken_off(estimate, chance) if chance else None,
        pessimistic=base.share(hit | lost, told | lost, sequential) if lost.any() else None,
        note="; ".join(notes) or None,
        higher_is_better=False,
    )


def _report(
    run: Run, index: int, data: Data, base: Baseline, tallies: list[Tally], figures: list[Figure], confidence: float
) -> PairReport:
    told, hit = _any([tally.told for tally in tallies]), _any([tally.turned for tally in tallies])
    likely = _any([tally.likely for tally in tallies])
    low, high = figures[0].estimate.bounds(confidence) or (None, None)
    likely_low, likely_high = figures[1].estimate.bounds(confidence) or (None, None)
    columns, tried = changed_columns(run), combinations(run)
    return PairReport(
        columns=columns,
        not_inputs=[name for name in run.suite.suite.data.protected if name not in columns],
        combinations=tried.every,
        tried=len(tried.values),
        rows=int(told.sum()),
        turned=int(hit.sum()),
        prevalence=figures[0].estimate.value,
        low=low,
        high=high,
        likely_rows=int(likely.sum()),
        likely_turned=int(_any([tally.likely & tally.turned for tally in tallies]).sum()),
        likely_prevalence=figures[1].estimate.value,
        likely_low=likely_low,
        likely_high=likely_high,
        ties=[why for tie in data.ties if set(tie.columns) & set(columns) for why in tie.evidence],
        flips=_flips(run, index, base, tallies, columns, confidence),
    )


def _flips(run: Run, index: int, base: Baseline, tallies: list[Tally], columns: list[str], confidence: float) -> list[Flip]:
    """What each other value did where nothing else changed, and what each combination did."""
    made, found = [component.given for component in components(run, index) if isinstance(component, PutValues)], []
    for name in columns if len(columns) > 1 else []:
        for value in dict.fromkeys(text_of(one[name]) for one in made if name in one):
            of_value = [tally for one, tally in zip(made, tallies, strict=True) if name in one and text_of(one[name]) == value]
            told, hit = alone(of_value, name)
            found.append(_flip({name: value}, told, hit, base, confidence))
    for one, tally in zip(made, tallies, strict=True):
        if len(one) > 1 or len(columns) == 1:  # what changes one of several columns stands above
            values = {name: text_of(value) for name, value in one.items()}
            found.append(_flip(values, tally.told, tally.turned, base, confidence))
    return found


def _flip(values: dict[str, str], told: NDArray[np.bool_], hit: NDArray[np.bool_], base: Baseline, confidence: float) -> Flip:
    estimate = base.share(hit, told, False)
    low, high = estimate.bounds(confidence) or (None, None)
    return Flip(values=values, rows=int(told.sum()), turned=int(hit.sum()), rate=estimate.value, low=low, high=high)
