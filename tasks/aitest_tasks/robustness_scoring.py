"""Perturbation properties: outcomes of cases against the answers on their seeds, component by component."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aitest_lib.answers import AnswerBook
from aitest_lib.artifacts.codecs import TableWriter, get_table
from aitest_lib.config.suite import PropertyConfig
from aitest_lib.reports.explain import explain_case, explain_image_case
from aitest_lib.reports.report import SliceFinding
from aitest_lib.reports.slices import rank_case_slices, rank_changes, rank_slices
from aitest_lib.scorers.invariance import ERROR, FAILED, InvarianceScorer, Tally
from aitest_lib.transforms.base import Transform, unit_of
from aitest_lib.types import ArtifactRef
from aitest_tasks import live
from aitest_tasks.attribution import attributions
from aitest_tasks.baseline import Baseline, Errors, own_scores, read_baseline
from aitest_tasks.breaking_scoring import score_searches
from aitest_tasks.case_tables import CASE_ID, DISTANCE, PARAMS, STATUS
from aitest_tasks.cases import METADATA, CaseBlock, CaseLog, cases_schema, text_of, texts
from aitest_tasks.components import components, searches
from aitest_tasks.contents import content_of
from aitest_tasks.corruption_error import corruption_figures
from aitest_tasks.flips import score_flips
from aitest_tasks.hearing import Heard, Hearing, clean_errors, component_figures, heard_seconds, speech_report, sweeps
from aitest_tasks.inputs import input_digests
from aitest_tasks.preparing import SELF_FLIP_REPEATS
from aitest_tasks.property_report import finish, setting, slice_figures
from aitest_tasks.querying import answer_book, run_errors
from aitest_tasks.runs import Run
from aitest_tasks.seed_tables import RANK, SEED_ID
from aitest_tasks.shown import FailureSample, ImageRows, Rows, Shown

NOT_APPLICABLE, NO_OP = "not_applicable", "no_op"
NOUNS = {"tabular": "row", "image": "image", "speech": "clip"}
MANY = 5  # components from which on nearly every seed fails in one of them: slices are then ranked by their failing cases


def score_perturbation(run: Run, index: int, config: PropertyConfig, job: dict[str, Any]) -> dict[str, Any]:
    errors = Errors(run_errors(run), job["unpaid"] > 0)
    book = answer_book(run)
    base = read_baseline(run, book, errors, config)
    made = components(run, index)
    scorer = InvarianceScorer(sequential=setting(run.suite.suite, config, "sequential"))
    ends = [set[Any]() for _ in made]
    tallies = [Tally.empty(item.slice, len(base.places)) for item in made]
    heard = [] if base.transcripts is None else [Heard.nothing(base.transcripts.references) for _ in made]
    sample = FailureSample(len(made) + len(searches(run, index)))
    shards = len(run.seeds)
    confidence = float(setting(run.suite.suite, config, "confidence"))
    changed: dict[str, NDArray[np.bool_]] = {}
    changes: list[SliceFinding] = []
    with TableWriter(run.store, cases_schema(base.columns), METADATA) as writer:
        log = CaseLog(writer, config.property, base.columns)
        for number, ref in enumerate(job["cases"]):
            component, shard = divmod(number, shards)
            block, rows = _score_shard(
                run,
                book,
                base,
                errors,
                scorer,
                made[component],
                tallies[component],
                ArtifactRef.of(ref),
                run.seeds[shard],
                heard[component] if heard else None,
            )
            sample.add(component, block, rows)
            ends[component] |= set(block.reason.tolist())
            for place, rank in enumerate(block.ranks):
                for column in rows.changed(place):
                    changed.setdefault(column, np.zeros(len(base.places), bool))[rank] = True
            if shard == shards - 1:
                tally = tallies[component]
                changes += rank_changes(made[component].name, changed, tally.trials, tally.failures, confidence)
                changed = {}
            log.add(block)
            live.progress(config.property, "score", number + 1, len(job["cases"]))
        points, found_figures = score_searches(run, index, job, base, book, errors, scorer, log, sample)
    figures = scorer.figures(tallies, _self_flips(run, base), base.labels is not None, base.descent)
    untouched = [(item.slice, why) for item, found in zip(made, ends, strict=True) if (why := _no_case(found, run.modality))]
    if base.transcripts is not None:
        clean = clean_errors(base, book)
        own = component_figures(tallies, heard, clean, base.transcripts.units)
        figures += [figure for part in own for figure in part]
    for slice, why in untouched:
        figures = [replace(one, inapplicable=why) if one.component and one.slice == slice else one for one in figures]
    figures += found_figures
    if job["baseline_errors"] is not None and base.labels is not None:
        figures += corruption_figures(job["baseline_errors"], tallies, run.suite.suite.random_seed)
    failing, counted = np.zeros((2, len(base.places)), np.int64)
    for tally in tallies:
        failing += tally.failures
        counted += tally.trials
    figures += slice_figures(run, config, base, counted > 0, tallies)
    if len(tallies) < MANY:
        ranked = rank_slices(base.columns, counted > 0, failing > 0, confidence)
    else:
        ranked = rank_case_slices(base.columns, counted, failing, confidence)
    found: dict[str, Any] = {"breaking_points": points}
    if base.transcripts is not None:
        units, known = base.transcripts.units, base.answered.known
        report = speech_report(base, clean, known, heard_seconds(base), confidence)
        levels = sweeps(made, tallies, heard, own, units, confidence)
        found["speech"] = report.model_copy(update={"sweeps": levels})
    if job.get("flips"):
        found["flips"], examples = score_flips(run, book, base, job["flips"]["job"], ArtifactRef.of(job["flips"]["ref"]))
        sample.cases += examples
    if job.get("attributed"):
        asked = run.store.get_json(ArtifactRef.of(job["attributed"]))
        found["attributions"] = attributions(run, made, asked, base, book)
    return finish(run, config, figures, base, log, writer, sample, ranked, changes=changes, **found)


def _no_case(ends: set[Any], modality: str) -> str | None:
    """Why a component has no case at all, None where it has; `ends`: how its cases ended."""
    if ends == {NOT_APPLICABLE}:
        return f"not applicable to any {NOUNS[modality]} of the data"
    return f"it leaves every {NOUNS[modality]} as it is" if ends and ends <= {NOT_APPLICABLE, NO_OP} else None


def _score_shard(
    run: Run,
    book: AnswerBook,
    base: Baseline,
    errors: Errors,
    scorer: InvarianceScorer,
    component: Transform,
    tally: Tally,
    ref: ArtifactRef,
    seeds_ref: ArtifactRef,
    into: Heard | None,
) -> tuple[CaseBlock, Shown]:
    cases = get_table(run.store, ref)
    seeds = get_table(run.store, seeds_ref)
    ranks = cases.column(RANK).to_numpy().astype(np.int64)
    digests = input_digests(run, cases)
    skip = np.array(cases.column(STATUS).to_pylist(), dtype=object)
    asked = np.array([text is None for text in skip], dtype=bool)
    places = np.where(asked, book.find(digests), -1)
    on_case = errors.answered(digests, places)
    on_case.error[~asked] = None
    on_case.unpaid[~asked] = False
    on_seed = base.answered
    seed_known = type(on_seed)(on_seed.known[ranks], on_seed.unpaid[ranks], on_seed.error[ranks])
    values = base.values(book, places, ranks)
    same = base.oracle.same(base.answers[ranks], values)
    if base.oracle.classifier:
        # A class that no label and no clean answer has is still an answer, and another one.
        same &= values >= 0
    outcome, reason = scorer.outcomes(skip, seed_known, on_case, base.right[ranks], same)
    effective = asked & on_case.known & seed_known.known
    labels = None if base.labels is None else base.labels[ranks]
    tally.effective[ranks] = effective
    tally.right_seed[ranks] = base.right[ranks]
    tally.right_case[ranks] = effective & base.oracle.right(values, labels)
    tally.same[ranks] = same
    tally.error[ranks] = outcome == ERROR
    observed = book.labels(places)
    expected = book.labels(base.places[ranks])
    params = [json.loads(text) for text in cases.column(PARAMS).to_pylist()]
    inputs = ref if run.modality == "tabular" else content_of(cases)
    where = [(inputs, row) for row in range(len(skip))]
    heard = Hearing.of(base, book, ranks, places) if base.transcripts is not None else None
    rows: Shown
    if heard is not None:
        rows, score = heard.rows(run.store, seeds, where), values
        if into is not None:
            into.put(ranks, heard.errors, params)
    else:
        rows = ImageRows(run.store, seeds, where) if run.modality == "image" else Rows(seeds, params)
        score = own_scores(book, places, values)
    explanation: list[str | None] = [None] * len(skip)
    for row in np.flatnonzero(outcome == FAILED).tolist():
        before, after = text_of(expected[row]), text_of(observed[row])
        own = None if np.isnan(score[row]) else float(score[row])
        if isinstance(rows, Rows):
            tolerance = None if base.oracle.classifier else base.oracle.tolerance
            changed = rows.changes(row, run.profile)
            explanation[row] = explain_case(component.name, changed, before, after, own, tolerance=tolerance)
        elif heard is not None:
            explanation[row] = heard.explained(row, component.name, component.slice | params[row])
        else:
            explanation[row] = explain_image_case(component.name, params[row], unit_of(component), before, after, own, None)
    return (
        CaseBlock(
            case_id=cases.column(CASE_ID).to_pylist(),
            seed_id=cases.column(SEED_ID).to_pylist(),
            transform=str(component.slice["transform"]),
            strength=[component.strength_value] * len(skip),
            params=cases.column(PARAMS).to_pylist(),
            expected=texts(expected),
            observed=texts(observed),
            score=score,
            outcome=outcome,
            reason=reason,
            explanation=explanation,
            distance=cases.column(DISTANCE).to_numpy(),
            input_uri=[f"{run.store.url_of(inputs.uri)}#{row}" for row in range(len(skip))],
            asked=asked,
            ranks=ranks,
        ),
        rows,
    )


def _self_flips(run: Run, base: Baseline) -> NDArray[np.float64] | None:
    """How often the model changed its own answer on each seed, over the repeats; None for a deterministic model."""
    if run.prepared["deterministic"]:
        return None
    ids = np.concatenate([input_digests(run, get_table(run.store, ref)) for ref in run.seeds])
    flips, asked = np.zeros(len(ids)), np.zeros(len(ids))
    for repeat in range(1, SELF_FLIP_REPEATS + 1):
        book = answer_book(run, repeat)
        places = book.find(ids)
        again = base.values(book, places, np.arange(len(places)))
        known = places >= 0
        asked += known
        flips += known & ~base.oracle.same(base.answers, again)
    return np.asarray(flips / np.maximum(asked, 1))
